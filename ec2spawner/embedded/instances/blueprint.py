"""What a launch asks for: a call's parameters over its template's, read as EC2 reads them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..api.protocol import EC2Error
from ..market.capacity import Offer
from ..market.reserved_places import BLOCK, Wish

MAX_USER_DATA = 16 * 1024
"""Bytes before base64: EC2's limit."""

Tags = Mapping[str, Mapping[str, str]]
"""Resource type -> tags."""


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What to launch, except for the offer to buy."""

    parameters: Mapping[str, Any]
    """RunInstances' parameters merged with a template's, without type, place, count and tags."""
    tags: Tags
    image: Mapping[str, Any]
    """As DescribeImages shows it."""
    user_data: bytes
    template: tuple[str, str] | None = None
    """Id and version of its launch template."""

    def wish(self, offer: Offer) -> Wish:
        """What it says of capacity reservations, of which none here is in a placement group. Raises
        EC2's errors."""
        specification = self.parameters.get("CapacityReservationSpecification")
        wish = Wish.of(specification, offer.market, in_block=self.market_type == BLOCK)
        if self.placement_group and wish.is_only:
            message = "The embedded EC2 has no capacity reservations in placement groups."
            raise EC2Error("UnsupportedOperation", message)
        return wish

    @property
    def market_type(self) -> str:
        """That of its InstanceMarketOptions; empty for none."""
        return str((self.parameters.get("InstanceMarketOptions") or {}).get("MarketType") or "")

    @property
    def placement_group(self) -> str:
        """Name of the placement group that it is launched into; empty for none."""
        return str((self.parameters.get("Placement") or {}).get("GroupName") or "")

    @property
    def volumes(self) -> int:
        """Number of EBS volumes that an instance begins with."""
        both = (self.image.get("BlockDeviceMappings"), self.parameters.get("BlockDeviceMappings"))
        mappings = [each for mappings in both for each in mappings or () if "Ebs" in each]
        return len({each.get("DeviceName") for each in mappings})

    @property
    def architecture(self) -> str:
        """EC2's name, such as `x86_64`."""
        return str(self.image.get("Architecture", "x86_64"))


def tag_specifications(specifications: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """TagSpecifications as resource type -> tags."""
    tags: dict[str, dict[str, str]] = {}
    for specification in specifications:
        of_type = tags.setdefault(specification["ResourceType"], {})
        for tag in specification.get("Tags", ()):
            of_type[tag["Key"]] = tag.get("Value", "")
    return tags


def merged_tags(template: Tags, call: Tags) -> dict[str, dict[str, str]]:
    """A call's tags over its template's."""
    kinds = template.keys() | call.keys()
    return {kind: {**template.get(kind, {}), **call.get(kind, {})} for kind in kinds}


def flatten_interface(parameters: dict[str, Any]) -> tuple[list[str], Mapping[str, Any]]:
    """Security groups and the first interface of a request; the groups may stand in either.

    An instance here has one interface and no public address, so its other fields are ignored.
    """
    interfaces = parameters.pop("NetworkInterfaces", None) or [{}]
    interface = interfaces[0]
    return list(parameters.get("SecurityGroupIds") or interface.get("Groups") or ()), interface


def check_placement(placement: Mapping[str, Any]) -> None:
    """Refuse what EC2 has and this does not."""
    given = {name for name, value in placement.items() if value}
    others = given - {"AvailabilityZone", "GroupName", "Tenancy"}
    if others or placement.get("Tenancy", "default") != "default":
        what = ", ".join(sorted(others)) or f"Tenancy {placement['Tenancy']}"
        message = f"The embedded EC2 launches no instance with Placement.{what}."
        raise EC2Error("UnsupportedOperation", message)


def read_user_data(parameters: Mapping[str, Any]) -> bytes:
    """The decoded user data. Raises EC2's errors for what is no base64, or too long."""
    try:
        decoded = base64.b64decode(parameters.get("UserData") or "", validate=True)
    except binascii.Error as error:
        raise EC2Error(
            "InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."
        ) from error
    if len(decoded) > MAX_USER_DATA:
        raise EC2Error("InvalidParameterValue", f"User data is limited to {MAX_USER_DATA} bytes")
    return decoded


def profile_name(profile: Mapping[str, str]) -> str:
    """The name in an IamInstanceProfile, which has a name or an ARN; empty for none."""
    return profile.get("Name") or profile.get("Arn", "").rpartition("/")[2]
