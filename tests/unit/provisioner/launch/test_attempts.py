"""Launch calls in words, and how many of them a lease remembers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ec2spawner.core.offers.launch_errors import ErrorClass, LaunchError
from ec2spawner.core.offers.purchase import Offer
from ec2spawner.core.offers.sold_out import Mark
from ec2spawner.core.pricing.money import price_words
from ec2spawner.provisioner.launch import attempts
from ec2spawner.provisioner.launch.fleet_response import Outcome
from ec2spawner.provisioner.launch.launch_failure import MAX_CHARACTERS, launch_failure
from ec2spawner.provisioner.model.cloud.launch import FleetResponse
from ec2spawner.provisioner.model.leases.lease import Attempt, AttemptOutcome
from ec2spawner.wire import Market

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
SPOT, ON_DEMAND = Market.SPOT, Market.ON_DEMAND


def attempt(
    market: Market = SPOT, outcome: AttemptOutcome = AttemptOutcome.ASKING, minute: int = 0
) -> Attempt:
    at = NOON + timedelta(minutes=minute)
    return Attempt(market, ("g4dn.xlarge",), ("us-east-1a",), at, outcome=outcome)


def offer(zone: str, instance_type: str = "g4dn.xlarge", market: Market = SPOT) -> Offer:
    return Offer(market, instance_type, f"us-east-1{zone}", None)


def mark(found: ErrorClass = ErrorClass.OFFER, lasts: timedelta = timedelta(minutes=3)) -> Mark:
    return Mark(found, "Code", NOON, NOON + lasts)


@pytest.mark.parametrize(
    ("zones", "words"),
    [
        (["us-east-1b"], "us-east-1b"),
        (["us-east-1b", "us-east-1a"], "us-east-1a and b"),
        (["us-east-1c", "us-east-1b", "us-east-1a", "us-east-1a"], "us-east-1a, b and c"),
        (["us-east-1a", "us-east-1-bos-1a"], "us-east-1-bos-1a and us-east-1a"),
    ],
)
def test_zones_name_their_region_once(zones: list[str], words: str) -> None:
    assert attempts.zones_words(zones) == words


def test_many_types_are_summarized() -> None:
    assert attempts.types_words(["a"]) == "a"
    assert attempts.types_words(["a", "b"]) == "a and b"
    assert attempts.types_words(["a", "b", "c", "d"]) == "a and 3 other types"


def test_skipped_offers_are_grouped_by_reason_and_zone() -> None:
    skipped = [
        (offer("a"), mark()),
        (offer("b"), mark()),
        (offer("a", "g5.xlarge"), mark()),
        (offer("b", "g5.xlarge"), mark()),
        (offer("a", market=ON_DEMAND), mark(ErrorClass.TYPE_IN_ZONE)),
    ]
    assert attempts.skipped_words(skipped) == (
        "spot g4dn.xlarge and g5.xlarge in us-east-1a and b (sold out, seen at 12:00 UTC); "
        "on-demand g4dn.xlarge in us-east-1a (not offered, seen at 12:00 UTC)"
    )
    assert attempts.skipped_words([]) == ""


def test_the_summary_does_not_grow_with_the_offers() -> None:
    types = [f"g{number}.xlarge" for number in range(60)]
    skipped = [
        (offer("abcdef"[(n + m) % 6], name), mark())
        for n, name in enumerate(types)
        for m in range(1 + n % 5)
    ]
    words = attempts.skipped_words(skipped)
    assert words.endswith("; and more")
    assert len(words) < 600


def test_a_repeated_call_is_one_attempt_with_its_first_start() -> None:
    busy = attempt(outcome=AttemptOutcome.BUSY)
    [again] = attempts.begun([busy], attempt(minute=2))
    assert (again.at, again.outcome) == (NOON, AttemptOutcome.ASKING)
    assert len(attempts.begun([busy], attempt(ON_DEMAND))) == 2
    assert len(attempts.begun([attempt(outcome=AttemptOutcome.SOLD_OUT)], attempt())) == 2


@pytest.mark.parametrize(
    ("codes", "outcome", "words"),
    [
        (["VcpuLimitExceeded", "UnfulfillableCapacity"], AttemptOutcome.QUOTA, "in us-east-1a"),
        (
            ["UnauthorizedOperation", "InsufficientInstanceCapacity"],
            AttemptOutcome.SOLD_OUT,
            "in us-east-1a",
        ),
        (
            ["Throttling", "UnauthorizedOperation"],
            AttemptOutcome.REFUSED,
            "with UnauthorizedOperation: no",
        ),
        (["Throttling"], AttemptOutcome.BUSY, "(Throttling)"),
        ([], AttemptOutcome.SOLD_OUT, "in us-east-1a"),
    ],
)
def test_of_several_errors_the_decisive_one_is_reported(
    codes: list[str], outcome: AttemptOutcome, words: str
) -> None:
    answer = FleetResponse((), tuple(LaunchError(code, "no") for code in codes))
    failed = attempts.not_found(attempt(), answer, {})
    assert (failed.outcome, failed.answer) == (outcome, words)


def test_a_price_is_never_shown_as_zero() -> None:
    prices = [0.526, 0.0832, 0.0016, 24.48]
    assert [price_words(usd) for usd in prices] == [
        "$0.53/h",
        "$0.083/h",
        "$0.002/h",
        "$24.48/h",
    ]


def test_ec2_messages_are_one_line_at_most() -> None:
    words = attempts.error_words(LaunchError("Code", "You may\n not. " + "encoded " * 100))
    assert words.startswith("Code: You may not. encoded")
    assert words.endswith("…")
    assert len(words) < 130


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (LaunchError("AuthFailure", "may not"), "credentials are not valid"),
        (
            LaunchError("InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name"),
            "c.EC2Spawner.instance_profile",
        ),
        (LaunchError("InvalidParameterValue", "no"), "`ec2spawner check`"),
    ],
)
def test_a_refusal_has_a_fix(error: LaunchError, fix: str) -> None:
    stop = launch_failure(Outcome((error,), 1, ErrorClass.REFUSED), [], "", NOON)
    assert stop.reason == "failed"
    assert fix in stop.message


def test_of_several_refusals_one_is_reported_in_full() -> None:
    errors = [LaunchError(code, "It is so.") for code in ("First", "Second", "First", "Third")]
    stop = launch_failure(Outcome(tuple(errors), 1, ErrorClass.REFUSED), [], "", NOON)
    assert stop.message.endswith("(First: It is so.; also Second; also Third)")


def test_one_reason_is_reported_for_each_market_and_zone() -> None:
    offers = [
        (offer("a"), mark(ErrorClass.TYPE_IN_ZONE)),
        (offer("a", "g5.xlarge"), mark()),
        (offer("b"), mark(ErrorClass.TYPE_IN_ZONE)),
    ]
    message = launch_failure(Outcome((), 1), offers, "", NOON).message
    assert "spot is sold out in us-east-1a; spot is not offered in us-east-1b." in message


def test_a_home_zone_without_the_type_is_named() -> None:
    message = launch_failure(Outcome((), 1), [], "us-east-1a", NOON).message
    assert "right now: us-east-1a has no type that fits. Your home is in us-east-1a" in message


def test_a_long_wait_is_reported_with_its_day() -> None:
    offers = [(offer("a"), mark(ErrorClass.TYPE_IN_ZONE, timedelta(hours=24)))]
    stop = launch_failure(Outcome((), 1), offers, "", NOON)
    assert stop.message == (
        "EC2 has no machine of this kind available right now: spot is not offered in us-east-1a. "
        "Try again after 21 November, 12:00 UTC."
    )


NO_VOLTA = replace(mark(ErrorClass.UNUSABLE), why="The driver does not support the V100")


def test_a_gpu_that_the_image_does_not_support_is_not_available_later() -> None:
    """EC2 was not asked, and no time passes that would change it."""
    offers = [(offer("a", "p3.2xlarge"), NO_VOLTA), (offer("b", "p3.2xlarge"), NO_VOLTA)]
    message = launch_failure(Outcome((), 1), offers, "us-east-1a", NOON).message
    assert message.count("The driver does not support the V100.") == 1
    assert "c.EC2Spawner.image" in message
    assert "EC2 has no machine" not in message
    assert "Try again" not in message


def test_beside_an_unsupported_gpu_the_others_have_their_own_reason_and_time() -> None:
    offers = [(offer("a", "p3.2xlarge"), NO_VOLTA), (offer("a"), mark()), (offer("b"), None)]
    message = launch_failure(Outcome((), 1), offers, "", NOON).message
    assert "right now: spot is sold out in us-east-1a and b. Try again after 12:03" in message
    assert "c.EC2Spawner.image" in message
    assert message.endswith("The driver does not support the V100.")


def test_no_message_exceeds_its_maximum_length() -> None:
    error = LaunchError("UnauthorizedOperation", "x" * 5000)
    stop = launch_failure(Outcome((error,) * 5, 1, ErrorClass.REFUSED), [], "", NOON)
    assert len(stop.message) <= MAX_CHARACTERS
    kinds = ("g4dn.xlarge", "p3.2xlarge", "p5.48xlarge", "m5.large", "x1.16xlarge", "inf1.xlarge")
    quotas = [
        (offer("a", kind, market), mark(ErrorClass.QUOTA)) for kind in kinds for market in Market
    ]
    stop = launch_failure(Outcome((), 1), quotas, "us-east-1a", NOON)
    assert stop.reason == "quota"
    assert len(stop.message) <= MAX_CHARACTERS
