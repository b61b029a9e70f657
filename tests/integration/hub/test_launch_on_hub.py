"""Launching when capacity is short: what is requested, remembered and shown.

One hub serves all tests, and remembers for minutes what EC2 refused. So each test has instance
types, users and, where it is about quotas, a quota class of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.data import instance_types
from tests.harness import Embedded, Hub, until
from tests.integration.hub.progress_events import notes_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=65)]

ZONES = tuple(f"us-east-1{letter}" for letter in "abcd")
"""Those of the embedded EC2 that have the types of these tests, but for `SPARE_ZONE`."""

SPARE_ZONE = "us-east-1f"
"""It has them too, and its subnet runs out of addresses in one test: no other looks at it."""

MINUTES = 3
HOURS = 24

FRESH_TYPES = iter(
    sorted(
        name
        for name, known in instance_types().items()
        if name.startswith(("c5.", "c6i.", "c7i.", "m5.", "m6i.", "m7i.", "r5.", "r6i.", "r7i."))
        and known.on_demand_usd_per_hour is not None
    )
)
USERS = (f"user-{number}" for number in itertools.count())


@dataclass
class Start:
    """How a start went until it had a machine or had failed."""

    user: str
    events: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    """Outcomes of the CreateFleet calls meanwhile."""
    refusal: str = ""
    """What REST answers to a start that failed."""

    @property
    def attempts(self) -> list[dict[str, Any]]:
        seen = [event["attempts"] for event in self.events if "attempts" in event]
        return seen[-1] if seen else []

    @property
    def story(self) -> list[tuple[str, str]]:
        return [(attempt["market"], attempt["outcome"]) for attempt in self.attempts]

    @property
    def notes(self) -> list[str]:
        return notes_of(self.last)

    @property
    def last(self) -> dict[str, Any]:
        return self.events[-1]


class Shop:
    """The hub as a user who starts servers sees it, and EC2 behind it."""

    def __init__(self, hub: Hub, embedded: Embedded) -> None:
        self.hub = hub
        self.embedded = embedded
        self.observer: dict[str, str] = {}
        """Headers of an admin who only looks: no rate bounds their calls."""
        self._offered: list[dict[str, Any]] = []

    async def open(self) -> None:
        """Start the hub, with a profile that no test uses."""
        self._write_profile("t3.xlarge")
        await self.hub.start()
        self.observer = {"Authorization": f"token {await self.hub.user_token('observer')}"}

    async def offer(self, instance_type: str, market: str = "spot-first") -> str:
        """Open a profile of this type, and wait until its prices are known. Its slug."""
        slug = self._write_profile(instance_type, market=market)

        async def priced() -> bool:
            offers = (await self.profile(slug))["offers"]
            return bool(offers) and all(offer["usd_per_hour"] for offer in offers)

        await until(priced, 20, f"prices of {instance_type}")
        return slug

    async def offer_unpriced(self, instance_type: str, market: str = "spot-first") -> str:
        """Add a profile of a type whose spot price is unknown. Returns its slug."""
        slug = self._write_profile(instance_type, market=market)

        async def listed() -> bool:
            return bool((await self.profile(slug))["offers"])

        await until(listed, 20, f"offers of {instance_type}")
        return slug

    def _write_profile(self, instance_type: str, **more: str) -> str:
        slug = f"profile-{len(self._offered)}"
        profile = {"display_name": f"The {instance_type}", "slug": slug, **more}
        self._offered.append({**profile, "instance_types": [instance_type]})
        path = self.hub.directory / "profiles.json"
        path.with_suffix(".new").write_text(json.dumps(self._offered))
        path.with_suffix(".new").replace(path)
        return slug

    async def profile(self, slug: str) -> dict[str, Any]:
        """What `GET profiles` says of a profile."""
        reply = await self.hub.api.get("/ec2/profiles", headers=self.observer)
        assert reply.is_success, reply.text
        return next(p for p in reply.json()["profiles"] if p["slug"] == slug)

    async def marks(
        self, slug: str, zones: tuple[str, ...] = ZONES
    ) -> dict[tuple[str, str], tuple[str, str, float]]:
        """(market, zone) of what is not asked for -> reason, EC2's code, minutes in all."""
        profile = await self.profile(slug)
        found = {}
        for offer in profile["offers"]:
            if offer["zone"] in zones and (mark := offer["sold_out"]):
                seconds = _seconds_between(mark["since"], mark["until"])
                key = (offer["market"], offer["zone"])
                found[key] = (mark["reason"], mark["code"], seconds / 60)
        return found

    async def start(self, slug: str, user: str = "", **options: str) -> Start:
        """Start a server and watch until it has a machine, or the start has failed."""
        start = Start(user or next(USERS))
        before = len(await self.embedded.calls("CreateFleet"))
        posted = asyncio.create_task(
            self.hub.request_server(start.user, options={"profile": slug, **options})
        )
        try:
            async with asyncio.timeout(90):
                await self._watch(start)
            if start.last.get("failed"):
                reply = await posted
                assert reply.status_code == 503, reply.text
                start.refusal = reply.json()["message"]
        finally:
            posted.cancel()
            await asyncio.gather(posted, return_exceptions=True)
        calls = await self.embedded.calls("CreateFleet")
        start.calls = [call["outcome"] for call in calls[before:]]
        return start

    async def _watch(self, start: Start) -> None:
        path = f"{self.hub.server_path(start.user)}/progress"
        while not start.events:
            async with self.hub.api.stream("GET", path) as stream:
                if stream.status_code != httpx.codes.OK:
                    await asyncio.sleep(0.02)
                    continue
                async for line in stream.aiter_lines():
                    if line.startswith("data:"):
                        start.events.append(json.loads(line.removeprefix("data:")))
                        if _is_decided(start):
                            return

    async def instances(self, instance_type: str) -> list[dict[str, Any]]:
        running = await self.embedded.instances()
        return [each for each in running if each["instance_type"] == instance_type]

    async def sold_out(self, market: str, instance_type: str, *zones: str) -> None:
        for zone in zones or ("*",):
            offer = {"market": market, "instance_type": instance_type, "zone": zone}
            await self.embedded.control("capacity", {**offer, "available": 0})

    async def fault(self, kind: str, times: int = 1, **more: Any) -> None:
        order = {"action": "CreateFleet", "kind": kind, "times": times, **more}
        await self.embedded.control("faults", order)


