"""What an interruption on purpose costs besides its instance: minutes of AWS Fault Injection
Service (FIS). Pure."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Final

from .cost_rows import Cause, CostRow, Purpose, Resource
from .exact import NANO
from .lease_costs import Account
from .local_days import local_day
from .segments import Segment

KEY: Final = "rehearsal"
"""Names its overhead, under the id of the instance. The line is the record that the instance was
interrupted on purpose, so it is stored before AWS is asked."""

USD_PER_MINUTE: Final = 0.10
"""What a minute of an action costs in every commercial region (AWS's FIS price page, November
2026)."""

GOVCLOUD_USD_PER_MINUTE: Final = 0.12

MINUTE: Final = 60_000_000
"""In microseconds."""


def usd_of(minutes: int, zone: str) -> float:
    """What an experiment of so many minutes costs in the region of an availability zone."""
    is_govcloud = zone.startswith("us-gov-")
    return minutes * (GOVCLOUD_USD_PER_MINUTE if is_govcloud else USD_PER_MINUTE)


def rehearsal_costs(
    segment: Segment, minutes: int, account: Account, now: datetime, place: tzinfo
) -> tuple[CostRow, ...]:
    """The line of an experiment that begins at `now` on the instance of the segment."""
    nano_usd = round(usd_of(minutes, segment.zone) * NANO)
    return (
        CostRow(
            day=local_day(now, place),
            user=account.user,
            server=account.server,
            payer=account.payer,
            profile=account.profile,
            instance_type=segment.instance_type,
            zone=segment.zone,
            market=segment.market.value,
            resource=Resource.REHEARSAL,
            purpose=Purpose.OVERHEAD,
            cause=Cause.REHEARSAL.value,
            microseconds=minutes * MINUTE,
            gpus=0.0,
            nano_usd=nano_usd,
            on_demand_nano_usd=nano_usd,
        ),
    )
