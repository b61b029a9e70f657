"""The filters of a Describe action: EC2 refuses any other, where moto returns nothing or all.

The names are those of EC2's API reference, which botocore's model of EC2 contains: the
documentation of an action's `Filters` is a list with a name at the start of each item.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from html import unescape
from html.parser import HTMLParser
from typing import Any

from ..api import protocol
from ..api.protocol import EC2Error

MAX_VALUES = 200
"""Values of one filter, from "Filter API results" in EC2's developer guide."""

MAX_LENGTH = 255
"""Characters of one value, as EC2's `FilterLimitExceeded` says."""

OF_TAG = "tag:<key>"
"""The filter for any tag. The reference writes it in two ways."""

_ALSO_CALLED = re.compile(r"also use <code>([^<]+)</code>")


def check(action: str, parameters: Mapping[str, Any]) -> None:
    """Raises `InvalidParameterValue` for a filter that EC2 does not document for the action.

    An action whose reference names no filters is not checked.
    """
    asked: Sequence[Mapping[str, Any]] = parameters.get("Filters") or ()
    known = documented(action) if asked else frozenset()
    for each in asked:
        name = each.get("Name", "")
        if known and (OF_TAG if _is_tag(name) else name) not in known:
            raise EC2Error("InvalidParameterValue", f"The filter '{name}' is invalid")
        values = each.get("Values") or ()
        if len(values) > MAX_VALUES:
            raise EC2Error(
                "FilterLimitExceeded",
                f"The maximum number of filter values specified on a single call is {MAX_VALUES}",
            )
        if any(len(value) > MAX_LENGTH for value in values):
            raise EC2Error(
                "FilterLimitExceeded",
                f"The maximum length for a filter value is {MAX_LENGTH} characters",
            )


@cache
def documented(action: str) -> frozenset[str]:
    """The names of an action's filters; empty where its reference names none."""
    shape = protocol.operation(action).input_shape
    if shape is None or "Filters" not in shape.members:
        return frozenset()
    text = shape.members["Filters"].documentation
    reader = _FirstWords()
    reader.feed(text)
    names = {*reader.found, *map(unescape, _ALSO_CALLED.findall(text))}
    return frozenset(OF_TAG if name == "tag" else name for name in names)


def _is_tag(name: str) -> bool:
    return name.startswith("tag:") and len(name) > len("tag:")


class _FirstWords(HTMLParser):
    """The first `<code>` of each item of the outer list: the inner ones list values."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._depth = 0
        self._awaited = False
        self._in_code = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "ul":
            self._depth += 1
        elif tag == "li":
            self._awaited = self._depth == 1
        elif tag == "code" and self._awaited:
            self._awaited, self._in_code = False, True
            self.found.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "ul":
            self._depth -= 1
        elif tag == "code":
            self._in_code = False

    def handle_data(self, data: str) -> None:
        if self._in_code:
            self.found[-1] += data.strip()