def _is_decided(start: Start) -> bool:
    return start.last.get("failed", False) or ("boot" in _steps_begun(start.last))


def _steps_begun(event: dict[str, Any]) -> set[str]:
    return {step["name"] for step in event.get("steps", ()) if step["seconds"] is not None}


def _seconds_between(earlier: str, later: str) -> float:
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running_shop(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shop]:
    embedded = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    directory = tmp_path_factory.mktemp("hub")
    hub = Hub(
        directory,
        embedded,
        config=Path(__file__).with_name("profiles_config.py"),
        environment={"PROFILES": str(directory / "profiles.json")},
    )
    shop = Shop(hub, embedded)
    try:
        await shop.open()
        yield shop
    finally:
        await hub.stop()
        await embedded.stop()
        print(hub.tail(200))


@pytest_asyncio.fixture(loop_scope="module")
async def shop(running_shop: Shop) -> AsyncIterator[Shop]:
    """At first with instances that never finish booting: most tests end where one is found."""
    await running_shop.embedded.control("boot", {"seconds": 600})
    await running_shop.embedded.control("limits", {"token_buckets": False})
    yield running_shop
    await running_shop.embedded.clear_faults()
    await running_shop.embedded.control(
        "limits", {"token_buckets": False, "quotas": {"spot": None, "on-demand": None}}
    )


@pytest.fixture
def fresh() -> Iterator[str]:
    """Instance types that no other test uses, one after the other."""
    return FRESH_TYPES


