"""DescribeInstanceTypes and DescribeInstanceTypeOfferings, a page at a time.

moto knows no pages, and takes seconds to word all of its tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..api import pagination, protocol
from ..api.moto_backend import Moto, RawResponse
from ..api.protocol import EC2Error

ACTION = "DescribeInstanceTypes"
OFFERINGS = "DescribeInstanceTypeOfferings"

MAX_NAMES = 100
"""Types that a request may name, from the API reference."""

WILDCARDS = frozenset("*?[")
"""A filter's value is a pattern if it has one of these, and a name otherwise."""


async def describe(moto: Moto, parameters: Mapping[str, Any]) -> RawResponse:
    """One page of the types, which moto words. Raises `InvalidInstanceType` for an unknown one."""
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
    names, token = pagination.asked(ACTION, parameters).of(
        [name for name in found if not named or name in named]
    )
    if not names:
        empty = protocol.render(ACTION, {"InstanceTypes": []})
        return RawResponse(200, protocol.CONTENT_TYPE, empty)
    answer = await moto.forward_call(
        ACTION, {f"InstanceType.{n}": name for n, name in enumerate(names, 1)}
    )
    return RawResponse(
        answer.status, answer.content_type, pagination.with_token(ACTION, answer.body, token)
    )


async def offerings(moto: Moto, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """One page of which place has which type."""
    page = pagination.asked(OFFERINGS, parameters)
    by_name = _by_name(parameters.get("Filters") or ())
    where = parameters.get("LocationType")
    found = await moto.run(lambda: moto.backend.describe_instance_type_offerings(where, by_name))
    shown, token = page.of(found)
    return {"InstanceTypeOfferings": shown, **({"NextToken": token} if token else {})}


def _by_name(filters: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    return {each.get("Name", ""): each.get("Values") or [] for each in filters}


def _matching(moto: Moto, filters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Only inside `moto.run`."""
    by_name = _by_name(filters)
    # moto would compare every type with every name as a pattern: a second for a hub's types.
    patterns = by_name.pop("instance-type", None)
    try:
        found = moto.backend.describe_instance_types(None, by_name)
    except Exception as error:  # moto's errors are its web framework's
        message = f"The embedded EC2 does not do this: {error}"
        raise EC2Error("UnsupportedOperation", message) from error
    names = sorted(kind["InstanceType"] for kind in found)
    if patterns is None:
        return names
    exact = set(patterns)
    wildcards = [each for each in patterns if WILDCARDS.intersection(each)]
    return [
        name
        for name in names
        if name in exact or any(fnmatchcase(name, pattern) for pattern in wildcards)
    ]
