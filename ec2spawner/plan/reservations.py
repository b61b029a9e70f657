"""How capacity can be bought in advance: the commands, and their prices where known. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final

from ..core.profiles.profiles import InstanceType
from ..wire import Market
from .facts import Facts, Wanted

BLOCK_FAMILIES: Final = ("p4d", "p4de", "p5", "p5e", "p5en", "p6", "trn1", "trn2")
"""Families of which AWS sells Capacity Blocks for ML (EC2 user guide, November 2026), up to a
hyphen: `p6` is `p6-b200`, too."""

BLOCK_SIZES: Final = (1, 2, 4, 8, 16, 32, 64)
"""Instances of one block (EC2 user guide, November 2026)."""

BLOCK_DAYS: Final = 14
"""Up to so many days a block lasts whole days, beyond them whole weeks (`CapacityDurationHours` of
DescribeCapacityBlockOfferings, EC2 API reference, November 2026)."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A way to hold capacity, which this command does not buy."""

    kind: str
    said: str
    command: str
    usd: float | None
    """For the class's time, without the hour within which EC2 ends a reservation; None is
    unknown."""


def reservations(facts: Facts, wanted: Wanted, now: datetime) -> Iterator[Reservation]:
    """Of the profile's first type, for the users that reserved capacity has no place for; nothing
    where none is offered. Only on-demand instances run in an On-Demand Capacity Reservation."""
    if not facts.types:
        return
    kind, places = facts.types[0], facts.reserved_places(wanted, now)
    if Market.ON_DEMAND in wanted.profile.markets and places < wanted.users:
        yield _on_demand(kind, facts, replace(wanted, users=wanted.users - places), now)
    if kind.name.partition(".")[0].partition("-")[0] in BLOCK_FAMILIES:
        yield _block(kind, facts, wanted, now)


def _on_demand(kind: InstanceType, facts: Facts, wanted: Wanted, now: datetime) -> Reservation:
    price = facts.on_demand.get(kind.name)
    # In UTC: within another zone, Python adds to the time of day, and the clock may change.
    end = (wanted.at or now).astimezone(UTC) + timedelta(hours=wanted.hours)
    zone = min(facts.offered.get(kind.name, ()), default=f"{facts.region}a")
    more = "" if price is None else f", {price * wanted.users:.2f} USD"
    homes = ", and only users whose home is there can use it" if facts.homes_in_zones else ""
    return Reservation(
        "On-Demand Capacity Reservation",
        "billed as if its instances ran, from the moment it is made until its end, used or not, "
        f"plus up to one hour{more}: EC2 cancels it within an hour after its end. Create it "
        f"shortly before the class. All of it is in {zone}{homes}. Write its id into "
        "c.EC2Spawner.capacity_reservations: servers of its type and zone then run in it, before "
        "spot",
        f"aws ec2 create-capacity-reservation --instance-type {kind.name} --instance-platform "
        f"Linux/UNIX --availability-zone {zone} --instance-count {wanted.users} "
        f"--instance-match-criteria targeted --end-date-type limited "
        f"--end-date {_instant(end)} --region {facts.region}",
        None if price is None else price * wanted.users * wanted.hours,
    )


def _block(kind: InstanceType, facts: Facts, wanted: Wanted, now: datetime) -> Reservation:
    begin = wanted.at or now
    most = BLOCK_SIZES[-1]
    size = next((size for size in BLOCK_SIZES if size >= wanted.users), most)
    several = f". One block has at most {most} instances: {wanted.users} users need several"
    return Reservation(
        "Capacity Block for ML",
        f"paid in advance, for whole days and beyond {BLOCK_DAYS} days for whole weeks; the "
        "command asks for the next number of instances that AWS sells as a block, lists the offers "
        "with their prices, and starts nothing. Write the id of the one that you buy, with what "
        "you paid, into `blocks` of c.EC2Spawner.capacity_reservations: servers run in it until 40 "
        "minutes before its end, 70 in an UltraServer"
        f"{several if wanted.users > most else ''}",
        f"aws ec2 describe-capacity-block-offerings --instance-type {kind.name} --instance-count "
        f"{size} --capacity-duration-hours {24 * _block_days(wanted.hours)} --start-date-range "
        f"{_instant(begin.astimezone(UTC))} --region {facts.region}",
        None,
    )


def _block_days(hours: float) -> int:
    days = ceil(hours / 24)
    return days if days <= BLOCK_DAYS else 7 * ceil(days / 7)


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