# --- the ways a start can go -----------------------------------------------------------------


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_spot_sold_out_everywhere_is_an_on_demand_server_after_two_calls"
)
async def test_spot_sold_out_everywhere_is_an_on_demand_server(
    shop: Shop, fresh: Iterator[str]
) -> None:
    kind = next(fresh)
    slug = await shop.offer(kind)
    await shop.sold_out("spot", kind)
    await shop.embedded.control("boot", {"seconds": 0})
    before = len(await shop.embedded.calls("CreateFleet"))

    await shop.hub.start_server("ann", options={"profile": slug})

    assert len(await shop.embedded.calls("CreateFleet")) == before + 2
    assert [each["market"] for each in await shop.instances(kind)] == ["on-demand"]
    await shop.hub.stop_server("ann")


@pytest.mark.nightly(
    guard="tests/unit/hub/test_progress.py::test_on_demand_instead_of_spot_has_reason_and_cost"
)
async def test_the_page_says_that_spot_is_sold_out_and_what_it_costs_instead(
    shop: Shop, fresh: Iterator[str]
) -> None:
    kind = next(fresh)
    slug = await shop.offer(kind)
    await shop.sold_out("spot", kind)

    start = await shop.start(slug)

    assert start.story == [("spot", "sold-out"), ("on-demand", "found")]
    assert start.calls == ["ok", "ok"]
    first, second = start.attempts
    assert first["answer"].startswith("sold out in us-east-1a, b, c")
    assert second["answer"].startswith(f"found {kind} in us-east-1")
    (note,) = start.notes
    assert note.startswith("Spot is sold out, so this is an on-demand machine at $")


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_spot_in_one_zone_of_six_is_found_by_the_first_call"
)
async def test_spot_sold_out_in_all_zones_but_one_is_a_spot_server_from_there(
    shop: Shop, fresh: Iterator[str]
) -> None:
    kind = next(fresh)
    slug = await shop.offer(kind)
    await shop.sold_out("spot", kind, "us-east-1a", "us-east-1b", "us-east-1c", SPARE_ZONE)

    start = await shop.start(slug)

    assert start.story == [("spot", "found")]
    assert start.calls == ["ok"]
    assert start.attempts[0]["answer"].startswith(f"found {kind} in us-east-1d, $")
    assert start.notes == []


@pytest.mark.nightly(
    guard="tests/integration/hub/test_no_capacity.py::"
    "test_sold_out_in_both_markets_comes_with_alternatives"
)
async def test_both_markets_sold_out_offers_alternatives_at_once(
    shop: Shop, fresh: Iterator[str]
) -> None:
    kind, other = next(fresh), next(fresh)
    slug = await shop.offer(kind)
    await shop.offer(other)
    await shop.sold_out("*", kind)

    start = await shop.start(slug)

    assert start.calls == ["ok", "ok"]
    assert "spot and on-demand are sold out in us-east-1a, b, c" in start.refusal
    assert "You can start now: " in start.refusal
    assert re.search(r"The \S+, spot from \$\d", start.refusal)
    assert start.refusal in start.last["message"]
    assert "/hub/spawn/" in start.last["html_message"]


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_a_second_start_requests_nothing_known_to_be_sold_out"
)
async def test_known_sold_out_offers_are_not_requested_again(
    shop: Shop, fresh: Iterator[str]
) -> None:
    kind = next(fresh)
    slug = await shop.offer(kind)
    await shop.sold_out("*", kind)

    first = await shop.start(slug)
    second = await shop.start(slug)

    assert len(first.calls) == 2
    assert second.calls == []
    assert "spot and on-demand are sold out" in second.refusal


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_a_home_gets_another_type_in_its_zone_and_then_on_demand_there"
)
async def test_a_home_zone_without_spot_gets_on_demand_and_a_reason(
    shop: Shop, fresh: Iterator[str]
) -> None:
    kind = next(fresh)
    slug = await shop.offer(kind)
    await shop.embedded.control("boot", {"seconds": 0})
    await shop.hub.start_server("bea", options={"profile": slug})
    (instance,) = await shop.instances(kind)
    home, elsewhere = instance["zone"], next(z for z in ZONES if z != instance["zone"])
    await shop.hub.stop_server("bea")
    await shop.embedded.control("boot", {"seconds": 600})
    await shop.fault("entry:InsufficientInstanceCapacity", zones=[elsewhere])
    await shop.start(slug)
    assert await shop.marks(slug) == {
        ("spot", elsewhere): ("offer", "InsufficientInstanceCapacity", MINUTES)
    }
    await shop.sold_out("spot", kind, home)

    start = await shop.start(slug, "bea")

    assert start.story == [("spot", "sold-out"), ("on-demand", "found")]
    assert [attempt["zones"] for attempt in start.attempts] == [[home], [home]]
    market, zone = start.notes
    assert market.startswith("Spot is sold out, so this is an on-demand machine")
    assert zone == f"Only {home} was tried: your files are there, and no other zone can open them."
    # EC2 said by the way that the other zone has room again.
    assert await shop.marks(slug) == {
        ("spot", home): ("offer", "InsufficientInstanceCapacity", MINUTES)
    }


