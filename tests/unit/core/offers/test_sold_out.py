"""What a launch call's errors mark: the right thing, for the right time, and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.offers.launch_errors import SOLD_OUT, ErrorClass, LaunchError, error_class
from ec2spawner.core.offers.purchase import OfferKey
from ec2spawner.core.offers.quotas import quota_class
from ec2spawner.core.offers.sold_out import MARKED_FOR, Mark, Scope, SoldOut
from ec2spawner.wire import Market

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
INSTANT = timedelta(microseconds=1)
SHORT = timedelta(minutes=3)
LONG = timedelta(hours=24)

TYPES = ("g4dn.xlarge", "g5.xlarge", "p4d.24xlarge", "p5.48xlarge", "m5.xlarge")
ZONES = MappingProxyType(
    {"subnet-a": "us-east-1a", "subnet-a2": "us-east-1a", "subnet-b": "us-east-1b"}
)
KEYS = tuple(OfferKey(*parts) for parts in product(Market, TYPES, ("us-east-1a", "us-east-1b")))
ASKED = (("g4dn.xlarge", "subnet-a"), ("g4dn.xlarge", "subnet-b"), ("g5.xlarge", "subnet-a"))
"""One launch call, of two zones."""

HINT = (
    "We currently do not have sufficient g4dn.xlarge capacity in the Availability Zone you "
    "requested (us-east-1a). You can currently get g4dn.xlarge capacity by not specifying an "
    "Availability Zone in your request or choosing us-east-1b."
)

markets = pytest.mark.parametrize("market", list(Market))


def learned(
    *errors: LaunchError,
    market: Market = Market.SPOT,
    asked: Sequence[tuple[str, str]] = ASKED,
    brought: Collection[tuple[str, str]] = (),
) -> SoldOut:
    """A memory that knows the answer of one launch call."""
    sold_out = SoldOut()
    sold_out.learn(market, asked, errors, brought, ZONES, NOW)
    return sold_out


def entry(code: str, message: str = "") -> LaunchError:
    """CreateFleet's error about one of the offers asked for."""
    return LaunchError(code, message, "g4dn.xlarge", "subnet-a", "us-east-1a")


def of_call(code: str, message: str = "") -> LaunchError:
    """An error of the whole call."""
    return LaunchError(code, message)


def marked(sold_out: SoldOut, now: datetime = NOW) -> set[OfferKey]:
    return {key for key in KEYS if sold_out.mark_of(key, now)}


def marked_subnets(sold_out: SoldOut, now: datetime = NOW) -> set[str]:
    return {subnet for subnet in ZONES if sold_out.mark_of_subnet(subnet, now)}


def keys(
    market: Market | None = None, types: Iterable[str] = TYPES, zone: str = ""
) -> set[OfferKey]:
    return {
        key
        for key in KEYS
        if market in (None, key.market) and key.instance_type in types and zone in ("", key.zone)
    }


# --- one code after the other -----------------------------------------------------------------

OFFER_CODES = sorted(code for code in SOLD_OUT if error_class(code) is ErrorClass.OFFER)
ZONE_CODES = sorted(code for code in SOLD_OUT if error_class(code) is ErrorClass.TYPE_IN_ZONE)
QUOTA_CODES = sorted(code for code in SOLD_OUT if error_class(code) is ErrorClass.QUOTA)
SUBNET_CODES = sorted(code for code in SOLD_OUT if error_class(code) is ErrorClass.SUBNET)
OF_THE_ACCOUNT = ("InvalidParameterCombination.FreeTier", "PendingVerification")
HARMLESS = (
    "RequestLimitExceeded",
    "Throttling",
    "InternalError",
    "503",
    "ReadTimeoutError",
    "UnauthorizedOperation",
    "InvalidAMIID.NotFound",
    "InvalidSubnetID.NotFound",
    "InvalidParameterValue",
    "IdempotentParameterMismatch",
    "a code of next year",
)


def holds_for(sold_out: SoldOut, duration: timedelta, expected: set[OfferKey]) -> None:
    """From now to the last instant before its end; a microsecond later nothing is marked."""
    assert marked(sold_out, NOW) == expected
    assert marked(sold_out, NOW + duration - INSTANT) == expected
    assert marked(sold_out, NOW + duration) == set()
    for key in expected:
        mark = sold_out.mark_of(key, NOW)
        assert mark is not None
        assert (mark.since, mark.until) == (NOW, NOW + duration)


