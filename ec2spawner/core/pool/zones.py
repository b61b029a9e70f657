"""Which zones the places of a target ask for. Pure.

A home on EBS is mounted in its own zone only: an instance elsewhere serves its user not at all.
"""

from __future__ import annotations

from collections.abc import Mapping

ANY = ""
"""In place of a zone: whichever has an instance, at the best price."""


def by_zone(running: int, homes: Mapping[str, int]) -> Mapping[str, int]:
    """Places by zone, in proportion to the homes of recent users of the profile.

    `homes` has their number by zone, and under `ANY` that of recent users who have none yet. The
    largest remainders get what is left over; of equal ones the zone with more homes, then the first
    by name. Without homes all places are in `ANY`. Zones without a place are left out.
    """
    total = sum(homes.values())
    if not total:
        return {ANY: running} if running else {}
    places = {zone: running * number // total for zone, number in homes.items()}
    by_remainder = sorted(
        homes, key=lambda zone: (-(running * homes[zone] % total), -homes[zone], zone)
    )
    for zone in by_remainder[: running - sum(places.values())]:
        places[zone] += 1
    return {zone: number for zone, number in places.items() if number}
