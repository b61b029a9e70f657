"""What EC2's launch errors mean: what is sold out, for how long, and what is nobody's fault. Pure.

The classes are those that Karpenter and SkyPilot have come to, by years of other people's errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class LaunchError:
    """One entry of CreateFleet's `Errors`, or the error of the whole call."""

    code: str
    """EC2's code, such as `InsufficientInstanceCapacity`."""
    message: str
    instance_type: str = ""
    """Empty where the error is of the whole call, or does not say."""
    subnet: str = ""
    zone: str = ""


class ErrorClass(StrEnum):
    """What a code says, and so what is to be remembered of it."""

    OFFER = "offer"
    """This offer is sold out."""
    TYPE_IN_ZONE = "type-in-zone"
    """The zone does not have the type, in any market."""
    UNUSABLE = "unusable"
    """No code of EC2's: instances of the type report that none of them can work with its image."""
    QUOTA = "quota"
    """The account's limit: the market's whole quota class."""
    MARKET = "market"
    """The account may not buy in this market: spot lacks its service-linked role."""
    PLAN = "plan"
    """The account is on AWS's free plan, which does not have the type in any market or zone."""
    VERIFICATION = "verification"
    """AWS is still verifying the account: nothing is sold out and nothing refused, ask again."""
    SUBNET = "subnet"
    """The subnet has no free address."""
    BUSY = "busy"
    """EC2 throttles, fails, or does not know a new template yet: nothing is sold out, ask again."""
    REFUSED = "refused"
    """Permission or configuration: asking again, or for another market, cannot help."""


THROTTLES = frozenset(
    (
        "EC2ThrottledException RequestLimitExceeded RequestThrottled RequestThrottledException "
        "Throttling ThrottlingException TooManyRequestsException"
    ).split()
)
"""Too many calls: nothing was made, and nothing is sold out."""

_SERVER_FAULTS = frozenset(
    (
        "InternalError InternalFailure InternalServerError RequestTimeout RequestTimeoutException "
        "ServerInternal ServiceUnavailable ServiceUnavailableException Unavailable"
    ).split()
)

_NO_ANSWER = frozenset(
    (
        "BrokenPipeError ConnectTimeoutError ConnectionAbortedError ConnectionClosedError "
        "ConnectionError ConnectionRefusedError ConnectionResetError CredentialRetrievalError "
        "EndpointConnectionError HTTPClientError IncompleteReadError MetadataRetrievalError "
        "OSError ProxyConnectionError ReadTimeoutError ResponseParserError "
        "ResponseStreamingError SSLError Timeout TimeoutError gaierror"
    ).split()
)
"""Not EC2's codes but names of failures of the call itself."""

TEMPLATE_GONE = frozenset(
    {"InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound"}
)
"""EC2 does not know the launch template: not yet, or it was deleted. The next request finds it, or
creates it again."""

GROUP_UNKNOWN: Final = frozenset({"InvalidGroup.NotFound", "InvalidSecurityGroupID.NotFound"})
"""No such security group, or EC2 does not know a new one yet. Calls about network interfaces have
the second code, such as CreateNetworkInterface."""

PLACEMENT_GROUP_UNKNOWN: Final = "InvalidPlacementGroup.Unknown"
"""The same of placement groups."""

GROUP_NOT_KNOWN_YET: Final = "InvalidGroup.NotKnownYet"
"""No code of EC2's: a group of either kind is unknown that this process made a moment before."""

RESERVATION_FULL: Final = "ReservationCapacityExceeded"
"""The capacity reservation that a launch targets has no unused place."""

RESERVATION_GONE: Final = "InvalidCapacityReservation"
"""Prefix of the codes that say that the targeted capacity reservation does not exist or is not
active any more: it has ended since it was listed, and the market's own capacity is still there."""

PENDING_VERIFICATION: Final = "PendingVerification"
"""From "Error codes for the Amazon EC2 API": any action may answer it while AWS verifies the
account. "While normally resolved within minutes, please allow up to 4 hours", its message says
(skyplane-project/skyplane#799 has all of it)."""

