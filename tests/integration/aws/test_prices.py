"""What AWS says about prices, read over HTTP: spot history, price list, Reserved Instances."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from ec2spawner import data
from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.calls.client import price_list_region
from ec2spawner.core.pricing.discounts import Discount
from ec2spawner.core.pricing.price_history import PricePoint, steadiness
from ec2spawner.core.pricing.resource_prices import ResourcePrices
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.provisioner.offers.prices import Price, PriceCache
from ec2spawner.wire import Market
from tests.bare_state import bare_state

from .embedded_ec2 import Embedded
from .scripted_ec2 import Call, Reply, ScriptedEC2, error, json_error, json_ok, ok

T4, A10G, A10G_2X = "g4dn.xlarge", "g5.xlarge", "g5.2xlarge"
SINCE = datetime(2026, 11, 13, 12, 0, tzinfo=UTC)


# --- spot history ----------------------------------------------------------------------------


def spot(zone: str, usd: str, at: str, instance_type: str = T4) -> str:
    return (
        f"<item><instanceType>{instance_type}</instanceType><spotPrice>{usd}</spotPrice>"
        f"<availabilityZone>{zone}</availabilityZone><timestamp>2026-11-{at}:00Z</timestamp></item>"
    )


def history(*items: str, following: str = "") -> Reply:
    return ok(
        f"<spotPriceHistorySet>{''.join(items)}</spotPriceHistorySet>"
        f"<nextToken>{following}</nextToken>"
    )


def point(day: int, hour: int, usd: float) -> PricePoint:
    return PricePoint(datetime(2026, 11, day, hour, tzinfo=UTC), usd)


async def test_a_history_is_in_order_over_all_pages(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will(
        "DescribeSpotPriceHistory",
        history(spot("a", "0.21", "20T09:00"), spot("b", "0.30", "16T08:00"), following="the rest"),
        history(
            spot("a", "0.19", "17T07:00"),
            spot("a", "0.19", "15T07:00"),  # said again every day
            spot("a", "0.18", "12T07:00"),  # in force at the start
            spot("b", "0.33", "14T09:00"),
        ),
    )
    assert await cloud.spot_history([T4], [], SINCE) == {
        (T4, "a"): (point(12, 7, 0.18), point(15, 7, 0.19), point(20, 9, 0.21)),
        (T4, "b"): (point(14, 9, 0.33), point(16, 8, 0.30)),
    }


async def test_a_history_is_requested_by_types_zones_and_start(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("DescribeSpotPriceHistory", history())
    assert await cloud.spot_history([T4, A10G, T4], ["us-east-1b", "us-east-1a"], SINCE) == {}
    (call,) = ec2.calls
    assert call["ProductDescription.1"] == "Linux/UNIX"
    assert call["StartTime"] == "2026-11-13T12:00:00Z"
    assert {name: value for name, value in call.items() if name.startswith("Filter.")} == {
        "Filter.1.Name": "instance-type",
        "Filter.1.Value.1": T4,
        "Filter.1.Value.2": A10G,
        "Filter.2.Name": "availability-zone",
        "Filter.2.Value.1": "us-east-1a",
        "Filter.2.Value.2": "us-east-1b",
    }


async def test_all_zones_and_no_types(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DescribeSpotPriceHistory", history())
    await cloud.spot_history([T4], [], SINCE)
    assert "Filter.2.Name" not in ec2.calls[0]
    assert await cloud.spot_history([], ["us-east-1a"], SINCE) == {}
    assert len(ec2.calls) == 1


async def test_more_types_than_a_filter_takes(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    names = [f"g{number}.xlarge" for number in range(250)]

    def newest(call: Call) -> Reply:
        return history(spot("a", "0.5", "20T09:00", call["Filter.1.Value.1"]))

    ec2.answer_by("DescribeSpotPriceHistory", newest)
    assert len(await cloud.spot_history(names, [], SINCE)) == 2
    asked = [v for call in ec2.calls for k, v in call.items() if k.startswith("Filter.1.Value.")]
    assert sorted(asked) == sorted(names)


async def test_zero_negative_and_malformed_prices_are_skipped(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will(
        "DescribeSpotPriceHistory",
        history(*(spot(zone, zone, "20T09:00") for zone in ("0", "-1", "nan", "inf", "", "0.5"))),
    )
    assert set(await cloud.spot_history([T4], [], SINCE)) == {(T4, "0.5")}


# --- the price list --------------------------------------------------------------------------

ATTRIBUTES = {
    "regionCode": "us-east-1",
    "instanceType": T4,
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
    "usagetype": f"BoxUsage:{T4}",
}


def product(usd: str = "0.5260000000", *, unit: str = "Hrs", **changed: str) -> str:
    """As AWS lists it: JSON within JSON, each price under codes that mean nothing to us."""
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    offer = {"priceDimensions": {"SKU.JRTCKXETXF.6YS6EN2CT7": dimension}}
    return json.dumps(
        {
            "product": {"attributes": {**ATTRIBUTES, **changed}},
            "terms": {"OnDemand": {"SKU.JRTCKXETXF": offer}, "Reserved": {"x": {}}},
        }
    )


def products(*listed: str, following: str = "") -> Reply:
    return json_ok({"PriceList": listed, **({"NextToken": following} if following else {})})


async def test_the_price_is_that_of_a_linux_on_demand_instance(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("GetProducts", products(product()))
    assert await cloud.on_demand_prices([T4]) == {T4: 0.526}
    (call,) = ec2.calls
    asked = json.loads(call["Body"])
    assert asked["ServiceCode"] == "AmazonEC2"
    assert {one["Type"] for one in asked["Filters"]} == {"TERM_MATCH"}
    assert {one["Field"]: one["Value"] for one in asked["Filters"]} == {
        "regionCode": "us-east-1",
        "instanceType": T4,
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
    }


@pytest.mark.parametrize(
    "other",
    [
        product("0.10", instanceType=A10G, usagetype=f"BoxUsage:{A10G}"),
        product("0.10", operatingSystem="Windows"),
        product("0.10", tenancy="Dedicated", usagetype=f"DedicatedUsage:{T4}"),
        product("0.10", tenancy="Host", usagetype=f"HostBoxUsage:{T4}"),
        product("0.10", usagetype=f"HostBoxUsage:{T4}"),
        product("0.10", capacitystatus="UnusedCapacityReservation", usagetype=f"UnusedBox:{T4}"),
        product("0.10", preInstalledSw="SQL Std"),
        product("0.10", regionCode="us-west-2", usagetype=f"USW2-BoxUsage:{T4}"),
        product("0.10", marketoption="CapacityBlock"),
        product("0.0000000000"),
        product("0.10", unit="Quantity"),
        product("cheap"),
        json.dumps({"product": {"attributes": ATTRIBUTES}, "terms": {"OnDemand": {}}}),
        json.dumps({"product": {"attributes": ATTRIBUTES}}),
        json.dumps({"product": ["?"]}),
        product().replace("USD", "CNY"),
        "half a {",
        "[]",
        "null",
    ],
)
async def test_other_products_are_not_taken_for_it(
    cloud: EC2Cloud, ec2: ScriptedEC2, other: str
) -> None:
    ec2.will("GetProducts", products(other))
    assert await cloud.on_demand_prices([T4]) == {}
    ec2.will("GetProducts", products(other, following="more"), products(product()))
    assert await cloud.on_demand_prices([T4]) == {T4: 0.526}


async def test_contradicting_prices_are_unknown(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("GetProducts", products(product("0.50"), product("0.60")))
    assert await cloud.on_demand_prices([T4]) == {}
    ec2.will("GetProducts", products(product("0.50"), product("0.50")))
    assert await cloud.on_demand_prices([T4]) == {T4: 0.50}


async def test_every_type_is_requested_and_unknown_ones_are_absent(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    def answer(call: Call) -> Reply:
        fields = {one["Field"]: one["Value"] for one in json.loads(call["Body"])["Filters"]}
        name = fields["instanceType"]
        if name == "x9.xlarge":
            return products()
        return products(product("1.25", instanceType=name, usagetype=f"BoxUsage:{name}"))

    ec2.answer_by("GetProducts", answer)
    names = [f"g{number}.xlarge" for number in range(20)]
    assert await cloud.on_demand_prices([*names, "x9.xlarge"]) == dict.fromkeys(names, 1.25)
    assert len(ec2.calls) == 21
    assert await cloud.on_demand_prices([]) == {}


def resource(usage: str, usd: str, unit: str, region: str = "eu-west-1") -> str:
    attributes = {"regionCode": region, "usagetype": usage}
    return product(usd, unit=unit).replace(json.dumps(ATTRIBUTES), json.dumps(attributes))


async def test_disks_snapshots_and_addresses_have_the_regions_prices(ec2: ScriptedEC2) -> None:
    cloud = EC2Cloud("eu-west-1", ec2.url)
    asked: list[tuple[str, dict[str, str]]] = []

    def answer(call: Call) -> Reply:
        body = json.loads(call["Body"])
        fields = {one["Field"]: one["Value"] for one in body["Filters"]}
        asked.append((body["ServiceCode"], fields))
        return products(
            resource("EU-EBS:VolumeUsage.gp3", "0.088", "GB-Mo"),
            resource("EU-EBS:VolumeUsage.gp3", "0.001", "GB-Mo", region="us-east-1"),
            resource("EU-EBS:VolumeP-IOPS.gp3", "0.0055", "IOPS-Mo"),
            resource("EU-EBS:VolumeUsage.gp2", "0.11", "GB-Mo"),
            resource("EU-EBS:VolumeUsage", "0.055", "GB-Mo"),
            resource("EU-EBS:SnapshotUsage", "0.05", "GB-Mo"),
            resource("EU-EBS:SnapshotUsageUnderBilling", "0.01", "GB-Mo"),
            resource("EU-PublicIPv4:InUseAddress", "0.005", "Hrs"),
            resource("EU-PublicIPv4:ContiguousBlock", "0.008", "Hrs"),
        )

    ec2.answer_by("GetProducts", answer)
    assert await cloud.resource_prices() == ResourcePrices(0.088, 0.05, 0.005, 0.11)
    assert asked == [
        (
            "AmazonEC2",
            {"regionCode": "eu-west-1", "productFamily": "Storage", "volumeApiName": "gp3"},
        ),
        ("AmazonEC2", {"regionCode": "eu-west-1", "productFamily": "Storage Snapshot"}),
        ("AmazonVPC", {"regionCode": "eu-west-1", "group": "VPCPublicIPv4Address"}),
        (
            "AmazonEC2",
            {"regionCode": "eu-west-1", "productFamily": "Storage", "volumeApiName": "gp2"},
        ),
    ]
    ec2.answer_by("GetProducts", lambda _: products(resource("EU-EBS:SnapshotUsage", "1", "Hrs")))
    assert await cloud.resource_prices() == ResourcePrices(), "an unknown unit has no price"
    await cloud.close()


async def test_a_forbidden_price_list_raises_our_error(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("GetProducts", json_error("AccessDeniedException", "no pricing:GetProducts for you"))
    with pytest.raises(CloudError, match="pricing:GetProducts") as failed:
        await cloud.on_demand_prices([f"g{number}.xlarge" for number in range(20)])
    assert (failed.value.code, failed.value.retryable) == ("AccessDeniedException", False)
    assert len(ec2.calls) < 20, "the first refusal is enough"


@pytest.mark.parametrize(("region", "has_spot"), [("us-gov-west-1", True), ("cn-north-1", False)])
async def test_prices_that_a_partition_does_not_have_in_usd_are_not_asked_for(
    ec2: ScriptedEC2, region: str, has_spot: bool
) -> None:
    """GovCloud has no Price List API, and another one refuses its credentials; China's are CNY."""
    cloud = EC2Cloud(region, ec2.url)
    assert await cloud.on_demand_prices([T4]) == {}
    ec2.will("DescribeSpotPriceHistory", history(spot("a", "0.3", "20T10:00")))
    since = datetime(2026, 11, 19, tzinfo=UTC)
    assert bool(await cloud.spot_history([T4], (), since)) is has_spot
    assert ec2.actions == (["DescribeSpotPriceHistory"] if has_spot else [])
    await cloud.close()


