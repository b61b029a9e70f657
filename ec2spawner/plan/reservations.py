"""How capacity can be bought in advance: the commands, and their prices where known. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final

from ..core.profiles.profiles import InstanceType
from .facts import Facts, Wanted

BLOCK_FAMILIES: Final = ("p4d", "p4de", "p5", "p5e", "p5en", "p6", "trn1", "trn2")
"""Families of which AWS sells Capacity Blocks for ML (EC2 user guide, November 2026), up to a
hyphen: `p6` is `p6-b200`, too."""

BLOCK_HOURS: Final = 24
"""A block lasts whole days."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A way to hold capacity, which this command does not buy."""

    kind: str
    said: str
    command: str
    usd: float | None
    """For the class's time; None is unknown."""


def reservations(facts: Facts, wanted: Wanted, now: datetime) -> Iterator[Reservation]:
    """Of the profile's first type; nothing where none is offered."""
    if not facts.types:
        return
    kind = facts.types[0]
    yield _on_demand(kind, facts, wanted, now)
    if kind.name.partition(".")[0].partition("-")[0] in BLOCK_FAMILIES:
        yield _block(kind, facts, wanted, now)


def _on_demand(kind: InstanceType, facts: Facts, wanted: Wanted, now: datetime) -> Reservation:
    price = facts.on_demand.get(kind.name)
    begin = wanted.at or now
    end = (begin + timedelta(hours=wanted.hours)).astimezone(UTC)
    zone = min(facts.offered.get(kind.name, ()), default=f"{facts.region}a")
    return Reservation(
        "On-Demand Capacity Reservation",
        "billed as if its instances ran, from the moment it is made until its end, used or not; "
        "create it shortly before the class. The hub uses it for on-demand instances of its type "
        "and zone; write it into c.EC2Spawner.discounts so that it is used before spot",
        f"aws ec2 create-capacity-reservation --instance-type {kind.name} --instance-platform "
        f"Linux/UNIX --availability-zone {zone} --instance-count {wanted.users} "
        f"--end-date-type limited --end-date {_instant(end)} --region {facts.region}",
        None if price is None else price * wanted.users * wanted.hours,
    )


def _block(kind: InstanceType, facts: Facts, wanted: Wanted, now: datetime) -> Reservation:
    begin = wanted.at or now
    hours = BLOCK_HOURS * ceil(wanted.hours / BLOCK_HOURS)
    return Reservation(
        "Capacity Block for ML",
        "paid in advance for whole days; the command lists what AWS sells, with its price, and "
        "starts nothing. The hub does not launch into blocks",
        f"aws ec2 describe-capacity-block-offerings --instance-type {kind.name} --instance-count "
        f"{wanted.users} --capacity-duration-hours {hours} --start-date-range "
        f"{_instant(begin.astimezone(UTC))} --region {facts.region}",
        None,
    )


def _instant(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
