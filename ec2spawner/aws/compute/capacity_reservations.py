"""On-Demand Capacity Reservations of the account."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from typing import Final

from ...core.offers.reserved_capacity import CapacityReservation
from ..calls.client import Answer, Client
from ..tags import from_ec2

PLATFORM: Final = "Linux/UNIX"
"""Of the images that instances boot: a reservation for another platform does not fit them."""

PAGE: Final = 100
"""Reservations in a page; few accounts have a second one."""

ACTIVE: Final = [{"Name": "state", "Values": ["active"]}]


class CapacityReservations:
    """The reservations of one region."""

    client: Client

    async def capacity_reservations(self) -> Sequence[CapacityReservation]:
        """The active ones that instances of a hub can run in, the account's own and those that
        others share with it. Raises `CloudError`."""
        return await list_capacity_reservations(self.client)


async def list_capacity_reservations(client: Client) -> Sequence[CapacityReservation]:
    """Without Capacity Blocks, interruptible reservations, and those of an Outpost or a placement
    group: a launch needs more than their id. Raises `CloudError`."""
    return await client.pages(
        "describe_capacity_reservations", _reservations, page=PAGE, Filters=ACTIVE
    )


def _reservations(answer: Answer) -> Sequence[CapacityReservation]:
    return [_reservation(row) for row in answer["CapacityReservations"] if _fits(row)]


def _fits(row: Answer) -> bool:
    needs_more = row.get("Interruptible") or row.get("OutpostArn") or row.get("PlacementGroupArn")
    return (
        not needs_more
        and row.get("State") == "active"
        and row.get("InstancePlatform") == PLATFORM
        and row.get("Tenancy", "default") == "default"
        and row.get("ReservationType", "default") == "default"
    )


def _reservation(row: Answer) -> CapacityReservation:
    end = row.get("EndDate")
    return CapacityReservation(
        reservation_id=row["CapacityReservationId"],
        instance_type=row["InstanceType"],
        zone=row.get("AvailabilityZone", ""),
        total=row["TotalInstanceCount"],
        available=row["AvailableInstanceCount"],
        ends_at=None if end is None else end.astimezone(UTC),
        tags=from_ec2(row),
    )
