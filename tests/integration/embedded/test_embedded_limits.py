"""Prices, token buckets and injected faults, as a client meets them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError

from ec2spawner.core import ec2_api_limits
from ec2spawner.core.rate_limit import Rate
from ec2spawner.data import instance_types


def code(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as refused:
        call()
    return refused.value.response["Error"]["Code"]


def history(lab: Any, **more: Any) -> list[Any]:
    return lab.ec2.describe_spot_price_history(
        **{
            "InstanceTypes": ["g5.xlarge"],
            "ProductDescriptions": ["Linux/UNIX"],
            "StartTime": datetime.now(UTC) - timedelta(days=7),
            **more,
        }
    )["SpotPriceHistory"]


def test_prices_now_are_one_for_each_offer(lab: Any) -> None:
    found = history(lab, StartTime=datetime.now(UTC))

    known = instance_types()["g5.xlarge"].on_demand_usd_per_hour
    assert known is not None
    has_none = "us-east-1e"
    assert lab.facts.zones == [f"us-east-1{letter}" for letter in "abcdef"]
    assert sorted(row["AvailabilityZone"] for row in found) == [
        zone for zone in lab.facts.zones if zone != has_none
    ]
    prices = {float(row["SpotPrice"]) for row in found}
    assert len(prices) == 5
    assert all(0.2 * known < price < known for price in prices)


def test_price_history_is_newest_first_and_moves(lab: Any) -> None:
    now = datetime.now(UTC)
    found = history(lab, AvailabilityZone=lab.facts.zones[0])

    instants = [row["Timestamp"] for row in found]
    assert instants == sorted(instants, reverse=True)
    assert instants[0] <= now
    assert instants[-1] <= now - timedelta(days=7) <= instants[-2]
    assert len({row["SpotPrice"] for row in found}) > 20
    assert history(lab, AvailabilityZone=lab.facts.zones[0])[5:20] == found[5:20]


def test_price_history_by_pages_and_filters(lab: Any) -> None:
    pages = lab.ec2.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=["g5.xlarge", "g4dn.xlarge"],
        StartTime=datetime.now(UTC) - timedelta(hours=48),
        Filters=[{"Name": "availability-zone", "Values": lab.facts.zones[:2]}],
        PaginationConfig={"PageSize": 7},
    )
    rows = [
        (row["Timestamp"], row["InstanceType"], row["AvailabilityZone"])
        for page in pages
        for row in page["SpotPriceHistory"]
    ]

    assert len(rows) == len(set(rows)) > 14
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)
    assert {row[2] for row in rows} == set(lab.facts.zones[:2])
    assert history(lab, ProductDescriptions=["Windows"]) == []
    assert code(lambda: history(lab, Filters=[{"Name": "nonsense", "Values": ["x"]}])) == (
        "InvalidParameterValue"
    )


def test_a_set_price_holds_from_now_on(lab: Any) -> None:
    before = history(lab, InstanceTypes=["g6.2xlarge"], AvailabilityZone=lab.facts.zones[0])
    lab.control(
        "prices",
        {"instance_type": "g6.2xlarge", "zone": lab.facts.zones[0], "usd_per_hour": 0.1234},
    )
    after = history(lab, InstanceTypes=["g6.2xlarge"], AvailabilityZone=lab.facts.zones[0])

    assert after[0]["SpotPrice"] == "0.123400"
    assert after[1:10] == before[:9]
    elsewhere = history(lab, InstanceTypes=["g6.2xlarge"], AvailabilityZone=lab.facts.zones[1])
    assert elsewhere[0]["SpotPrice"] != "0.123400"


def test_single_launches_are_throttled(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Never refilled: a slow machine may launch no faster than that.
    monkeypatch.setitem(ec2_api_limits.REQUESTS, "RunInstances", Rate(burst=5, per_second=0))
    lab.control("limits", {"token_buckets": True})
    lab.control("boot", {"seconds": 600})

    with pytest.raises(ClientError) as refused:
        [lab.run() for _ in range(6)]
    response = refused.value.response
    assert response["Error"]["Code"] == "RequestLimitExceeded"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 503
    throttled = [c for c in lab.control("calls") if c["outcome"] == "RequestLimitExceeded"]
    assert throttled[-1]["action"] == "RunInstances"
    template = lab.template("tokens")
    assert len(lab.fleet(template, count=100, market="on-demand")["Instances"]) == 1


def test_a_fault_applies_as_often_as_configured(lab: Any) -> None:
    lab.control(
        "faults", {"action": "DescribeVolumes", "kind": "InsufficientHostCapacity", "times": 2}
    )

    assert code(lab.ec2.describe_volumes) == "InsufficientHostCapacity"
    assert lab.ec2.describe_instances()
    with pytest.raises(ClientError) as refused:
        lab.ec2.describe_volumes()
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert lab.ec2.describe_volumes()


def test_a_plain_server_error_is_retried_by_botocore(lab: Any) -> None:
    lab.control("faults", {"action": "DescribeVolumes", "kind": "http-500"})
    with pytest.raises(ClientError) as refused:
        lab.ec2.describe_volumes()
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500

    lab.control("faults", {"action": "DescribeVolumes", "kind": "http-500"})
    assert lab.client(attempts=3).describe_volumes()
    assert [c["outcome"] for c in lab.control("calls")][-2:] == ["http-500", "ok"]


def test_connections_can_be_cut_before_and_after_the_effect(lab: Any) -> None:
    def create(token: str) -> Any:
        return lab.ec2.create_volume(AvailabilityZone=lab.facts.zones[0], Size=1, ClientToken=token)

    count = len(lab.ec2.describe_volumes()["Volumes"])
    lab.control("faults", {"action": "CreateVolume", "kind": "cut-before"})
    with pytest.raises(ConnectionClosedError):
        create("before")
    assert len(lab.ec2.describe_volumes()["Volumes"]) == count

    lab.control("faults", {"action": "CreateVolume", "kind": "cut-after"})
    with pytest.raises(ConnectionClosedError):
        create("after")
    volumes = {v["VolumeId"] for v in lab.ec2.describe_volumes()["Volumes"]}
    assert len(volumes) == count + 1
    assert create("after")["VolumeId"] in volumes
    assert len(lab.ec2.describe_volumes()["Volumes"]) == count + 1
    outcomes = [c["outcome"] for c in lab.control("calls") if c["action"] == "CreateVolume"]
    assert outcomes[-3:] == ["cut-before", "cut-after", "ok"]


def test_an_error_response_can_be_lost_too(lab: Any) -> None:
    lab.control("faults", {"action": "CreateVolume", "kind": "cut-after"})
    with pytest.raises(ConnectionClosedError):
        lab.ec2.create_volume(AvailabilityZone=lab.facts.zones[0], Size=1, DryRun=True)
    outcomes = [c["outcome"] for c in lab.control("calls") if c["action"] == "CreateVolume"]
    assert outcomes[-1] == "cut-after"


def test_a_hanging_call_never_takes_effect(lab: Any) -> None:
    lab.control("faults", {"action": "CreateVolume", "kind": "hang"})
    impatient = lab.client(read_timeout=0.5)
    count = len(lab.ec2.describe_volumes()["Volumes"])

    with pytest.raises(ReadTimeoutError):
        impatient.create_volume(AvailabilityZone=lab.facts.zones[0], Size=1)

    assert len(lab.ec2.describe_volumes()["Volumes"]) == count
    outcomes = [c["outcome"] for c in lab.control("calls") if c["action"] == "CreateVolume"]
    assert outcomes[-1] == "hang"


def test_every_call_is_recorded(lab: Any) -> None:
    before = len(lab.control("calls"))
    lab.ec2.describe_instances()
    code(lambda: lab.instance("i-0123456789abcdef0"))

    calls = lab.control("calls")[before:]

    assert [(c["action"], c["outcome"]) for c in calls] == [
        ("DescribeInstances", "ok"),
        ("DescribeInstances", "InvalidInstanceID.NotFound"),
    ]
    assert datetime.fromisoformat(calls[0]["time"]).tzinfo is not None


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("capacity", {"market": "spot"}, "instance_type: Field required"),
        (
            "capacity",
            {"market": "sport", "instance_type": "*", "zone": "*", "available": 1},
            "market: Input should be 'spot', 'on-demand' or '*'",
        ),
        (
            "capacity",
            {"market": "spot", "instance_type": "g5.xlarg", "zone": "*", "available": 1},
            "instance_type: Invalid value 'g5.xlarg'",
        ),
        (
            "capacity",
            {"market": "spot", "instance_type": "*", "zone": "us-east-1z", "available": 1},
            "zone: write one of us-east-1a",
        ),
        ("capacity", {"available": -1}, "available: Input should be greater than or equal to 0"),
        ("faults", {"action": "Nonsense", "kind": "hang"}, "action: "),
        ("faults", {"action": "CreateFleet", "kind": "explode"}, "kind: "),
        ("faults", {"action": "CreateFleet", "kind": "hang", "time": 1}, "time: Extra inputs"),
        ("boot", {"seconds": "soon"}, "seconds: Input should be a valid number"),
        ("limits", {"quotas": {"spot": "many"}}, "quotas.spot.*: "),
        ("limits", {"quotas": {"spot": {"gpu": 1}}}, "no class gpu; write one of *, dl, f, g, "),
        ("prices", {"instance_type": "g5.xlarge", "usd_per_hour": 1}, "zone: a spot price is of"),
        (
            "prices",
            {
                "instance_type": "g5.xlarge",
                "usd_per_hour": 1,
                "market": "on-demand",
                "zone": "us-east-1a",
            },
            "leave the zone out",
        ),
        (
            "faults",
            {"action": "*", "kind": "entry:InternalError"},
            "are for the action CreateFleet",
        ),
        (
            "faults",
            {"action": "CreateFleet", "kind": "InternalError", "zones": ["us-east-1a"]},
            "go with the kind entry:<Code>",
        ),
        (
            "faults",
            {"action": "CreateFleet", "kind": "entry:InternalError", "zones": ["here"]},
            "zone: write one of us-east-1a",
        ),
        ("addresses", {"subnet_id": "subnet-1", "available": 0}, "subnet_id: write one of subnet-"),
        (
            "reservations",
            {"reservations": [{"instance_type": "g5.xlarge", "usd_per_hour": 1}]},
            "reservations.0.count: Field required",
        ),
        ("prices", {"instance_type": "*", "zone": "*", "usd_per_hour": 1}, "instance_type: "),
        ("prices", {"instance_type": "g5.xlarge", "zone": "*", "usd_per_hour": 0}, "usd_per_hour"),
    ],
)
def test_a_malformed_control_request_is_refused_with_field_and_fix(
    lab: Any, path: str, body: Any, says: str
) -> None:
    status, answer = lab.ask(path, body)

    assert status == 400
    assert says in answer["error"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"seconds": 6', "ends too early"),
        (b'{"seconds": 6}}', "something follows"),
        (b'{"seconds": 6, "seconds": 7}', "same key twice"),
        (b'{"seconds": NaN}', "'seconds': NaN is no number of JSON"),
    ],
)
def test_a_control_request_that_is_no_json_is_refused(lab: Any, body: bytes, says: str) -> None:
    status, answer = lab.ask("boot", body)

    assert status == 400
    assert says in answer["error"]


def test_an_unknown_control_call_is_not_found(lab: Any) -> None:
    status, answer = lab.ask("no-such-call")

    assert status == 404
    assert "/embedded/capacity" in answer["error"]


def test_boot_and_quotas_can_be_read_back(lab: Any) -> None:
    answer = lab.control("limits", {"quotas": {"on-demand": 96, "spot": {"g": 8}}})

    assert answer["token_buckets"] is False
    assert set(answer["quotas"]["on-demand"].values()) == {96}
    assert {name: v for name, v in answer["quotas"]["spot"].items() if v is not None} == {"g": 8}
