"""The pure parts: which offers a fleet takes, how buckets fill, how prices walk."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.data import instance_types
from ec2spawner.embedded.api.protocol import EC2Error, parse_request, render
from ec2spawner.embedded.gateway.idempotency import ClientTokens
from ec2spawner.embedded.gateway.throttle import Throttle
from ec2spawner.embedded.instances.fleet import Candidate, Purchase, favourites_first, fill
from ec2spawner.embedded.market.capacity import Capacity, Offer, insufficient
from ec2spawner.embedded.market.prices import CEILING, FLOOR, HISTORY, SpotPrices

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)

offers = st.builds(
    Offer,
    st.just("spot"),
    st.sampled_from(["g5.xlarge", "g4dn.xlarge", "g6.xlarge"]),
    st.sampled_from(["us-east-1a", "us-east-1b"]),
)


@given(
    pools=st.dictionaries(
        offers,
        st.tuples(st.integers(0, 5), st.floats(0.01, 10) | st.none()),
        min_size=1,
    ),
    wanted=st.integers(1, 12),
    strategy=st.sampled_from(["price-capacity-optimized", "lowest-price"]),
)
async def test_a_fleet_launches_up_to_the_capacity(
    pools: dict[Offer, tuple[int, float | None]], wanted: int, strategy: str
) -> None:
    def room(offer: Offer, count: int) -> int:
        return min(count, pools[offer][0])

    async def buy(candidate: Candidate, missing: int) -> Purchase:
        count = room(candidate.offer, missing)
        error = insufficient(candidate.offer) if count < missing else None
        return Purchase(candidate, ["i"] * count, error)

    candidates = [Candidate(offer, "subnet", {}, price) for offer, (_, price) in pools.items()]
    ordered = favourites_first(candidates, wanted, strategy, room)
    purchases = await fill(ordered, wanted, buy)

    taken = sum(len(purchase.instance_ids) for purchase in purchases)
    assert taken == min(wanted, sum(left for left, _ in pools.values()))
    assert sorted(map(id, ordered)) == sorted(map(id, candidates))
    if taken < wanted:
        assert all(purchase.error is not None for purchase in purchases)
        assert len(purchases) == len(pools)
    else:
        assert purchases[-1].error is None
    enough = [pools[c.offer][1] or inf for c in candidates if room(c.offer, wanted) == wanted]
    if enough and strategy == "price-capacity-optimized":
        assert (purchases[0].candidate.price or inf) == min(enough)


@given(st.lists(st.tuples(offers, st.integers(0, 3)), min_size=1, max_size=8))
def test_the_last_rule_for_an_offer_counts(rules: list[tuple[Offer, int]]) -> None:
    capacity = Capacity()
    capacity.set("*", "*", "*", 99)
    for offer, available in rules:
        capacity.set("spot", offer.instance_type, offer.zone, available)

    for offer in {offer for offer, _ in rules}:
        assert capacity.left(offer) == [n for o, n in rules if o == offer][-1]
    assert capacity.left(Offer("on-demand", "g5.xlarge", "us-east-1a")) == 99


def test_capacity_is_taken_and_released() -> None:
    capacity, offer = Capacity(), Offer("spot", "g5.xlarge", "us-east-1a")
    assert capacity.left(offer) is None
    capacity.set("spot", "*", "*", 2)

    capacity.take(offer, 2)
    with pytest.raises(EC2Error, match="InsufficientInstanceCapacity"):
        capacity.take(offer, 1)
    capacity.give_back(offer)
    capacity.take(offer, 1)


def test_token_buckets_have_aws_sizes_and_refill() -> None:
    now = 100.0
    throttle = Throttle(lambda: now)

    def burst(action: str, **parameters: Any) -> int:
        for taken in itertools.count():
            try:
                throttle.take(action, parameters)
            except EC2Error:
                return taken
        raise AssertionError

    assert burst("RunInstances", MaxCount=1) == 5
    assert burst("CreateFleet") == 50
    assert burst("DescribeInstances") == 50
    assert burst("DescribeInstances", Filters=[{"Name": "x"}]) == 100
    assert burst("DescribeSpotPriceHistory") == 100
    assert burst("TerminateInstances", InstanceIds=["i-1"]) == 100
    now += 2.0
    assert burst("RunInstances", MaxCount=1) == 4
    assert burst("CreateFleet") == 10
    assert burst("DescribeInstances", MaxResults=50) == 40


def test_terminating_takes_one_token_for_each_instance() -> None:
    throttle = Throttle(lambda: 0.0)
    throttle.take("TerminateInstances", {"InstanceIds": ["i-1"] * 900})

    with pytest.raises(EC2Error, match="RequestLimitExceeded"):
        throttle.take("TerminateInstances", {"InstanceIds": ["i-1"] * 101})
    throttle.take("TerminateInstances", {"InstanceIds": ["i-1"] * 100})


@given(
    name=st.sampled_from(["g5.xlarge", "g4dn.12xlarge", "p4d.24xlarge"]),
    zone=st.sampled_from(["us-east-1a", "us-east-1b", "us-east-1c"]),
    hours=st.integers(0, 24 * 30),
    span=st.integers(0, 100),
)
def test_prices_are_a_function_of_time_within_bounds(
    name: str, zone: str, hours: int, span: int
) -> None:
    end = NOW - timedelta(hours=hours)
    start = end - timedelta(hours=span)
    changes = list(SpotPrices().history(name, zone, start, end))

    assert changes == list(SpotPrices().history(name, zone, start, end))
    instants = [change.at for change in changes]
    assert instants == sorted(instants, reverse=True)
    assert instants[0] <= end
    assert instants[-1] <= start
    assert all(instant > start for instant in instants[:-1])
    on_demand = instance_types()[name].on_demand_usd_per_hour
    assert on_demand is not None
    for change in changes:
        assert FLOOR * on_demand - 1e-4 <= change.usd_per_hour <= CEILING * on_demand + 1e-4
    assert SpotPrices().price(name, zone, end) == changes[0].usd_per_hour


def test_a_price_set_twice_appears_twice_in_the_history() -> None:
    prices = SpotPrices()
    prices.set("g5.xlarge", "us-east-1a", 0.3, NOW - timedelta(hours=2))
    prices.set("g5.xlarge", "us-east-1a", 0.9, NOW - timedelta(hours=1))

    changes = list(prices.history("g5.xlarge", "us-east-1a", NOW - HISTORY, NOW))

    assert [change.usd_per_hour for change in changes[:2]] == [0.9, 0.3]
    assert prices.price("g5.xlarge", "us-east-1a", NOW - timedelta(minutes=90)) == 0.3
    assert prices.price("g5.xlarge", "us-east-1a", NOW - timedelta(hours=3)) not in (0.3, 0.9)
    assert prices.price("no.such", "us-east-1a", NOW) is None


async def test_a_failed_call_can_be_retried_with_its_token() -> None:
    tokens, outcomes = ClientTokens(), [EC2Error("InternalError", "once"), None]

    async def call() -> dict[str, Any]:
        await asyncio.sleep(0)
        if (error := outcomes.pop(0)) is not None:
            raise error
        return {"VolumeId": "vol-1"}

    parameters = {"ClientToken": "token", "Size": 1}
    with pytest.raises(EC2Error, match="InternalError"):
        await tokens.once("CreateVolume", parameters, call)
    assert await tokens.once("CreateVolume", parameters, call) == {"VolumeId": "vol-1"}
    assert await tokens.once("CreateVolume", parameters, call) == {"VolumeId": "vol-1"}
    await tokens.close()


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=50))
def test_any_text_survives_the_query_protocol(text: str) -> None:
    form = {
        "LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version": "1",
        "TagSpecification.1.ResourceType": "instance",
        "TagSpecification.1.Tag.2.Key": "b",
        "TagSpecification.1.Tag.2.Value": text,
        "TagSpecification.1.Tag.1.Key": "a",
        "TargetCapacitySpecification.TotalTargetCapacity": "3",
    }

    parsed = parse_request("CreateFleet", form)

    assert parsed["TargetCapacitySpecification"] == {"TotalTargetCapacity": 3}
    tags = parsed["TagSpecifications"][0]["Tags"]
    assert tags == [{"Key": "a"}, {"Key": "b", "Value": text}]
    from botocore.parsers import create_parser

    from ec2spawner.embedded.api.protocol import operation

    answer = {"FleetId": text, "Errors": [{"ErrorMessage": text, "Lifecycle": "spot"}]}
    body = render("CreateFleet", answer)
    shape = operation("CreateFleet").output_shape
    parsed = create_parser("ec2").parse({"body": body, "headers": {}, "status_code": 200}, shape)
    assert parsed["FleetId"] == text
    assert parsed["Errors"] == answer["Errors"]


WHOLE = {
    "Action": "CreateFleet",
    "Version": "2016-11-15",
    "LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version": "1",
    "TargetCapacitySpecification.TotalTargetCapacity": "3",
}


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"TargetCapacitySpecification.TotalTargetCapacity": "many"}, "InvalidParameterValue"),
        ({"TargetCapacitySpecification": "3"}, "MalformedQueryString"),
        ({"Type.Nested": "instant"}, "InvalidParameterValue"),
        ({"Type": "instant", "Type.Nested": "instant"}, "MalformedQueryString"),
        ({"ReplaceUnhealthyInstances": "perhaps"}, "InvalidParameterValue"),
        ({"Colour": "blue"}, "UnknownParameter"),
        ({"LaunchTemplateConfigs.1.Colour": "blue"}, "UnknownParameter"),
        ({"TagSpecification.one.ResourceType": "instance"}, "UnknownParameter"),
    ],
)
def test_a_malformed_request_is_an_ec2_error(form: dict[str, str], code: str) -> None:
    parse_request("CreateFleet", WHOLE)
    with pytest.raises(EC2Error) as refused:
        parse_request("CreateFleet", WHOLE | form)
    assert refused.value.code == code


@pytest.mark.parametrize("name", ["LaunchTemplateConfigs", "TargetCapacitySpecification"])
def test_a_required_parameter_that_is_missing_is_named(name: str) -> None:
    form = {field: value for field, value in WHOLE.items() if not field.startswith(name)}
    with pytest.raises(EC2Error) as refused:
        parse_request("CreateFleet", form)
    assert refused.value.code == "MissingParameter"
    assert name in refused.value.message
