"""What EC2's codes mean, and where its own words say that there is room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.aws.calls.errors import cloud_error
from ec2spawner.core.offers.launch_errors import (
    SOLD_OUT,
    THROTTLES,
    ErrorClass,
    code_of,
    error_class,
    zones_with_capacity,
)

CODES = {
    ErrorClass.OFFER: (
        "InsufficientCapacity",
        "InsufficientCapacityOnHost",
        "InsufficientHostCapacity",
        "InsufficientInstanceCapacity",
        "InsufficientReservedInstanceCapacity",
        "InsufficientVolumeCapacity",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
        "UnfulfillableCapacity",
    ),
    ErrorClass.TYPE_IN_ZONE: ("InvalidFleetConfiguration", "Unsupported"),
    ErrorClass.QUOTA: (
        "InstanceLimitExceeded",
        "MaxFleetCountExceeded",
        "MaxSpotInstanceCountExceeded",
        "VcpuLimitExceeded",
    ),
    ErrorClass.MARKET: ("AuthFailure.ServiceLinkedRoleCreationNotPermitted",),
    ErrorClass.PLAN: ("InvalidParameterCombination.FreeTier",),
    ErrorClass.VERIFICATION: ("PendingVerification",),
    ErrorClass.SUBNET: ("InsufficientFreeAddressesInSubnet",),
    ErrorClass.BUSY: (
        *sorted(THROTTLES),
        "InternalError",
        "InvalidLaunchTemplateName.NotFoundException",
        "ServiceUnavailable",
        "Unavailable",
        "ReadTimeoutError",
        "500",
        "503",
    ),
    ErrorClass.REFUSED: (
        "AuthFailure",
        "IdempotentParameterMismatch",
        "InvalidAMIID.NotFound",
        "InvalidParameterCombination",
        "InvalidParameterValue",
        "InvalidSubnetID.NotFound",
        "NoCredentialsError",
        "UnauthorizedOperation",
        "VolumeLimitExceeded",
        "404",
        "a code of next year",
        "",
    ),
}


@pytest.mark.parametrize(
    ("code", "expected"), [(code, found) for found, codes in CODES.items() for code in codes]
)
def test_class_of_a_code(code: str, expected: ErrorClass) -> None:
    assert error_class(code) is expected


NOT_SOLD_OUT = {ErrorClass.BUSY, ErrorClass.REFUSED, ErrorClass.PLAN, ErrorClass.VERIFICATION}


def test_sold_out_errors_are_those_another_offer_may_avoid() -> None:
    no_code_of_ec2s = {ErrorClass.UNUSABLE}
    fixed = set(ErrorClass) - NOT_SOLD_OUT - no_code_of_ec2s
    assert {code for found in fixed for code in CODES[found]} == SOLD_OUT
    assert SOLD_OUT.isdisjoint(THROTTLES)


@given(st.text(max_size=30))
def test_every_code_has_a_class(code: str) -> None:
    assert (code in SOLD_OUT) == (error_class(code) not in NOT_SOLD_OUT)


@pytest.mark.parametrize("what", ["instance type", "image"])
def test_a_type_outside_the_free_plan_is_known_by_ec2s_message(what: str) -> None:
    message = f"The specified {what} is not eligible for Free Tier. For a list of Free Tier"
    assert error_class(code_of("InvalidParameterCombination", message)) is ErrorClass.PLAN
    other = "You cannot specify tags for Spot instances requests"
    assert code_of("InvalidParameterCombination", other) == "InvalidParameterCombination"
    assert code_of("InvalidParameterValue", message) == "InvalidParameterValue"


def failures_of_the_transport() -> Iterator[type[Exception]]:
    """Every way in which botocore says that there was no answer, and those of sockets."""
    roots: list[type[Exception]] = [boto.ConnectionError, boto.HTTPClientError, ResponseParserError]
    while roots:
        root = roots.pop()
        if root.__module__.startswith("botocore."):
            yield root
        roots += root.__subclasses__()
    yield from (boto.IncompleteReadError, boto.CredentialRetrievalError)
    yield from (boto.MetadataRetrievalError, OSError, ConnectionResetError, BrokenPipeError)


@pytest.mark.parametrize("kind", sorted(set(failures_of_the_transport()), key=str))
def test_a_lost_response_counts_as_busy(kind: type[Exception]) -> None:
    """aws names it by its exception, and core knows the name: two places, one truth."""
    fields = {"error": "it", "endpoint_url": "http://ec2", "proxy_url": "http://proxy"}
    fields |= {"actual_bytes": "1", "expected_bytes": "2", "provider": "p", "error_msg": "m"}
    lost = kind(**fields) if issubclass(kind, boto.BotoCoreError) else kind("it")
    translated = cloud_error(lost)
    assert translated.retryable
    assert error_class(translated.code) is ErrorClass.BUSY


# --- the hint ---------------------------------------------------------------------------------

REFUSED = (
    "We currently do not have sufficient g4dn.xlarge capacity in the Availability Zone you "
    "requested (us-east-1c). Our system will be working on provisioning additional capacity. "
)
ADVICE = (
    "You can currently get g4dn.xlarge capacity by not specifying an Availability Zone in your "
    "request or choosing "
)


UNSUPPORTED = (
    "Your requested instance type (g4dn.xlarge) is not supported in your requested Availability "
    "Zone (us-east-1e). Please retry your request by not specifying an Availability Zone or "
    "choosing us-east-1a, us-east-1b."
)


@pytest.mark.parametrize(
    ("message", "zones"),
    [
        (REFUSED + ADVICE + "us-east-1a, us-east-1b.", ("us-east-1a", "us-east-1b")),
        (ADVICE + "us-east-1a", ("us-east-1a",)),
        (ADVICE + "us-gov-west-1a, us-west-2-lax-1a.", ("us-gov-west-1a", "us-west-2-lax-1a")),
        (
            ADVICE + "us-east-2b, us-east-2b or us-east-2a. Not us-east-2c.",
            ("us-east-2b", "us-east-2a"),
        ),
        (REFUSED, ()),
        (ADVICE, ()),
        (UNSUPPORTED, ()),
        ("", ()),
    ],
)
def test_zones_with_capacity(message: str, zones: tuple[str, ...]) -> None:
    assert zones_with_capacity(message) == zones


@given(st.text(max_size=200))
def test_any_message_is_read(message: str) -> None:
    zones = zones_with_capacity(ADVICE + message)
    assert all(zone in message for zone in zones)
    assert len(set(zones)) == len(zones)