@pytest.mark.parametrize(
    ("region", "asked"),
    [
        ("us-east-1", "us-east-1"),
        ("us-west-2", "us-east-1"),
        ("sa-east-1", "us-east-1"),
        ("eu-west-1", "eu-central-1"),
        ("il-central-1", "eu-central-1"),
        ("ap-northeast-1", "ap-south-1"),
    ],
)
async def test_the_price_list_is_queried_in_its_own_region(
    ec2: ScriptedEC2, region: str, asked: str
) -> None:
    assert price_list_region(region) == asked
    cloud = EC2Cloud(region, ec2.url)
    usage = f"XYZ1-BoxUsage:{T4}"
    ec2.will("GetProducts", products(product(regionCode=region, usagetype=usage)))
    assert await cloud.on_demand_prices([T4]) == {T4: 0.526}
    await cloud.close()
    assert ec2.calls[0]["Region"] == asked


# --- Reserved Instances ----------------------------------------------------------------------


def reserved(
    instance_type: str = A10G,
    *,
    count: int = 2,
    hourly: str = "0.25",
    fixed: str = "0.0",
    usage: str = "0.0",
    product: str = "Linux/UNIX",
    tenancy: str = "default",
    currency: str = "USD",
    state: str = "active",
    zone: str = "",
    end: str = "2027-03-01",
) -> str:
    place = f"<availabilityZone>{zone}</availabilityZone>" if zone else ""
    return (
        f"<item><instanceType>{instance_type}</instanceType><instanceCount>{count}</instanceCount>"
        f"<scope>{'Availability Zone' if zone else 'Region'}</scope>{place}"
        f"<start>2026-03-01T10:00:00.000Z</start><end>{end}T10:00:00.000Z</end><duration>31536000</duration>"
        f"<fixedPrice>{fixed}</fixedPrice><usagePrice>{usage}</usagePrice><recurringCharges><item>"
        f"<frequency>Hourly</frequency><amount>{hourly}</amount></item></recurringCharges>"
        f"<productDescription>{product}</productDescription><instanceTenancy>{tenancy}"
        f"</instanceTenancy><currencyCode>{currency}</currencyCode><state>{state}</state></item>"
    )