# --- prices ----------------------------------------------------------------------------------


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_spot_dearer_than_on_demand_comes_last"
)
async def test_spot_that_rises_above_on_demand_is_not_bought(
    shop: Shop, fresh: Iterator[str]
) -> None:
    kind = next(fresh)
    slug = await shop.offer(kind)
    before = await shop.start(slug)
    on_demand = instance_types()[kind].on_demand_usd_per_hour
    assert on_demand is not None
    price = {"instance_type": kind, "zone": "*", "usd_per_hour": on_demand * 1.2}
    await shop.embedded.control("prices", price)

    await shop.offer(next(fresh))  # prices of a new type are read at once, and all others again
    after = await shop.start(slug)

    assert before.story == [("spot", "found")]
    assert after.story == [("on-demand", "found")]
    assert after.calls == ["ok"]
    profile = await shop.profile(slug)
    assert profile["offers"][0]["market"] == "on-demand"


@pytest.mark.nightly(
    guard="tests/unit/provisioner/offers/test_prices.py::"
    "test_a_failing_refresh_keeps_old_prices_with_their_age"
)
async def test_unreadable_prices_keep_their_values_with_their_age(
    shop: Shop, fresh: Iterator[str]
) -> None:
    slug = await shop.offer(next(fresh))
    known = (await shop.profile(slug))["offers"]
    order = {"action": "DescribeSpotPriceHistory", "kind": "UnauthorizedOperation", "times": 50}
    await shop.embedded.control("faults", order)
    unread = await shop.offer_unpriced(next(fresh))

    async def refused() -> bool:
        calls = await shop.embedded.calls("DescribeSpotPriceHistory")
        return calls[-1]["outcome"] == "UnauthorizedOperation"

    await until(refused, 20, "a reading of prices")
    kept = (await shop.profile(slug))["offers"]
    unknown = (await shop.profile(unread))["offers"]

    assert [offer["usd_per_hour"] for offer in kept] == [o["usd_per_hour"] for o in known]
    spot = next(offer for offer in kept if offer["market"] == "spot")
    was = next(offer for offer in known if offer["market"] == "spot")
    assert spot["source"] == "EC2 spot price history"
    assert spot["age_seconds"] > was["age_seconds"]
    assert {o["usd_per_hour"] for o in unknown if o["market"] == "spot"} == {None}


# --- what each of EC2's errors means ---------------------------------------------------------


