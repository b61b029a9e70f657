"""DescribeReservedInstances, for reservations set by a control call."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ..api.protocol import EC2Error

TERM = timedelta(days=365)
"""Reserved Instances last one year or three."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Reserved Instances of one type, paid by the hour, upfront, or both."""

    instance_type: str
    count: int
    usd_per_hour: float
    """Charged for every hour, used or not."""
    upfront_usd: float = 0.0
    """Paid once, for each instance."""
    until: datetime = field(default_factory=lambda: datetime.now(UTC) + TERM)
    zone: str = ""
    """Empty is the whole region."""
    reservation_id: str = field(default_factory=lambda: str(uuid.uuid4()))


FILTERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "availability-zone": lambda shown: shown.get("AvailabilityZone"),
    "instance-type": lambda shown: shown["InstanceType"],
    "product-description": lambda shown: shown["ProductDescription"],
    "reserved-instances-id": lambda shown: shown["ReservedInstancesId"],
    "scope": lambda shown: shown["Scope"],
    "state": lambda shown: shown["State"],
}


class Reservations:
    """Answers DescribeReservedInstances; there are none until `set`."""

    def __init__(self) -> None:
        self._reservations: Sequence[Reservation] = ()

    def set(self, reservations: Sequence[Reservation]) -> None:
        """Replace all reservations."""
        self._reservations = tuple(reservations)

    async def describe(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """DescribeReservedInstances, by ids and by `FILTERS`."""
        shown = [_shown(reservation) for reservation in self._reservations]
        ids = parameters.get("ReservedInstancesIds")
        if ids:
            shown = [found for found in shown if found["ReservedInstancesId"] in ids]
        for asked in parameters.get("Filters") or ():
            if asked["Name"] not in FILTERS:
                raise EC2Error("InvalidParameterValue", f"The filter '{asked['Name']}' is invalid")
            value_of = FILTERS[asked["Name"]]
            shown = [found for found in shown if value_of(found) in asked.get("Values", ())]
        return {"ReservedInstances": shown}


def _shown(reservation: Reservation) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "ReservedInstancesId": reservation.reservation_id,
        "InstanceType": reservation.instance_type,
        "InstanceCount": reservation.count,
        "Start": reservation.until - TERM,
        "End": reservation.until,
        "Duration": int(TERM.total_seconds()),
        "FixedPrice": reservation.upfront_usd,
        "UsagePrice": 0.0,
        "RecurringCharges": [{"Amount": reservation.usd_per_hour, "Frequency": "Hourly"}],
        "CurrencyCode": "USD",
        "State": "active" if reservation.until > datetime.now(UTC) else "retired",
        "Scope": "Availability Zone" if reservation.zone else "Region",
        "InstanceTenancy": "default",
        "OfferingClass": "standard",
        "OfferingType": "Partial Upfront" if reservation.upfront_usd else "No Upfront",
        "ProductDescription": "Linux/UNIX",
    }
    return {**shown, "AvailabilityZone": reservation.zone} if reservation.zone else shown
