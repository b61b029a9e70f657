"""Lines of AWS's bill, whatever export they come from. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Final

from ..ledger.exact import NANO


class Charge(StrEnum):
    """What a line charges for."""

    INSTANCE = "instance"
    """Time of an instance, at its list price or a negotiated one."""
    DISCOUNTED = "discounted"
    """Time of an instance that a Reserved Instance or a Savings Plan covers."""
    OTHER_USAGE = "other-usage"
    """Volumes, addresses, data transfer and the rest."""
    CREDIT = "credit"
    """Credits and refunds; negative."""
    TAX = "tax"


TIME: Final = frozenset({Charge.INSTANCE, Charge.DISCOUNTED})
"""Charges for time of instances."""

_INSTANCE_TIME: Final = re.compile(r"(?:^|-)(?:BoxUsage|SpotUsage|HeavyUsage)(?::|$)")
"""AWS's usage types for it, such as `USW2-SpotUsage:g5.xlarge`: on-demand, spot, and reserved with
an hourly fee."""


@dataclass(frozen=True, slots=True)
class BillLine:
    """What AWS charges for one resource in one hour or day. Instants in UTC."""

    resource_id: str
    """Such as `i-0123`; empty for what belongs to no resource."""
    start: datetime
    end: datetime
    charge: Charge
    nano_usd: int
    """In 1e-9 USD, with the share of an upfront payment or commitment that this time used."""
    list_nano_usd: int | None = None
    """The same at AWS's public on-demand price, in 1e-9 USD; None where the bill has none."""
    microseconds: int = 0
    """Of billed instance time."""
    usage_type: str = ""
    """AWS's, such as `EBS:VolumeUsage.gp3`."""
    hub: str = ""
    """Value of the tag `ec2spawner:hub`; empty where there is none or it is not activated."""


def is_instance_time(usage_type: str) -> bool:
    """Whether a usage type of AWS's is for the running time of an instance."""
    return bool(_INSTANCE_TIME.search(usage_type))


def nano_of(amount: str) -> int:
    """An amount of a bill in 1e-9 USD, rounded to the nearest; an empty one is 0.

    Raises `ValueError` for what is no number.
    """
    if not amount.strip():
        return 0
    try:
        value = Decimal(amount)
    except InvalidOperation:
        raise ValueError(f"{amount!r} is no amount") from None
    if not value.is_finite():
        raise ValueError(f"{amount!r} is no amount")
    return int((value * NANO).to_integral_value())


def hours_in_microseconds(hours: str) -> int:
    """A number of hours of a bill in microseconds. Raises `ValueError` for what is no number."""
    # The scale differs, the rounding and the refusals do not.
    return nano_of(hours) * 3600 // 1000