def by(way: str, code: str) -> str:
    """The kind of fault: as the error of the whole call, or as an entry for each offer."""
    return code if way == "call" else f"entry:{code}"


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_a_sold_out_offer_is_not_requested_for_three_minutes"
)
@pytest.mark.parametrize("way", ["call", "entry"])
@pytest.mark.parametrize(
    "code",
    [
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "UnfulfillableCapacity",
        "SpotMaxPriceTooLow",
    ],
)
async def test_a_sold_out_offer_is_not_requested_for_three_minutes(
    shop: Shop, fresh: Iterator[str], code: str, way: str
) -> None:
    slug = await shop.offer(next(fresh))
    await shop.fault(by(way, code))

    first = await shop.start(slug)
    marks = await shop.marks(slug)
    second = await shop.start(slug)

    assert first.story == [("spot", "sold-out"), ("on-demand", "found")]
    assert marks == {("spot", zone): ("offer", code, MINUTES) for zone in ZONES}
    assert second.story == [("on-demand", "found")]
    assert second.calls == ["ok"]
    assert second.attempts[0]["skipped"].startswith("Not requested: spot ")
    assert "sold out, seen at" in second.attempts[0]["skipped"]


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_a_type_that_a_zone_lacks_is_not_requested_there_for_a_day"
)
@pytest.mark.parametrize("code", ["Unsupported", "InvalidFleetConfiguration"])
async def test_a_type_that_a_zone_lacks_is_not_requested_there_for_a_day(
    shop: Shop, fresh: Iterator[str], code: str
) -> None:
    slug = await shop.offer(next(fresh))
    await shop.fault(by("entry", code), zones=["us-east-1c"])

    first = await shop.start(slug)
    second = await shop.start(slug)

    assert first.story == [("spot", "found")]
    assert await shop.marks(slug) == {
        (market, "us-east-1c"): ("type-in-zone", code, HOURS * 60)
        for market in ("spot", "on-demand")
    }
    assert "us-east-1c" in first.attempts[0]["zones"]
    assert "us-east-1c" not in second.attempts[0]["zones"]


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_a_busy_response_is_retried_with_another_token"
)
@pytest.mark.parametrize("way", ["call", "entry"])
@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError", "Unavailable"])
async def test_a_busy_ec2_is_retried_and_nothing_is_marked_sold_out(
    shop: Shop, fresh: Iterator[str], code: str, way: str
) -> None:
    kind = next(fresh)
    slug = await shop.offer(kind)
    await shop.fault(by(way, code), times=2)

    start = await shop.start(slug)

    assert len(start.calls) == 3
    assert start.story[-1] == ("spot", "found")
    assert {market for market, _ in start.story} == {"spot"}
    assert await shop.marks(slug) == {}


@pytest.mark.nightly(
    guard="tests/unit/provisioner/lifecycle/test_start.py::"
    "test_a_lost_response_launches_no_second_instance"
)
@pytest.mark.parametrize("kind", ["http-500", "cut-before", "cut-after"])
async def test_a_lost_response_launches_one_instance(
    shop: Shop, fresh: Iterator[str], kind: str
) -> None:
    name = next(fresh)
    slug = await shop.offer(name)
    await shop.fault(kind)

    start = await shop.start(slug)
    launched = await shop.instances(name)

    assert start.story == [("spot", "found")]
    assert start.calls == [kind, "ok"]
    assert len(launched) == 1
    assert await shop.marks(slug) == {}


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_a_refusal_fails_at_once_with_its_fix_and_marks_nothing"
)
@pytest.mark.parametrize("way", ["call", "entry"])
@pytest.mark.parametrize(
    ("code", "fix"),
    [
        ("UnauthorizedOperation", "configs/iam-policy.json"),
        ("InvalidAMIID.NotFound", "c.EC2Spawner.image"),
        ("InvalidSubnetID.NotFound", "c.EC2Spawner.subnets"),
        ("InvalidParameterValue", "`ec2spawner check` shows what is wrong"),
    ],
)
async def test_configuration_errors_fail_at_once_and_mark_nothing(
    shop: Shop, fresh: Iterator[str], code: str, fix: str, way: str
) -> None:
    slug = await shop.offer(next(fresh))
    await shop.fault(by(way, code))

    refused = await shop.start(slug)
    marks = await shop.marks(slug)
    fixed = await shop.start(slug)

    assert len(refused.calls) == 1, "no other market can help"
    assert "please tell an admin" in refused.refusal
    assert fix in refused.refusal
    assert code in refused.refusal
    assert marks == {}
    assert fixed.story == [("spot", "found")]


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_a_zone_whose_only_subnet_is_full_is_skipped_with_a_reason"
)
async def test_a_full_subnet_is_skipped_and_another_serves(
    shop: Shop, fresh: Iterator[str]
) -> None:
    kind = next(fresh)
    described = shop.embedded.described
    subnet = dict(zip(described["zones"], described["subnets"], strict=True))[SPARE_ZONE]
    price = {"instance_type": kind, "zone": SPARE_ZONE, "usd_per_hour": 0.0123}
    await shop.embedded.control("prices", price)
    slug = await shop.offer(kind)
    await shop.embedded.control("addresses", {"subnet_id": subnet, "available": 0})

    first = await shop.start(slug)
    marks = await shop.marks(slug, (*ZONES, SPARE_ZONE))
    second = await shop.start(slug)

    await shop.embedded.control("addresses", {"subnet_id": subnet, "available": None})
    assert first.story == second.story == [("spot", "found")]
    assert first.calls == second.calls == ["ok"]
    assert SPARE_ZONE in first.attempts[0]["zones"]
    assert SPARE_ZONE not in second.attempts[0]["zones"]
    assert marks == {
        (market, SPARE_ZONE): ("subnet", "InsufficientFreeAddressesInSubnet", MINUTES)
        for market in ("spot", "on-demand")
    }


