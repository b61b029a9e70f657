"""On-Demand Capacity Reservations and Capacity Blocks of the account."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from ...core.offers.reserved_capacity import CapacityReservation
from ..calls.client import Answer, Client
from ..tags import from_ec2

PLATFORM: Final = "Linux/UNIX"
"""Of the images that instances boot: a reservation for another platform does not fit them."""

BLOCK: Final = "capacity-block"
"""EC2's name of a Capacity Block, as a type of reservation, a market type and a lifecycle."""

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
    """Without interruptible reservations, and those of an Outpost or a placement group: a launch
    needs more than their id. Raises `CloudError`."""
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
        and (row.get("ReservationType", "default") == "default" or _is_block(row))
    )


def _is_block(row: Answer) -> bool:
    """A block without an end is none that servers could leave in time."""
    return row.get("ReservationType") == BLOCK and row.get("EndDate") is not None


def _instant(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)


def _reservation(row: Answer) -> CapacityReservation:
    return CapacityReservation(
        reservation_id=row["CapacityReservationId"],
        instance_type=row["InstanceType"],
        zone=row.get("AvailabilityZone", ""),
        total=row["TotalInstanceCount"],
        available=row["AvailableInstanceCount"],
        ends_at=_instant(row.get("EndDate")),
        tags=from_ec2(row),
        is_block=_is_block(row),
        begins_at=_instant(row.get("StartDate")) if _is_block(row) else None,
    )
