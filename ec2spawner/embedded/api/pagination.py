"""MaxResults and NextToken of Describe actions, which moto mostly ignores.

The bounds of MaxResults are those of botocore's model of EC2. Where it has none, they are those
of DescribeInstances.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from xml.etree import ElementTree

from botocore.model import ListShape

from . import protocol
from .protocol import EC2Error

T = TypeVar("T")

SMALLEST, LARGEST = 5, 1000

NOT_WITH: Mapping[str, str] = {
    "InstanceIds": "instancesSet",
    "SnapshotIds": "snapshotSet",
    "VolumeIds": "volumeSet",
}
"""Parameters that cannot be given together with MaxResults -> EC2's names of them."""


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a listing that a request asks for."""

    start: int
    size: int

    def of(self, items: Sequence[T]) -> tuple[Sequence[T], str | None]:
        """The items on this page, and the token of the next; None on the last."""
        end = self.start + self.size
        return items[self.start : end], token_from(end) if end < len(items) else None


@cache
def listed(action: str) -> str | None:
    """The member of the action's answer that comes in pages; None where nothing does."""
    model = protocol.operation(action)
    if model.input_shape is None or model.output_shape is None:
        return None
    paged = "MaxResults" in model.input_shape.members and "NextToken" in model.output_shape.members
    lists = [
        name for name, shape in model.output_shape.members.items() if isinstance(shape, ListShape)
    ]
    return lists[0] if action.startswith("Describe") and paged and len(lists) == 1 else None


def asked(action: str, parameters: Mapping[str, Any]) -> Page:
    """Raises `InvalidParameterValue` and `InvalidParameterCombination`, as EC2 does."""
    shape = protocol.operation(action).input_shape
    metadata = shape.members["MaxResults"].metadata if shape is not None else {}
    least, most = int(metadata.get("min", SMALLEST)), int(metadata.get("max", LARGEST))
    size = parameters.get("MaxResults")
    if size is not None:
        for name, called in NOT_WITH.items():
            if parameters.get(name):
                raise EC2Error(
                    "InvalidParameterCombination",
                    f"The parameter {called} cannot be used with the parameter maxResults",
                )
        if not least <= size <= most:
            raise EC2Error(
                "InvalidParameterValue",
                f"Value ( {size} ) for parameter maxResults is invalid. Expecting a value "
                f"between {least} and {most}.",
            )
    return Page(_start(parameters.get("NextToken")), size or most)


def without_page(form: Mapping[str, str]) -> dict[str, str]:
    """A request's form that asks for everything: without a number moto shows 15 templates."""
    rest = {name: text for name, text in form.items() if name != "NextToken"}
    return {**rest, "MaxResults": str(10**6)}


ID_TAGS: Mapping[str, str] = {
    "DescribeLaunchTemplates": "launchTemplateId",
    "DescribeNetworkInterfaces": "networkInterfaceId",
    "DescribeSecurityGroups": "groupId",
    "DescribeVolumes": "volumeId",
}
"""Action -> the tag that holds the id of each item in its answer."""


def cut(action: str, body: bytes, page: Page, hides: Callable[[str], bool]) -> bytes:
    """One page of an answer, in XML, that holds everything; without the ids that `hides` names."""
    root = ElementTree.fromstring(body)  # noqa: S314 - moto's own words
    namespace = root.tag[1:].partition("}")[0]
    shape = protocol.operation(action).output_shape
    name = listed(action)
    if shape is None or name is None:
        return body
    found = root.find(f"{{{namespace}}}{shape.members[name].serialization['name']}")
    if found is None:
        return body
    id_tag = f"{{{namespace}}}{ID_TAGS.get(action, '')}"
    shown_items = [item for item in found if not hides(item.findtext(id_tag) or "")]
    items, token = page.of(shown_items)
    found[:] = items
    if token is not None:
        ElementTree.SubElement(root, f"{{{namespace}}}nextToken").text = token
    shown: bytes = ElementTree.tostring(root, encoding="utf-8", default_namespace=namespace)
    return shown


def with_token(action: str, body: bytes, token: str | None) -> bytes:
    """An answer in XML that is a page already, with the token of the next one."""
    if token is None:
        return body
    end = f"</{action}Response>".encode()
    return body.replace(end, f"<nextToken>{token}</nextToken>".encode() + end)


def token_from(start: int) -> str:
    """The token of a page that begins there."""
    return base64.urlsafe_b64encode(f"from {start}".encode()).decode()


def _start(token: str | None) -> int:
    if not token:
        return 0
    try:
        word, start = base64.urlsafe_b64decode(token).decode().split()
        if word == "from" and start.isdigit():
            return int(start)
    except (binascii.Error, ValueError):
        pass
    raise EC2Error("InvalidParameterValue", "Unable to parse pagination token")