@markets
@pytest.mark.parametrize("code", OFFER_CODES)
def test_sold_out_marks_the_offer_for_three_minutes(code: str, market: Market) -> None:
    sold_out = learned(entry(code), market=market)
    holds_for(sold_out, SHORT, {OfferKey(market, "g4dn.xlarge", "us-east-1a")})
    assert marked_subnets(sold_out) == set()


@markets
def test_a_type_outside_the_accounts_plan_is_marked_everywhere(market: Market) -> None:
    sold_out = learned(entry("InvalidParameterCombination.FreeTier"), market=market)
    holds_for(sold_out, MARKED_FOR[ErrorClass.PLAN], keys(types=["g4dn.xlarge"]))
    in_reservation = OfferKey(Market.ON_DEMAND, "g4dn.xlarge", "us-east-1b", "cr-1")
    assert sold_out.mark_of(in_reservation, NOW)


@markets
def test_an_account_that_aws_verifies_is_marked_as_a_whole_for_a_minute(market: Market) -> None:
    sold_out = learned(entry("PendingVerification"), market=market)
    holds_for(sold_out, timedelta(minutes=1), set(KEYS))
    assert sold_out.mark_of(OfferKey(Market.ON_DEMAND, "never.asked", "us-east-1f", "cr-1"), NOW)
    mark = sold_out.verification(NOW)
    assert mark is not None
    assert (mark.code, mark.again_at) == ("PendingVerification", NOW + timedelta(minutes=1))
    assert learned(entry("VcpuLimitExceeded")).verification(NOW) is None


@markets
@pytest.mark.parametrize("code", ZONE_CODES)
def test_unsupported_marks_the_type_in_the_zone_for_a_day(code: str, market: Market) -> None:
    sold_out = learned(entry(code), market=market)
    holds_for(sold_out, LONG, keys(types=["g4dn.xlarge"], zone="us-east-1a"))
    assert marked_subnets(sold_out) == set()


@markets
@pytest.mark.parametrize("code", QUOTA_CODES)
def test_quota_marks_the_class_in_its_market_for_three_minutes(code: str, market: Market) -> None:
    sold_out = learned(entry(code), market=market)
    holds_for(sold_out, SHORT, keys(market, types=["g4dn.xlarge", "g5.xlarge"]))
    assert marked_subnets(sold_out) == set()


@pytest.mark.parametrize(
    ("market", "same_class"),
    [
        (Market.ON_DEMAND, {"p4d.24xlarge", "p5.48xlarge"}),
        (Market.SPOT, {"p5.48xlarge"}),
    ],
)
def test_spot_has_a_quota_of_its_own_for_p5(market: Market, same_class: set[str]) -> None:
    error = LaunchError("VcpuLimitExceeded", "", "p5.48xlarge", "subnet-a", "us-east-1a")
    sold_out = learned(error, market=market, asked=[("p5.48xlarge", "subnet-a")])
    assert marked(sold_out) == keys(market, types=same_class)


@markets
@pytest.mark.parametrize("code", SUBNET_CODES)
def test_full_subnet_marks_only_itself_for_three_minutes(code: str, market: Market) -> None:
    sold_out = learned(entry(code), market=market)
    assert marked(sold_out) == set()
    assert marked_subnets(sold_out, NOW) == {"subnet-a"}
    assert marked_subnets(sold_out, NOW + SHORT - INSTANT) == {"subnet-a"}
    assert marked_subnets(sold_out, NOW + SHORT) == set()


@markets
@pytest.mark.parametrize("code", HARMLESS)
@pytest.mark.parametrize("error_of", [entry, of_call])
def test_throttles_faults_and_refusals_mark_nothing(
    code: str, market: Market, error_of: type[LaunchError]
) -> None:
    sold_out = learned(error_of(code, ""), market=market)
    assert sold_out.all(NOW) == ()


# --- errors that do not say of what they are --------------------------------------------------