def reservations(*items: str) -> Reply:
    return ok(f"<reservedInstancesSet>{''.join(items)}</reservedInstancesSet>")


async def test_a_reservation_costs_its_hourly_rate_and_its_share_of_the_upfront_payment(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will(
        "DescribeReservedInstances",
        reservations(
            reserved(hourly="0.25", fixed="3504.0"),  # 3504 USD over 8760 hours: 0.40 an hour
            reserved(T4, count=1, hourly="0.30", zone="us-east-1b"),
        ),
    )
    since, until = (datetime(year, 3, 1, 10, tzinfo=UTC) for year in (2026, 2027))
    source = "a Reserved Instance until 2027-03-01"
    assert await cloud.reservations() == (
        Discount(A10G, pytest.approx(0.65), 2, until, "", source, since),  # type: ignore[arg-type]
        Discount(T4, 0.30, 1, until, "us-east-1b", source, since),
    )


@pytest.mark.parametrize(
    "other",
    [
        reserved(state="retired"),
        reserved(product="Windows"),
        reserved(tenancy="dedicated"),
        reserved(currency="CNY"),
        reserved(hourly="0.0"),
    ],
)
async def test_reservations_of_other_products_are_ignored(
    cloud: EC2Cloud, ec2: ScriptedEC2, other: str
) -> None:
    mine = reserved(product="Linux/UNIX (Amazon VPC)")
    ec2.will("DescribeReservedInstances", reservations(other, mine))
    assert [each.count for each in await cloud.reservations()] == [2]


async def test_reservations_that_ended_are_read_only_for_their_period(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    """One that is retired before its end was exchanged or sold, nobody says when."""
    ends = ("2026-10-31", "2026-11-10", "2027-03-01")
    retired = [reserved(state="retired", end=end) for end in ends]
    ec2.will("DescribeReservedInstances", reservations(reserved(count=7), *retired))
    period = (datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC))
    found = await cloud.reservations(period)
    assert [each.count for each in found] == [7, 2]
    assert found[1].until == datetime(2026, 11, 10, 10, tzinfo=UTC)
    [call] = ec2.calls
    asked = [call[f"Filter.1.{each}"] for each in ("Name", "Value.1", "Value.2")]
    assert asked == ["state", "active", "retired"]


async def test_forbidden_reservations_count_as_none_with_a_warning(
    cloud: EC2Cloud, ec2: ScriptedEC2, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ec2spawner")
    ec2.will("DescribeReservedInstances", error("UnauthorizedOperation", status=403))
    assert await cloud.reservations() == ()
    (warning,) = [record for record in caplog.records if record.name.startswith("ec2spawner")]
    assert "may not be read" in warning.getMessage()
    ec2.will("DescribeReservedInstances", error("InvalidParameterValue"))
    with pytest.raises(CloudError):
        await cloud.reservations()


# --- a day of the hub, on the embedded EC2 ---------------------------------------------------


@dataclass
class Day:
    """A price book over real HTTP; the hub's clock runs ahead of EC2's when it is moved."""

    cloud: EC2Cloud
    embedded: Embedded
    ahead: timedelta = timedelta()
    prices: PriceCache = field(init=False)

    def __post_init__(self) -> None:
        settings = Settings(
            hub="hub",
            region=self.embedded.region,
            subnets=self.embedded.subnets,
            want_types=(T4, A10G),
        )
        state = bare_state(settings, self.now, self.embedded.zones)
        self.prices = PriceCache(state, self.cloud, data.instance_types())

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def spot(self, instance_type: str) -> Price:
        price = self.prices.price(Market.SPOT, instance_type, self.embedded.zones[0])
        assert price is not None
        return price

    def on_demand(self, instance_type: str) -> Price:
        price = self.prices.on_demand(instance_type)
        assert price is not None
        return price

    def set_spot(self, instance_type: str, usd: float) -> None:
        zone = self.embedded.zones[0]
        order = {"instance_type": instance_type, "zone": zone, "usd_per_hour": usd}
        self.embedded.control("prices", **order)


@pytest.fixture
def day(embedded_cloud: EC2Cloud, embedded: Embedded) -> Day:
    return Day(embedded_cloud, embedded)


async def test_a_spot_price_above_on_demand_is_seen_at_the_next_refresh(day: Day) -> None:
    await day.prices.refresh()
    week = day.prices.history(T4, day.embedded.zones[0])
    assert len(week) > 5
    assert day.now() - week[0].at >= timedelta(days=6)
    assert day.spot(T4).usd_per_hour < day.on_demand(T4).usd_per_hour == 0.526

    day.set_spot(T4, 0.70)
    assert day.spot(T4).usd_per_hour < 0.526, "what is in memory is what was read"
    await day.prices.refresh()
    assert day.spot(T4).usd_per_hour == 0.70
    longer = day.prices.history(T4, day.embedded.zones[0])
    assert [point.usd_per_hour for point in longer[-2:]] == [week[-1].usd_per_hour, 0.70]
    assert steadiness(longer, day.now()).words.startswith("moved ")


async def test_failing_price_apis_leave_the_old_prices_with_their_age(day: Day) -> None:
    day.prices.want([A10G_2X])
    await day.prices.refresh()
    spot, on_demand = day.spot(A10G_2X), day.on_demand(A10G_2X)
    day.ahead = timedelta(hours=25)
    day.set_spot(A10G_2X, 0.11)
    order = {"market": "on-demand", "instance_type": A10G_2X, "usd_per_hour": 0.99}
    day.embedded.control("prices", **order)
    for action in ("DescribeSpotPriceHistory", "GetProducts"):
        day.embedded.fault(action, "UnauthorizedOperation", times=50)
    await day.prices.refresh()
    day.embedded.clear_faults()
    assert (day.spot(A10G_2X), day.on_demand(A10G_2X)) == (spot, on_demand)
    assert spot.read_at is not None
    assert day.now() - spot.read_at > timedelta(hours=25)

    day.ahead += timedelta(minutes=10)
    await day.prices.refresh()
    assert day.spot(A10G_2X).usd_per_hour == 0.11
    assert day.on_demand(A10G_2X).usd_per_hour == 0.99


async def test_the_price_list_of_the_embedded_ec2_is_that_of_the_bundled_table(
    embedded_cloud: EC2Cloud,
) -> None:
    bundled = data.instance_types()
    names = [T4, A10G, "p4d.24xlarge", "c5.xlarge"]
    assert await embedded_cloud.on_demand_prices([*names, "x9.xlarge"]) == {
        name: bundled[name].on_demand_usd_per_hour for name in names
    }


async def test_the_embedded_ec2_lists_the_bundled_prices_of_disks_and_addresses(
    embedded_cloud: EC2Cloud,
) -> None:
    assert await embedded_cloud.resource_prices() == data.resource_prices()


async def test_reservations_of_the_embedded_ec2(day: Day) -> None:
    zone = day.embedded.zones[0]
    day.embedded.control(
        "reservations",
        reservations=[
            {"instance_type": A10G, "count": 2, "usd_per_hour": 0.4, "upfront_usd": 876.0},
            {"instance_type": T4, "count": 1, "usd_per_hour": 0.3, "zone": zone},
        ],
    )
    await day.prices.refresh()
    paid = day.prices.paid(A10G, zone)
    assert paid is not None
    assert paid.usd_per_hour == pytest.approx(0.5)
    assert paid.source.startswith("a Reserved Instance until ")
    assert day.prices.paid_left(A10G, zone) == 2
    assert [day.prices.paid_left(T4, each) for each in day.embedded.zones[:2]] == [1, 0]
    day.embedded.control("reservations", reservations=[])
    day.ahead = timedelta(hours=25)
    await day.prices.refresh()
    assert day.prices.paid(A10G, zone) is None
