"""`c.EC2Spawner.capacity_reservations`: reserved capacity that this hub's servers run in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, field_validator

from ...core.offers.reserved_capacity import ReservationChoice
from ..values import Texts, Words, shown, wrong

MAX_IDS: Final = 100
"""More are better chosen by a tag."""

_TAGS_FIX: Final = 'write a dict of texts, such as {"course": "ml-101"}'


def _tags(value: object) -> object:
    if not isinstance(value, Mapping):
        wrong(f"{shown(value)} is no dict", _TAGS_FIX)
    for each in (*value.keys(), *value.values()):
        if not isinstance(each, str):
            wrong(f"{shown(each)} is no text", _TAGS_FIX)
    if "" in value:
        wrong("a tag has no name", _TAGS_FIX)
    return value


class CapacityReservationsConfig(Words):
    """On-Demand Capacity Reservations of the account that servers of this hub run in. They are
    chosen by id or by tags. Their places are taken before other on-demand capacity; a lease is
    charged the on-demand price, and unused places are overhead. The hub neither makes nor cancels
    a reservation."""

    ids: Texts = Field(
        default=(),
        description="Ids of reservations.",
        examples=[["cr-0a1b2c3d4e5f60718"]],
    )
    tags: Annotated[dict[str, str], BeforeValidator(_tags)] = Field(
        default={},
        description="Reservations that have all of these tags are used as well. Empty is none.",
        examples=[{"course": "ml-101"}],
    )
    before_spot: bool = Field(
        default=True,
        description="Whether their places are taken before spot: they cost the same unused. "
        "`False` takes them after spot, and before other on-demand capacity.",
    )

    @field_validator("ids")
    @classmethod
    def _are_ids(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if not re.fullmatch(r"cr-[0-9a-f]{8,17}", each):
                wrong(
                    f"{shown(each)} is no id of a capacity reservation",
                    'write it like "cr-0a1b2c3d4e5f60718"',
                )
        if len(value) > MAX_IDS:
            wrong(f"more than {MAX_IDS} ids", "give the reservations a tag, and write it in `tags`")
        return value

    def choice(self) -> ReservationChoice:
        """The same for the provisioner."""
        return ReservationChoice(frozenset(self.ids), dict(self.tags), self.before_spot)
