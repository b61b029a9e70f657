"""`c.EC2Spawner.discounts`: prices that are agreed before anything is used."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ...core.pricing.discounts import Discount
from ..values import Words, shown, wrong
from .profile import instance_type

_PRICE_FIX: Final = "write USD per hour as a number, such as 0.63"
_DATE_FIX: Final = 'write a day, such as "2027-03-01"'


def _price(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        wrong(f"{shown(value)} is no price", _PRICE_FIX)
    try:
        price = float(value)
    except (ValueError, OverflowError):
        wrong(f"{shown(value)} is no price", _PRICE_FIX)
    if not 0 < price < math.inf:
        wrong(f"{shown(value)} is no price that AWS asks", _PRICE_FIX)
    return price


def _count(value: object) -> object:
    if isinstance(value, bool | float):
        wrong(
            f"{shown(value)} is no number of instances", 'write a whole number, such as "count": 4'
        )
    return value


def _day(value: object) -> date | None:
    """Not as pydantic reads dates: it takes a bare number for seconds since 1970."""
    if value is None or (isinstance(value, date) and not isinstance(value, datetime)):
        return value
    if not isinstance(value, str):
        wrong(f"{shown(value)} is no date", _DATE_FIX)
    try:
        return date.fromisoformat(value.strip())
    except ValueError:
        wrong(f"{shown(value)} is no date", _DATE_FIX)


def _zone(value: str) -> str:
    if value and not re.fullmatch(r"[a-z]{2,}(-[a-z0-9]+)+[a-z]", value):
        wrong(f"{shown(value)} is no availability zone", 'write it like "us-east-1a"')
    return value


InstanceTypeName = Annotated[str, AfterValidator(instance_type)]


class DiscountConfig(Words):
    """Reserved Instances and Savings Plans: so many on-demand instances of a type at once, at a
    rate of their own. What is paid for already is used before anything else but capacity
    reservations, to whose instances it applies, too.
    Reserved Instances that the hub may read count by themselves, except while a discount of their
    type that is written here holds."""

    instance_type: InstanceTypeName = Field(
        description="The EC2 instance type that it is for.", examples=["g5.xlarge"]
    )
    usd_per_hour: Annotated[float, BeforeValidator(_price)] = Field(
        gt=0,
        description="What an hour of one instance costs with it, in USD; upfront payments are "
        "spread over the term.",
        examples=[0.63],
    )
    count: Annotated[int, BeforeValidator(_count)] = Field(
        ge=0,
        le=100_000,
        description="How many instances of this hub it covers at once. 0 leaves the account's "
        "reservations of this type to others.",
        examples=[4],
    )
    since: Annotated[date | None, BeforeValidator(_day)] = Field(
        default=None,
        description="Its first day, in UTC. None is from ever on.",
        examples=["2026-03-02"],
    )
    until: Annotated[date | None, BeforeValidator(_day)] = Field(
        default=None,
        description="Its last day, in UTC. None is unlimited.",
        examples=["2027-03-01"],
    )
    zone: Annotated[str, AfterValidator(_zone)] = Field(
        default="",
        description="The availability zone of a zonal discount; empty is the whole region.",
        examples=["us-east-1a"],
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.since and self.until and self.since > self.until:
            wrong(f"its since, {self.since}, is after its until, {self.until}", "swap them")
        return self

    def discount(self) -> Discount:
        """From the beginning of its first day to the end of its last one."""
        begins = datetime.combine(self.since, time.min, UTC) if self.since else None
        ends = datetime.combine(self.until, time.max, UTC) if self.until else None
        return Discount(
            instance_type=self.instance_type,
            usd_per_hour=self.usd_per_hour,
            count=self.count,
            until=ends,
            zone=self.zone,
            since=begins,
        )
