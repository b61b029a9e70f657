"""The rules for tags, from "Tag your Amazon EC2 resources", with EC2's own messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..api.protocol import EC2Error

MAX_KEY = 128
"""Characters of a key."""
MAX_VALUE = 256
"""Characters of a value."""
MAX_TAGS = 50
"""Of one resource."""
RESERVED = "aws:"
"""Prefix of AWS's own keys, in upper or lower case."""

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0, and so a response of EC2, cannot contain. All others are allowed."""


def check(parameters: Mapping[str, Any]) -> None:
    """Raises `InvalidParameterValue` or `TagLimitExceeded` for the tags of a request.

    It checks the tags of CreateTags, of the resources that a request creates, and in the content of
    a launch template.
    """
    for tags in _lists_of_tags(parameters):
        _check_tags(tags)


def _lists_of_tags(parameters: Mapping[str, Any]) -> Iterator[Sequence[Mapping[str, Any]]]:
    yield parameters.get("Tags") or ()
    for holder in (parameters, parameters.get("LaunchTemplateData") or {}):
        for specification in holder.get("TagSpecifications") or ():
            yield specification.get("Tags") or ()


def _check_tags(tags: Sequence[Mapping[str, Any]]) -> None:
    keys = [tag.get("Key") or "" for tag in tags]
    for key, tag in zip(keys, tags, strict=True):
        _check_tag(key, tag.get("Value") or "")
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise _invalid(f"Duplicate tag key '{twice}' specified.")
    if len(keys) > MAX_TAGS:
        raise EC2Error(
            "TagLimitExceeded", "The maximum number of Tags for a resource has been reached."
        )


def _check_tag(key: str, value: str) -> None:
    if not key:
        raise _invalid("Tag key cannot be null or empty.")
    if key.lower().startswith(RESERVED):
        raise _invalid(
            f"Value ( {key} ) for parameter key is invalid. "
            f"Tag keys starting with '{RESERVED}' are reserved for internal use"
        )
    if _NOT_IN_XML.search(key + value):
        raise _invalid("Tag keys and values must not contain control characters")
    if len(key) > MAX_KEY:
        raise _invalid(f"Tag key exceeds the maximum length of {MAX_KEY} characters")
    if len(value) > MAX_VALUE:
        raise _invalid(f"Tag value exceeds the maximum length of {MAX_VALUE} characters")


def _invalid(message: str) -> EC2Error:
    return EC2Error("InvalidParameterValue", message)