@pytest.mark.parametrize("code", OFFER_CODES)
def test_call_error_applies_to_all_requested_offers(code: str) -> None:
    expected = {OfferKey(Market.SPOT, kind, ZONES[subnet]) for kind, subnet in ASKED}
    holds_for(learned(of_call(code)), SHORT, expected)


def test_call_error_spares_offers_that_gave_instances() -> None:
    sold_out = learned(of_call("UnfulfillableCapacity"), brought=[("g4dn.xlarge", "us-east-1b")])
    assert marked(sold_out) == {
        OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1a"),
        OfferKey(Market.SPOT, "g5.xlarge", "us-east-1a"),
    }


def test_partly_served_offer_refused_by_name_is_sold_out() -> None:
    sold_out = learned(
        entry("InsufficientInstanceCapacity"), brought=[("g4dn.xlarge", "us-east-1a")]
    )
    assert marked(sold_out) == {OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1a")}


def test_call_error_applies_to_an_only_offer_that_gave_a_part() -> None:
    sold_out = learned(
        of_call("InsufficientInstanceCapacity"),
        asked=[("g5.xlarge", "subnet-b")],
        brought=[("g5.xlarge", "us-east-1b")],
    )
    assert marked(sold_out) == {OfferKey(Market.SPOT, "g5.xlarge", "us-east-1b")}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            LaunchError("UnfulfillableCapacity", "", instance_type="g4dn.xlarge"),
            keys(Market.SPOT, ["g4dn.xlarge"]),
        ),
        (
            LaunchError("UnfulfillableCapacity", "", zone="us-east-1a"),
            keys(Market.SPOT, ["g4dn.xlarge", "g5.xlarge"], "us-east-1a"),
        ),
        (
            LaunchError("UnfulfillableCapacity", "", "g5.xlarge", subnet="subnet-a"),
            keys(Market.SPOT, ["g5.xlarge"], "us-east-1a"),
        ),
        (LaunchError("UnfulfillableCapacity", "", instance_type="m5.xlarge"), set()),
    ],
)
def test_error_marks_every_offer_it_may_mean(error: LaunchError, expected: set[OfferKey]) -> None:
    assert marked(learned(error)) == expected


@pytest.mark.parametrize("code", ZONE_CODES)
def test_unsupported_without_a_name_marks_no_type_for_a_day(code: str) -> None:
    """A shared error cannot say which of several it means: this market, and not for long."""
    expected = {OfferKey(Market.SPOT, kind, ZONES[subnet]) for kind, subnet in ASKED}
    holds_for(learned(of_call(code)), SHORT, expected)
    single = learned(of_call(code), asked=ASKED[:1])
    holds_for(single, LONG, keys(types=["g4dn.xlarge"], zone="us-east-1a"))


def test_quota_error_of_the_call_marks_every_requested_class() -> None:
    asked = [("g4dn.xlarge", "subnet-a"), ("m5.xlarge", "subnet-b")]
    sold_out = learned(of_call("MaxSpotInstanceCountExceeded"), asked=asked)
    assert marked(sold_out) == keys(Market.SPOT, ["g4dn.xlarge", "g5.xlarge", "m5.xlarge"])


def test_full_subnet_error_of_the_call_marks_all_its_subnets() -> None:
    sold_out = learned(of_call("InsufficientFreeAddressesInSubnet"))
    assert marked_subnets(sold_out) == {"subnet-a", "subnet-b"}


# --- EC2's hints ------------------------------------------------------------------------------


def test_hint_lifts_the_marks_of_its_zone_for_that_market_and_type() -> None:
    sold_out = SoldOut()
    both = [("g4dn.xlarge", "subnet-b"), ("g5.xlarge", "subnet-b")]
    errors = [of_call("UnfulfillableCapacity")]
    for market in Market:
        sold_out.learn(market, both, errors, (), ZONES, NOW)
    later = NOW + timedelta(minutes=1)
    refused = [entry("InsufficientInstanceCapacity", HINT)]
    sold_out.learn(Market.SPOT, ASKED[:1], refused, (), ZONES, later)
    hinted = OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1b")
    assert marked(sold_out, later) == {
        OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1a"),
        OfferKey(Market.SPOT, "g5.xlarge", "us-east-1b"),
        OfferKey(Market.ON_DEMAND, "g4dn.xlarge", "us-east-1b"),
        OfferKey(Market.ON_DEMAND, "g5.xlarge", "us-east-1b"),
    }
    assert {key for key in KEYS if sold_out.is_hinted(key, later)} == {hinted}
    assert sold_out.is_hinted(hinted, later + SHORT - INSTANT)
    assert not sold_out.is_hinted(hinted, later + SHORT)


