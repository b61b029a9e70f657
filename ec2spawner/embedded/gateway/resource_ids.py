"""The format of ids: EC2 refuses a malformed id before it searches for it.

Codes and messages are those of "Error codes for the Amazon EC2 API" and of EC2's answers. EC2 has
no such code for subnets and VPCs: a malformed id of those is not found, as in moto.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..api.protocol import EC2Error


@dataclass(frozen=True, slots=True)
class _Kind:
    prefix: str
    code: str
    message: str

    def check(self, given: str) -> None:
        # Eight digits until 2016, 17 since; both are in use.
        if not re.fullmatch(rf"{self.prefix}-(?:[0-9a-f]{{8}}|[0-9a-f]{{17}})", given):
            raise EC2Error(self.code, self.message.format(given))


_EXPECTING = 'Invalid id: "{{}}" (expecting "{}-...")'
_VALUE = "Value ({{}}) for parameter {} is invalid. Expected: '{}-...'."

_INSTANCE = _Kind("i", "InvalidInstanceID.Malformed", 'Invalid id: "{}"')
_VOLUME = _Kind("vol", "InvalidParameterValue", _VALUE.format("volumeId", "vol"))
_SNAPSHOT = _Kind("snap", "InvalidParameterValue", _VALUE.format("snapshotId", "snap"))
_IMAGE = _Kind("ami", "InvalidAMIID.Malformed", _EXPECTING.format("ami"))
_GROUP = _Kind("sg", "InvalidGroupId.Malformed", _EXPECTING.format("sg"))
_INTERFACE = _Kind("eni", "InvalidNetworkInterfaceId.Malformed", _EXPECTING.format("eni"))
_TEMPLATE = _Kind("lt", "InvalidLaunchTemplateId.Malformed", _EXPECTING.format("lt"))
_RESERVATION = _Kind("cr", "InvalidCapacityReservationId.Malformed", _EXPECTING.format("cr"))

KINDS: Mapping[str, _Kind] = {
    "CapacityReservationId": _RESERVATION,
    "CapacityReservationIds": _RESERVATION,
    "GroupId": _GROUP,
    "GroupIds": _GROUP,
    "Groups": _GROUP,
    "ImageId": _IMAGE,
    "ImageIds": _IMAGE,
    "InstanceId": _INSTANCE,
    "InstanceIds": _INSTANCE,
    "LaunchTemplateId": _TEMPLATE,
    "LaunchTemplateIds": _TEMPLATE,
    "NetworkInterfaceId": _INTERFACE,
    "NetworkInterfaceIds": _INTERFACE,
    "SecurityGroupIds": _GROUP,
    "SnapshotId": _SNAPSHOT,
    "SnapshotIds": _SNAPSHOT,
    "SourceVolumeId": _VOLUME,
    "VolumeId": _VOLUME,
    "VolumeIds": _VOLUME,
}
"""Parameter of a request, of any action -> the kind of id that it holds."""


def check(parameters: Mapping[str, Any]) -> None:
    """Raises `...Malformed`, or `InvalidParameterValue` where EC2 says that instead."""
    for name, given in parameters.items():
        kind = KINDS.get(name)
        if kind is not None:
            for each in [given] if isinstance(given, str) else given:
                kind.check(each)
