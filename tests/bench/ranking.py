"""How long it takes to decide what to buy, out of every GPU offer that a region has."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ec2spawner.core.offers.launch_errors import LaunchError
from ec2spawner.core.offers.purchase import Offer, Purchase, next_purchase, ranked
from ec2spawner.core.offers.sold_out import SoldOut
from ec2spawner.data import instance_types
from ec2spawner.wire import Market

ZONES = tuple(f"us-east-1{letter}" for letter in "abcdef")
SUBNETS = {f"subnet-{zone}": zone for zone in ZONES}

SPOT_SHARE = (0.25, 0.98)
"""Spot as a share of on-demand: the range of 41 zone prices sampled in November 2026."""

REFUSED_SHARE = 0.2
"""Of the offers asked for; enough to matter, and most are still open."""

NO_QUOTA = "p4d.24xlarge"
"""The account may run none of its class."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of each repetition. On a machine that does nothing else the two are alike."""

    cpu: list[float] = field(default_factory=list)
    """What the work itself took; what other processes took of the core is theirs."""
    wall: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ranking:
    """How long a decision took, and among how many offers it was."""

    offers: int
    open: int
    decide: Times
    """Marks and hints looked up, ranked, and the purchase chosen."""
    sort: Times
    """The baseline: the same offers by price, and nothing else."""


def measure_ranking(repetitions: int) -> Ranking:
    """Decide and merely sort in turn, each time from another order."""
    chance = random.Random(65)
    offers = every_gpu_offer(chance)
    now = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    sold_out = what_was_learned(offers, chance, now)
    decided, only_sorted = Times(), Times()
    for _ in range(repetitions):
        chance.shuffle(offers)
        _timed(decided, lambda: decide(offers, sold_out, now))
        _timed(only_sorted, lambda: sorted(offers, key=_price))
    open_ = sum(sold_out.mark_of(offer.key, now) is None for offer in offers)
    return Ranking(len(offers), open_, decided, only_sorted)


def decide(offers: Sequence[Offer], sold_out: SoldOut, now: datetime) -> Purchase | None:
    """What a launch does with the offers before its first call."""
    open_ = [offer for offer in offers if sold_out.mark_of(offer.key, now) is None]
    hinted = {offer.key for offer in open_ if sold_out.is_hinted(offer.key, now)}
    return next_purchase(ranked(open_, hinted), frozenset(), {})


def every_gpu_offer(chance: random.Random) -> list[Offer]:
    """Every bundled GPU type in six zones and both markets; spot prices are made up."""
    offers = []
    for kind in instance_types().values():
        if not kind.gpu:
            continue
        usd = kind.on_demand_usd_per_hour
        for zone in ZONES:
            spot = None if usd is None else usd * chance.uniform(*SPOT_SHARE)
            offers += [
                Offer(Market.SPOT, kind.name, zone, spot, kind.interruption_band),
                Offer(Market.ON_DEMAND, kind.name, zone, usd, 0),
            ]
    return offers


def what_was_learned(offers: Sequence[Offer], chance: random.Random, now: datetime) -> SoldOut:
    """A memory with marks of every class, some hints among them."""
    sold_out = SoldOut()
    subnet_of = {zone: subnet for subnet, zone in SUBNETS.items()}
    for market in Market:
        asked = [(o.instance_type, subnet_of[o.zone]) for o in offers if o.market is market]
        refused = chance.sample(asked, round(REFUSED_SHARE * len(asked)))
        errors = [_refusal(kind, subnet, chance) for kind, subnet in refused]
        errors.append(LaunchError("VcpuLimitExceeded", "", NO_QUOTA))
        sold_out.learn(market, asked, errors, (), SUBNETS, now)
    return sold_out


def _refusal(instance_type: str, subnet: str, chance: random.Random) -> LaunchError:
    code = chance.choice(["InsufficientInstanceCapacity", "UnfulfillableCapacity", "Unsupported"])
    hint = (
        f"You can currently get {instance_type} capacity by not specifying an Availability Zone "
        f"in your request or choosing {chance.choice(ZONES)}."
    )
    return LaunchError(code, chance.choice(["", hint]), instance_type, subnet)


def _price(offer: Offer) -> tuple[bool, float]:
    return offer.usd_per_hour is None, offer.usd_per_hour or 0.0


def _timed(times: Times, work: Callable[[], object]) -> None:
    gc.collect(0)  # the garbage of whoever ran before is not this one's time
    wall, cpu = time.perf_counter(), time.thread_time()
    work()
    times.cpu.append(1000 * (time.thread_time() - cpu))
    times.wall.append(1000 * (time.perf_counter() - wall))