def test_hint_lifts_the_mark_of_a_missing_type() -> None:
    sold_out = learned(LaunchError("Unsupported", "", "g4dn.xlarge", "subnet-b", "us-east-1b"))
    error = entry("InsufficientInstanceCapacity", HINT)
    sold_out.learn(Market.SPOT, ASKED[:1], [error], (), ZONES, NOW)
    assert marked(sold_out) == {OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1a")}


def test_hint_lifts_no_quota() -> None:
    sold_out = learned(entry("VcpuLimitExceeded"))
    error = entry("InsufficientInstanceCapacity", HINT)
    sold_out.learn(Market.SPOT, ASKED[:1], [error], (), ZONES, NOW)
    hinted = OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1b")
    assert sold_out.mark_of(hinted, NOW)
    assert not sold_out.is_hinted(hinted, NOW)


@pytest.mark.parametrize("number", [1, -1])
def test_offers_refused_in_the_same_response_stay_sold_out_despite_a_hint(number: int) -> None:
    """Two refusals, each pointing at the other, must not send us round in circles."""
    elsewhere = HINT.replace("us-east-1b", "us-east-1a")
    errors = [
        entry("InsufficientInstanceCapacity", HINT),
        LaunchError(
            "InsufficientInstanceCapacity", elsewhere, "g4dn.xlarge", "subnet-b", "us-east-1b"
        ),
    ]
    sold_out = learned(*errors[::number])
    assert marked(sold_out) == keys(Market.SPOT, ["g4dn.xlarge"])
    assert not any(sold_out.is_hinted(key, NOW) for key in KEYS)


def test_refusal_after_a_hint_overrides_it() -> None:
    sold_out = learned(entry("InsufficientInstanceCapacity", HINT))
    later = NOW + timedelta(minutes=1)
    refused = LaunchError(
        "InsufficientInstanceCapacity", "", "g4dn.xlarge", "subnet-b", "us-east-1b"
    )
    sold_out.learn(Market.SPOT, ASKED, [refused], (), ZONES, later)
    hinted = OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1b")
    assert not sold_out.is_hinted(hinted, later)
    assert sold_out.mark_of(hinted, later)


def test_hint_of_the_call_applies_to_the_type_it_names() -> None:
    sold_out = learned(of_call("InsufficientInstanceCapacity", HINT), asked=[ASKED[0], ASKED[2]])
    hinted = {key for key in KEYS if sold_out.is_hinted(key, NOW)}
    assert hinted == {OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1b")}


# --- the memory -------------------------------------------------------------------------------


def test_another_refusal_renews_the_mark_and_keeps_its_start() -> None:
    sold_out = learned(entry("InsufficientInstanceCapacity"))
    later = NOW + timedelta(minutes=2)
    sold_out.learn(Market.SPOT, ASKED, [entry("UnfulfillableCapacity")], (), ZONES, later)
    mark = sold_out.mark_of(OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1a"), later)
    assert mark == Mark(ErrorClass.OFFER, "UnfulfillableCapacity", NOW, later + SHORT)
    much_later = NOW + timedelta(hours=1)
    sold_out.learn(Market.SPOT, ASKED, [entry("UnfulfillableCapacity")], (), ZONES, much_later)
    anew = sold_out.mark_of(OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1a"), much_later)
    assert anew is not None
    assert anew.since == much_later


def test_of_several_marks_the_longest_is_returned() -> None:
    sold_out = learned(entry("Unsupported"), entry("InsufficientInstanceCapacity"))
    key = OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1a")
    mark = sold_out.mark_of(key, NOW)
    assert mark is not None
    assert (mark.error_class, mark.code) == (ErrorClass.TYPE_IN_ZONE, "Unsupported")


def test_marks_for_the_page_are_sorted_by_their_end() -> None:
    sold_out = learned(
        entry("Unsupported"),
        entry("VcpuLimitExceeded"),
        entry("InsufficientFreeAddressesInSubnet"),
        LaunchError("InsufficientInstanceCapacity", "", "g5.xlarge", "subnet-a", "us-east-1a"),
    )
    scopes = [scope for scope, _ in sold_out.all(NOW)]
    assert scopes[-1] == Scope(None, "g4dn.xlarge", "us-east-1a")
    assert set(scopes[:-1]) == {
        Scope(Market.SPOT, "g5.xlarge", "us-east-1a"),
        Scope(Market.SPOT, quota_class=quota_class(Market.SPOT, "g4dn.xlarge")),
        Scope(subnet="subnet-a"),
    }
    assert [scope for scope, _ in sold_out.all(NOW + SHORT)] == scopes[-1:]


def test_expired_marks_are_dropped() -> None:
    sold_out = learned(entry("InsufficientInstanceCapacity", HINT), entry("Unsupported"))
    sold_out.forget_old(NOW + SHORT)
    # Asked about an instant before: what was forgotten does not come back.
    assert [scope for scope, _ in sold_out.all(NOW)] == [Scope(None, "g4dn.xlarge", "us-east-1a")]
    assert not sold_out.is_hinted(OfferKey(Market.SPOT, "g4dn.xlarge", "us-east-1b"), NOW)


CODES = [*sorted(SOLD_OUT), *OF_THE_ACCOUNT, *HARMLESS]


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[tuple[str, str]], list[LaunchError]]:
    """A launch call and its errors: each about one of its offers, or about the whole call."""
    places = st.tuples(st.sampled_from(TYPES), st.sampled_from(["subnet-a", "subnet-b"]))
    asked = draw(st.lists(places, min_size=1, max_size=4, unique=True))
    errors = []
    for code in draw(st.lists(st.sampled_from(CODES), max_size=4)):
        kind, subnet = draw(st.sampled_from([*asked, ("", "")]))
        errors.append(LaunchError(code, draw(st.sampled_from(["", HINT])), kind, subnet))
    return asked, errors


@given(answers(), st.sampled_from(list(Market)))
def test_no_response_marks_more_than_it_can_mean(
    answer: tuple[list[tuple[str, str]], list[LaunchError]], market: Market
) -> None:
    asked, errors = answer
    sold_out = learned(*errors, market=market, asked=asked)
    offers = {(kind, ZONES[subnet]) for kind, subnet in asked}
    classes = {quota_class(market, kind) for kind, _ in asked}
    error_classes = {error_class(error.code) for error in errors}
    for scope, mark in sold_out.all(NOW):
        assert mark.code in {error.code for error in errors}
        assert mark.until - NOW == MARKED_FOR[mark.error_class]
        match mark.error_class:
            case ErrorClass.QUOTA:
                assert scope == Scope(market, quota_class=scope.quota_class)
                assert scope.quota_class in classes
            case ErrorClass.MARKET:
                assert scope == Scope(market)
            case ErrorClass.VERIFICATION:
                assert scope == Scope()
            case ErrorClass.PLAN:
                assert scope == Scope(instance_type=scope.instance_type)
                assert scope.instance_type in {kind for kind, _ in asked}
            case ErrorClass.SUBNET:
                assert scope == Scope(subnet=scope.subnet)
                assert scope.subnet in {subnet for _, subnet in asked}
            case ErrorClass.TYPE_IN_ZONE:
                assert (scope.instance_type, scope.zone) in offers
                assert scope.market is None
            case _:
                assert (scope.instance_type, scope.zone) in offers
                assert scope.market is market
    if error_classes <= {ErrorClass.BUSY, ErrorClass.REFUSED}:
        assert sold_out.all(NOW) == ()


@given(answers(), st.sampled_from(list(Market)))
def test_an_identical_second_start_requests_nothing_refused_by_name(
    answer: tuple[list[tuple[str, str]], list[LaunchError]], market: Market
) -> None:
    asked, errors = answer
    sold_out = learned(*errors, market=market, asked=asked)
    for error in errors:
        if error.instance_type and error.code in SOLD_OUT:
            key = OfferKey(market, error.instance_type, ZONES[error.subnet])
            assert sold_out.mark_of(key, NOW) or sold_out.mark_of_subnet(error.subnet, NOW)
