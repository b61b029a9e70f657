"""`c.EC2Spawner.capacity_reservations`: accepted as an admin writes it, or refused with the fix."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.config import ConfigError, Options, validate_options
from ec2spawner.core.offers.reserved_capacity import CapacityReservation, ReservationChoice
from ec2spawner.hub.startup import settings_of

GOOD: dict[str, Any] = {
    "region": "us-east-1",
    "subnets": ["subnet-0a1b2c3d"],
    "image": "ami-0a1b2c3d",
}
ID = "cr-0a1b2c3d4e5f60718"


def options(reservations: Any) -> Options:
    raw = {**GOOD, "capacity_reservations": reservations}
    return validate_options(raw, cleanup_servers=False, environ={})


def choice(reservations: Any) -> ReservationChoice:
    return settings_of(options(reservations)).capacity_reservations


def listed(name: str, **tags: str) -> CapacityReservation:
    return CapacityReservation(name, "g5.xlarge", "us-east-1a", 4, 4, tags=tags)


def test_none_is_the_default() -> None:
    found = settings_of(validate_options(GOOD, cleanup_servers=False, environ={}))
    assert not found.capacity_reservations.is_any
    assert not found.capacity_reservations.chooses(listed(ID, course="ml"))


def test_by_id_or_by_all_tags() -> None:
    found = choice({"ids": [ID], "tags": {"course": "ml", "term": "2027"}})
    assert found.is_any
    assert found.before_spot
    assert found.chooses(listed(ID))
    assert found.chooses(listed("cr-00000000", course="ml", term="2027", owner="x"))
    assert not found.chooses(listed("cr-00000000", course="ml"))


def test_after_spot() -> None:
    assert not choice({"ids": [ID], "before_spot": False}).before_spot


def test_a_block_by_its_id_and_price() -> None:
    found = choice({"blocks": [{"id": ID, "upfront_usd": 8421.12}]})
    assert found == ReservationChoice(blocks={ID: 8421.12})


@pytest.mark.parametrize(
    ("reservations", "place", "fix"),
    [
        ({"ids": ["i-0a1b2c3d"]}, ".ids: ", 'write it like "cr-0a1b2c3d4e5f60718"'),
        ({"ids": ID}, ".ids: ", "put it in a list"),
        ({"ids": [f"cr-{n:08x}" for n in range(101)]}, ".ids: ", "in `tags`"),
        ({"tags": ["course"]}, ".tags: ", '{"course": "ml-101"}'),
        ({"tags": {"course": 101}}, ".tags: ", '{"course": "ml-101"}'),
        ({"tags": {"": "x"}}, ".tags: ", '{"course": "ml-101"}'),
        ({"id": [ID]}, ".id: ", "ids"),
        ({"blocks": [{"id": ID}]}, ".blocks[0].upfront_usd: ", ""),
        ({"blocks": [{"id": ID, "upfront_usd": -1}]}, ".blocks[0].upfront_usd: ", ""),
        (
            {"blocks": [{"id": "cb-0a1b2c3d", "upfront_usd": 1}]},
            ".blocks[0].id: ",
            'write it like "cr-0a1b2c3d4e5f60718"',
        ),
        ({"blocks": [{"id": ID, "upfront_usd": n} for n in (1, 2)]}, ".blocks: ", "together"),
        ({"blocks": {ID: 8421.12}}, ".blocks: ", ""),
        ([ID], ": ", ""),
    ],
)
def test_what_is_wrong_is_refused_with_its_place_and_the_fix(
    reservations: Any, place: str, fix: str
) -> None:
    with pytest.raises(ConfigError) as error:
        options(reservations)
    said = str(error.value)
    assert f"c.EC2Spawner.capacity_reservations{place}" in said
    assert fix in said