# --- quotas: each test has a market and class of its own -------------------------------------


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_a_quota_in_every_market_is_the_named_reason"
)
async def test_a_zero_quota_is_reported_by_its_name(shop: Shop) -> None:
    slug = await shop.offer_unpriced("p5.4xlarge", market="spot-only")
    await shop.embedded.control("limits", {"quotas": {"spot": {"p5": 0}}})

    first = await shop.start(slug)
    second = await shop.start(slug)

    assert len(first.calls) == 1
    assert second.calls == []
    for start in (first, second):
        assert "the account's quota “All P5 Spot Instance Requests” is used up" in start.refusal
        assert "An admin can ask AWS for a larger quota" in start.refusal


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_a_quota_closes_its_market_to_all_types_of_its_class"
)
@pytest.mark.parametrize(
    ("code", "market", "kind", "other"),
    [
        ("VcpuLimitExceeded", "on-demand", "p4d.24xlarge", "p5.48xlarge"),
        ("InstanceLimitExceeded", "spot-only", "p4d.24xlarge", "p4de.24xlarge"),
    ],
)
async def test_a_quota_applies_to_the_whole_class_in_its_market(
    shop: Shop, code: str, market: str, kind: str, other: str
) -> None:
    slug = await shop.offer_unpriced(kind, market=market)
    alike = await shop.offer_unpriced(other, market=market)
    await shop.fault(by("entry", code))

    first = await shop.start(slug)
    second = await shop.start(alike)

    assert "is used up" in first.refusal
    assert len(first.calls) == 1
    assert second.calls == []
    marks = await shop.marks(alike)
    theirs = {mark for (where, _), mark in marks.items() if where == market.removesuffix("-only")}
    assert theirs == {("quota", code, MINUTES)}


@pytest.mark.nightly(
    guard="tests/unit/provisioner/launch/test_launch_controller.py::"
    "test_a_quota_closes_its_market_to_all_types_of_its_class"
)
async def test_a_used_up_spot_quota_leaves_on_demand(shop: Shop) -> None:
    slug, alike = await shop.offer("g4dn.xlarge"), await shop.offer("g5.xlarge")
    await shop.fault("MaxSpotInstanceCountExceeded")

    first = await shop.start(slug)
    second = await shop.start(alike)

    assert first.story == [("spot", "quota"), ("on-demand", "found")]
    assert first.notes[0].startswith("The AWS account's spot quota is used up, so")
    assert second.story == [("on-demand", "found")]
    marks = await shop.marks(slug)
    assert marks == {
        ("spot", zone): ("quota", "MaxSpotInstanceCountExceeded", MINUTES) for zone in ZONES
    }
