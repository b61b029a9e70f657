"""DescribeInstanceTypes: we choose the page, moto words it.

moto takes three seconds to word its whole table, and knows no pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import pages, protocol
from .moto_backend import Moto, RawAnswer
from .protocol import EC2Error

ACTION = "DescribeInstanceTypes"

MAX_NAMES = 100
"""Types that a request may name, from the API reference."""


async def describe(moto: Moto, parameters: Mapping[str, Any]) -> RawAnswer:
    """One page. Raises `InvalidInstanceType` for a type that does not exist."""
    named: Sequence[str] = parameters.get("InstanceTypes") or ()
    if len(named) > MAX_NAMES:
        raise EC2Error(
            "InvalidParameterValue", f"The request names more than {MAX_NAMES} instance types."
        )
    found = await moto.run(lambda: _matching(moto, parameters.get("Filters") or ()))
    if unknown := set(named) - set(found) - set(await moto.run(lambda: _matching(moto, ()))):
        raise EC2Error(
            "InvalidInstanceType",
            f"The following supplied instance types do not exist: [{', '.join(sorted(unknown))}]",
        )
    names, token = pages.asked(ACTION, parameters).of(
        [name for name in found if not named or name in named]
    )
    if not names:
        empty = protocol.render(ACTION, {"InstanceTypes": []})
        return RawAnswer(200, protocol.CONTENT_TYPE, empty)
    answer = await moto.forward_call(
        ACTION, {f"InstanceType.{n}": name for n, name in enumerate(names, 1)}
    )
    return RawAnswer(
        answer.status, answer.content_type, pages.with_token(ACTION, answer.body, token)
    )


def _matching(moto: Moto, filters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Only inside `moto.run`."""
    by_name = {each.get("Name", ""): each.get("Values") or [] for each in filters}
    try:
        found = moto.backend.describe_instance_types(None, by_name)
    except Exception as error:  # moto's errors are its web framework's
        message = f"The embedded EC2 does not do this: {error}"
        raise EC2Error("UnsupportedOperation", message) from error
    return sorted(kind["InstanceType"] for kind in found)
