"""AWS services that speak JSON instead of EC2's forms and XML: what all of them share."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from .protocol import EC2Error

CONTENT_TYPE = "application/x-amz-json-1.1"
MAX_PAGE = 100

T = TypeVar("T")


class JsonService(Protocol):
    """One AWS service behind the gateway."""

    async def answer(self, action: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to an action. None leaves it to moto; raises `EC2Error` as AWS would."""


def page(
    rows: Sequence[T], asked: Mapping[str, Any], bad_parameter: str, bad_token: str
) -> tuple[Sequence[T], dict[str, str]]:
    """The rows that MaxResults and NextToken ask for, and the NextToken of the answer.

    The two codes are what the service calls a bad MaxResults and a bad NextToken.
    """
    size = asked.get("MaxResults") or MAX_PAGE
    if not isinstance(size, int) or not 1 <= size <= MAX_PAGE:
        raise EC2Error(bad_parameter, f"MaxResults is between 1 and {MAX_PAGE}.")
    token = asked.get("NextToken")
    try:
        start = int(base64.urlsafe_b64decode(token)) if token else 0
    except (binascii.Error, ValueError, TypeError) as error:
        raise EC2Error(bad_token, "The next token is invalid.") from error
    end = start + size
    following = {"NextToken": base64.urlsafe_b64encode(str(end).encode()).decode()}
    return rows[start:end], following if end < len(rows) else {}
