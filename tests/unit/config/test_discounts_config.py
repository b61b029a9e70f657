"""`c.EC2Spawner.discounts`: accepted as an admin writes them, or refused with the fix."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.config import ConfigError, DiscountConfig, Options, validate_options
from ec2spawner.core.pricing.discounts import Discount

GOOD: dict[str, Any] = {
    "region": "us-east-1",
    "subnets": ["subnet-0a1b2c3d"],
    "image": "ami-0a1b2c3d",
}
A10G = {"instance_type": "g5.xlarge", "usd_per_hour": 0.63, "count": 4}


def options(*discounts: Any) -> Options:
    raw = {**GOOD, "discounts": list(discounts)}
    return validate_options(raw, cleanup_servers=False, environ={})


def discount(**changed: Any) -> Discount:
    (config,) = options({**A10G, **changed}).discounts
    return config.discount()


def refusal(*discounts: Any) -> str:
    with pytest.raises(ConfigError) as error:
        options(*discounts)
    return str(error.value)


def test_the_example_of_the_design() -> None:
    found = discount(until="2027-03-01")
    assert (found.instance_type, found.usd_per_hour, found.count) == ("g5.xlarge", 0.63, 4)
    assert found.zone == ""
    assert found.source == "the configured discounts"
    assert found.holds(datetime(2027, 3, 1, 23, 59, tzinfo=UTC)), "the last day is a day of it"
    assert not found.holds(datetime(2027, 3, 2, tzinfo=UTC))


def test_none_is_the_default() -> None:
    assert options().discounts == ()


def test_optional_fields_have_defaults() -> None:
    assert discount().until is None
    assert discount(until=None).until is None
    assert discount(until=date(2027, 3, 1)) == discount(until="2027-03-01")
    assert discount().since is None
    assert discount(since="2026-03-02").since == datetime(2026, 3, 2, tzinfo=UTC)
    one_day = discount(since="2026-03-02", until="2026-03-02")
    assert one_day.holds(datetime(2026, 3, 2, 12, tzinfo=UTC))
    assert not one_day.holds(datetime(2026, 3, 1, 23, 59, tzinfo=UTC))
    assert discount(zone="us-east-1a").zone == "us-east-1a"
    assert discount(count=0).count == 0
    assert discount(instance_type="g9.xlarge").instance_type == "g9.xlarge", "newer than our table"
    assert discount(until="9999-12-31").holds(datetime(9999, 1, 1, tzinfo=UTC))


def test_an_expired_discount_does_not_prevent_the_hub_start() -> None:
    assert not discount(until="2020-01-01").holds(datetime(2026, 11, 20, tzinfo=UTC))


@pytest.mark.parametrize(
    ("changed", "option", "says", "fix"),
    [
        ({"instance_type": "g5.xlrge"}, "instance_type", "no instance type", "g5.xlarge"),
        ({"instance_type": "A10G"}, "instance_type", "no instance type", "g4dn.xlarge"),
        ({"instance_type": None}, "instance_type", "must be a text", "g5.xlarge"),
        ({"usd_per_hour": Decimal("0.63")}, "usd_per_hour", "is no price", "such as 0.63"),
        ({"usd_per_hour": "$0.63"}, "usd_per_hour", '"$0.63" is no price', "such as 0.63"),
        ({"usd_per_hour": float("nan")}, "usd_per_hour", "nan is no price", "such as 0.63"),
        ({"usd_per_hour": float("inf")}, "usd_per_hour", "inf is no price", "such as 0.63"),
        ({"usd_per_hour": -0.63}, "usd_per_hour", "-0.63 is no price", "such as 0.63"),
        ({"usd_per_hour": 0}, "usd_per_hour", "0 is no price", "such as 0.63"),
        ({"usd_per_hour": True}, "usd_per_hour", "True is no price", "such as 0.63"),
        ({"usd_per_hour": 10**400}, "usd_per_hour", "is no price", "such as 0.63"),
        ({"count": -1}, "count", "must be at least 0", "4"),
        ({"count": 1.5}, "count", "1.5 is no number of instances", "4"),
        ({"count": True}, "count", "True is no number of instances", "4"),
        ({"count": "many"}, "count", "must be a whole number", "4"),
        ({"until": "March"}, "until", '"March" is no date', "2027-03-01"),
        ({"until": "2027-02-30"}, "until", "is no date", "2027-03-01"),
        ({"until": 1800000000}, "until", "1800000000 is no date", "2027-03-01"),
        ({"until": datetime(2027, 3, 1, tzinfo=UTC)}, "until", "is no date", "2027-03-01"),
        ({"since": "March"}, "since", '"March" is no date', "2027-03-01"),
        ({"zone": "a"}, "zone", '"a" is no availability zone', "us-east-1a"),
        (
            {"usd_per_hr": 0.63},
            "usd_per_hr",
            "there is no such option",
            "did you mean usd_per_hour?",
        ),
    ],
)
def test_a_wrong_discount_is_named_with_its_fix(
    changed: dict[str, Any], option: str, says: str, fix: str
) -> None:
    line = refusal(A10G, {**A10G, **changed}).splitlines()[1].strip()
    assert line.startswith(f"c.EC2Spawner.discounts[1].{option}: ")
    problem, _, fixed = line.partition(". Fix: ")
    assert says in problem
    assert fix in fixed


def test_a_discount_that_ends_before_it_begins_is_refused() -> None:
    said = refusal({**A10G, "since": "2027-03-02", "until": "2027-03-01"})
    assert "c.EC2Spawner.discounts[0]: its since, 2027-03-02, is after its until" in said
    assert "Fix:" in said


@pytest.mark.parametrize("missing", ["instance_type", "usd_per_hour", "count"])
def test_required_fields(missing: str) -> None:
    rest = {name: value for name, value in A10G.items() if name != missing}
    assert f"c.EC2Spawner.discounts[0].{missing}: is missing. Fix: add it" in refusal(rest)


def test_a_zone_of_another_region_is_refused() -> None:
    message = refusal({**A10G, "zone": "eu-west-1a"})
    assert 'c.EC2Spawner.discounts: "eu-west-1a" is no zone of us-east-1. Fix:' in message


def test_one_discount_without_a_list_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"c\.EC2Spawner\.discounts: must be a list"):
        validate_options({**GOOD, "discounts": A10G}, cleanup_servers=False, environ={})
    assert "c.EC2Spawner.discounts[0]: must be a dict" in refusal("g5.xlarge")


@given(
    st.floats(min_value=0.001, max_value=500),
    st.integers(min_value=0, max_value=1000),
    st.none() | st.dates(min_value=date(2020, 1, 1), max_value=date(2100, 1, 1)),
)
def test_every_valid_discount_is_accepted(usd: float, count: int, until: date | None) -> None:
    found = discount(usd_per_hour=usd, count=count, until=until)
    assert (found.usd_per_hour, found.count) == (usd, count)
    if until is None:
        assert found.until is None
    else:
        assert found.until is not None
        midnight = datetime(until.year, until.month, until.day, tzinfo=UTC)
        assert timedelta(hours=23) < found.until - midnight < timedelta(days=1)


def test_every_option_has_help_and_an_example() -> None:
    for name, field in DiscountConfig.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name
        assert field.examples, name
