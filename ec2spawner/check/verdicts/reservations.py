"""Whether a hub's servers can run in the capacity reservations that it is configured with. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...core.offers.reserved_capacity import CapacityReservation, ReservationChoice
from ..finding import Finding, ok, warning
from ..topics import Topic

_OPTION = "c.EC2Spawner.capacity_reservations"


def judge_capacity_reservations(
    choice: ReservationChoice,
    listed: Sequence[CapacityReservation],
    usable: Mapping[str, Collection[str]],
) -> list[Finding]:
    """`usable` are the zones of the hub's subnets by instance type that a profile buys on
    demand. A hub works without any reservation: nothing here fails."""
    chosen = [each for each in listed if choice.chooses(each)]
    unpriced = [each for each in listed if choice.lacks_price(each)]
    seen = {each.reservation_id for each in (*chosen, *unpriced)}
    findings = [_missing(each) for each in sorted(choice.named - seen)]
    findings += [_unpriced(each) for each in unpriced]
    if not chosen and choice.tags:
        said = f"no active reservation has the tags of {_OPTION}"
        fix = "give one these tags, or wait until it has begun"
        findings.append(warning(Topic.CAPACITY_RESERVATIONS, said, fix))
    return findings + [_judge(each, usable) for each in chosen]


def _missing(reservation_id: str) -> Finding:
    return warning(
        Topic.CAPACITY_RESERVATIONS,
        f"{reservation_id} is no active reservation for Linux with default tenancy",
        f"remove it from {_OPTION} if it has ended; if not, compare its region, platform and "
        "tenancy: aws ec2 describe-capacity-reservations shows them. A Capacity Block belongs in "
        "`blocks`, and nothing else does",
    )


def _unpriced(each: CapacityReservation) -> Finding:
    return warning(
        Topic.CAPACITY_RESERVATIONS,
        f"{each.reservation_id} is a Capacity Block without a price, and not used",
        f"write it in `blocks` of {_OPTION}, with what was paid as `upfront_usd`: EC2 does not say",
    )


def _judge(each: CapacityReservation, usable: Mapping[str, Collection[str]]) -> Finding:
    what = f"{each.reservation_id}: {each.total} {each.instance_type} in {each.zone}"
    topic = Topic.CAPACITY_RESERVATIONS
    if each.instance_type not in usable:
        fix = f"let a profile that buys on demand have {each.instance_type}"
        return warning(topic, f"{what}, a type that no profile buys on demand", fix)
    if each.zone not in usable[each.instance_type]:
        fix = f"add a subnet in {each.zone} to c.EC2Spawner.subnets"
        return warning(topic, f"{what}, where the hub has no subnet", fix)
    return ok(topic, f"{what}, {each.available} of them unused now")
