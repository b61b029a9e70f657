"""The actions on capacity reservations: create, describe, cancel; Capacity Blocks are only made."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ...core.offers.quotas import quota_class
from ...wire import Market
from ..api import pagination
from ..api.moto_backend import Moto
from ..api.protocol import EC2Error
from ..market.capacity import Offer
from ..market.reserved_places import BLOCK, Reservation, ReservedPlaces
from ..market.type_facts import instance_type_facts
from .blueprint import tag_specifications
from .lifecycle import Lifecycles
from .quotas import Quotas

PLATFORM = "Linux/UNIX"
"""Of the one image here."""

FILTERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "availability-zone": lambda shown: shown["AvailabilityZone"],
    "end-date-type": lambda shown: shown["EndDateType"],
    "instance-match-criteria": lambda shown: shown["InstanceMatchCriteria"],
    "instance-platform": lambda shown: shown["InstancePlatform"],
    "instance-type": lambda shown: shown["InstanceType"],
    "owner-id": lambda shown: shown["OwnerId"],
    "state": lambda shown: shown["State"],
    "tenancy": lambda shown: shown["Tenancy"],
}
"""Of those that EC2 documents; it has more."""


class CapacityReservations:
    """Answers the actions; a reservation is active at once."""

    def __init__(
        self, moto: Moto, places: ReservedPlaces, lifecycles: Lifecycles, quotas: Quotas
    ) -> None:
        self._moto = moto
        self._places = places
        self._lifecycles = lifecycles
        self._quotas = quotas

    async def create(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """CreateCapacityReservation. Raises EC2's errors of capacity and quota: a reservation
        counts as if its instances ran."""
        for name in ("InstanceType", "InstancePlatform", "InstanceCount"):
            if parameters.get(name) in (None, ""):
                message = f"The request must contain the parameter {name}"
                raise EC2Error("MissingParameter", message)
        kind, count = parameters["InstanceType"], int(parameters["InstanceCount"])
        zone = parameters.get("AvailabilityZone") or ""
        _check_supported(parameters)
        facts = instance_type_facts(kind, self._moto.region)
        if zone not in facts.zones:
            raise EC2Error(
                "Unsupported" if zone.startswith(self._moto.region) else "InvalidParameterValue",
                f"The requested configuration is currently not supported: {kind} in '{zone}'.",
            )
        offer = Offer("on-demand", kind, zone)
        counted = Market.ON_DEMAND, quota_class(Market.ON_DEMAND, kind)
        in_use = self._lifecycles.vcpus_in_use(counted)
        if self._quotas.headroom(offer, in_use, facts.vcpus, count) < count:
            raise self._quotas.exceeded(offer)
        tags = tag_specifications(parameters.get("TagSpecifications") or ())
        reservation = Reservation(
            reservation_id=_new_id(),
            offer=offer,
            total=count,
            vcpus=facts.vcpus,
            is_open=parameters.get("InstanceMatchCriteria", "open") == "open",
            created_at=datetime.now(UTC),
            ends_at=_end(parameters),
            tags=tags.get("capacity-reservation", {}),
        )
        self._places.add(reservation)
        return {"CapacityReservation": self._shown(reservation)}

    def make_block(self, offer: Offer, count: int, begun: float, left: float) -> str:
        """The id of a Capacity Block that has begun so many seconds ago and ends in so many.

        EC2 sells one for whole days from a time that it offers; this is for tests of its end.
        """
        now = datetime.now(UTC)
        block = Reservation(
            reservation_id=_new_id(),
            offer=offer,
            total=count,
            vcpus=instance_type_facts(offer.instance_type, self._moto.region).vcpus,
            is_open=False,
            created_at=now - timedelta(seconds=begun),
            ends_at=now + timedelta(seconds=left),
            is_block=True,
        )
        self._places.add(block)
        return block.reservation_id

    async def describe(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """DescribeCapacityReservations, by ids and by `FILTERS` and tags."""
        page = pagination.asked("DescribeCapacityReservations", parameters)
        ids = parameters.get("CapacityReservationIds")
        found = [self._places.get(each) for each in ids] if ids else self._places.all()
        shown = [self._shown(each) for each in found]
        for asked in parameters.get("Filters") or ():
            value_of = _filter(asked["Name"])
            shown = [each for each in shown if value_of(each) in (asked.get("Values") or ())]
        items, token = page.of(shown)
        answer: dict[str, Any] = {"CapacityReservations": items}
        return answer if token is None else {**answer, "NextToken": token}

    async def cancel(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """CancelCapacityReservation; its instances run on."""
        reservation = self._places.get(parameters.get("CapacityReservationId") or "")
        if reservation.state != "active":
            message = f"The Capacity Reservation is {reservation.state} and cannot be cancelled"
            raise EC2Error("InvalidCapacityReservationState", message)
        if reservation.is_block:
            raise EC2Error("UnsupportedOperation", "A Capacity Block cannot be cancelled.")
        self._places.end(reservation, "cancelled")
        return {"Return": True}

    def _shown(self, each: Reservation) -> dict[str, Any]:
        account, region, name = self._moto.account, self._moto.region, each.reservation_id
        shown: dict[str, Any] = {
            "CapacityReservationId": name,
            "CapacityReservationArn": f"arn:aws:ec2:{region}:{account}:capacity-reservation/{name}",
            "OwnerId": account,
            "InstanceType": each.offer.instance_type,
            "InstancePlatform": PLATFORM,
            "AvailabilityZone": each.offer.zone,
            "Tenancy": "default",
            "TotalInstanceCount": each.total,
            "AvailableInstanceCount": each.available,
            "EbsOptimized": False,
            "EphemeralStorage": False,
            "State": each.state,
            "StartDate": each.created_at,
            "CreateDate": each.created_at,
            "EndDateType": "limited" if each.ends_at else "unlimited",
            "InstanceMatchCriteria": "open" if each.is_open else "targeted",
            "ReservationType": BLOCK if each.is_block else "default",
            "Tags": [{"Key": key, "Value": value} for key, value in each.tags.items()],
        }
        return {**shown, "EndDate": each.ends_at} if each.ends_at else shown


def _new_id() -> str:
    return f"cr-{secrets.token_hex(8)}{secrets.choice('0123456789abcdef')}"


def _filter(name: str) -> Callable[[Mapping[str, Any]], Any]:
    if name.startswith("tag:"):
        key = name.removeprefix("tag:")
        return lambda shown: next((t["Value"] for t in shown["Tags"] if t["Key"] == key), None)
    if name not in FILTERS:
        message = f"The embedded EC2 does not filter capacity reservations by {name}."
        raise EC2Error("UnsupportedOperation", message)
    return FILTERS[name]


def _check_supported(parameters: Mapping[str, Any]) -> None:
    """Refuse what EC2 has and this does not."""
    ours = {"InstancePlatform": PLATFORM, "Tenancy": "default", "DeliveryPreference": "fixed"}
    for name, value in ours.items():
        if parameters.get(name, value) != value:
            message = f"The embedded EC2 has capacity reservations with {name} {value} only."
            raise EC2Error("UnsupportedOperation", message)
    for name in ("AvailabilityZoneId", "OutpostArn", "PlacementGroupArn", "CommitmentDuration"):
        if parameters.get(name):
            message = f"The embedded EC2 has no capacity reservations with {name}."
            raise EC2Error("UnsupportedOperation", message)
    if parameters.get("StartDate"):
        raise EC2Error("UnsupportedOperation", "A reservation of the embedded EC2 begins at once.")
    if int(parameters["InstanceCount"]) < 1:
        raise EC2Error("InvalidParameterValue", "InstanceCount must be 1 or more.")
    if parameters.get("InstanceMatchCriteria", "open") not in ("open", "targeted"):
        raise EC2Error("InvalidParameterValue", "InstanceMatchCriteria is open or targeted.")


def _end(parameters: Mapping[str, Any]) -> datetime | None:
    """EndDate; raises EC2's errors where it does not fit EndDateType, or is over."""
    end, kind = parameters.get("EndDate"), parameters.get("EndDateType", "unlimited")
    if kind not in ("limited", "unlimited"):
        raise EC2Error("InvalidParameterValue", "EndDateType is limited or unlimited.")
    if (kind == "limited") != (end is not None):
        message = "EndDate is required if EndDateType is limited, and invalid if it is unlimited."
        raise EC2Error("InvalidParameterCombination", message)
    if end is None:
        return None
    instant: datetime = end.astimezone(UTC) if end.tzinfo else end.replace(tzinfo=UTC)
    if instant <= datetime.now(UTC):
        raise EC2Error("InvalidParameterValue", "EndDate must be in the future.")
    return instant