FREE_PLAN: Final = "InvalidParameterCombination.FreeTier"
"""No code of EC2's, which says `InvalidParameterCombination` and means it by its message only."""

_PARAMETERS: Final = "InvalidParameterCombination"

_NOT_IN_FREE_PLAN: Final = "not eligible for free tier"
"""Part of "The specified instance type is not eligible for Free Tier. For a list of Free Tier
instance types, run 'describe-instance-types' with the filter 'free-tier-eligible=true'." (quoted in
LinkedInLearning/learning-terraform-3087701#345; in CreateFleet's errors too, aws/
karpenter-provider-aws#9004). An image is refused alike (bitnami/vms#1838)."""

_CAPACITY = frozenset(
    (
        "InsufficientCapacity InsufficientCapacityOnHost InsufficientHostCapacity "
        "InsufficientInstanceCapacity InsufficientReservedInstanceCapacity "
        "InsufficientVolumeCapacity SpotMaxPriceTooLow UnfulfillableCapacity"
    ).split()
) | {RESERVATION_FULL}

_CLASSES: Mapping[str, ErrorClass] = MappingProxyType(
    {
        **dict.fromkeys(_CAPACITY, ErrorClass.OFFER),
        # A fleet's own name for `Unsupported`.
        "InvalidFleetConfiguration": ErrorClass.TYPE_IN_ZONE,
        "Unsupported": ErrorClass.TYPE_IN_ZONE,
        "InstanceLimitExceeded": ErrorClass.QUOTA,
        "MaxFleetCountExceeded": ErrorClass.QUOTA,
        "MaxSpotInstanceCountExceeded": ErrorClass.QUOTA,
        "VcpuLimitExceeded": ErrorClass.QUOTA,
        "AuthFailure.ServiceLinkedRoleCreationNotPermitted": ErrorClass.MARKET,
        FREE_PLAN: ErrorClass.PLAN,
        PENDING_VERIFICATION: ErrorClass.VERIFICATION,
        "InsufficientFreeAddressesInSubnet": ErrorClass.SUBNET,
        GROUP_NOT_KNOWN_YET: ErrorClass.BUSY,
        **dict.fromkeys(THROTTLES | _SERVER_FAULTS | _NO_ANSWER | TEMPLATE_GONE, ErrorClass.BUSY),
    }
)

SOLD_OUT = frozenset(
    code
    for code, meaning in _CLASSES.items()
    if meaning not in {ErrorClass.BUSY, ErrorClass.PLAN, ErrorClass.VERIFICATION}
)
"""EC2's codes that say: not this offer now. Some come with HTTP 500, and yet they are clear
answers: nothing was made."""


def code_of(code: str, message: str) -> str:
    """EC2's code, or `FREE_PLAN` where only the message says what it means."""
    if code == _PARAMETERS and _NOT_IN_FREE_PLAN in message.lower():
        return FREE_PLAN
    return code


def error_class(code: str) -> ErrorClass:
    """What a code says. One that is not known to mean otherwise is refused.

    Where a call ended without EC2's answer, the code is the name of the transport's failure, or
    the HTTP status of a server that answered with a page in place of an error.
    """
    if code.isdecimal() and int(code) >= 500:
        return ErrorClass.BUSY
    if code.startswith(RESERVATION_GONE):
        return ErrorClass.OFFER
    return _CLASSES.get(code, ErrorClass.REFUSED)


_HINT = re.compile(r"\bcapacity by\b[^.]*\bchoosing\b([^.]*)")
_ZONE = re.compile(r"\b[a-z]{2,}(?:-[a-z0-9]+)*-\d[a-z]\b")


def zones_with_capacity(message: str) -> tuple[str, ...]:
    """The zones that EC2 names as having room, in its order; empty where it names none.

    "You can currently get g4dn.xlarge capacity by not specifying an Availability Zone in your
    request or choosing us-east-1a, us-east-1b." The zone that was refused stands before; the list
    in `Unsupported` is of zones that know the type, whether they have any or not.
    """
    hint = _HINT.search(message)
    return tuple(dict.fromkeys(_ZONE.findall(hint[1]))) if hint else ()
