"""`c.EC2Spawner.capacity_reservations`: reserved capacity that this hub's servers run in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from ...core.offers.reserved_capacity import ReservationChoice
from ..values import Texts, Words, listed, shown, wrong

MAX_IDS: Final = 100
"""More are better chosen by a tag."""


def _reservation_id(value: str) -> str:
    if not re.fullmatch(r"cr-[0-9a-f]{8,17}", value):
        wrong(
            f"{shown(value)} is no id of a capacity reservation",
            'write it like "cr-0a1b2c3d4e5f60718"',
        )
    return value


ReservationId = Annotated[str, AfterValidator(_reservation_id)]

Usd = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]

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


class CapacityBlockConfig(Words):
    """One Capacity Block for ML, with what it costs: EC2 does not report that."""

    id: ReservationId = Field(
        description="Id of the block's capacity reservation.",
        examples=["cr-0a1b2c3d4e5f60718"],
    )
    upfront_usd: Usd = Field(
        description="USD that were paid in advance for the whole block, with its extensions. A "
        "server in it is charged its part of it: by the hour, from the block's start to its end, "
        "and by place.",
        examples=[8421.12],
    )


class CapacityReservationsConfig(Words):
    """On-Demand Capacity Reservations and Capacity Blocks of the account that servers of this hub
    run in. Reservations are chosen by id or by tags, blocks by id and with their price. Their
    places are taken before other on-demand capacity; a lease is charged the on-demand price, in a
    block the block's, and unused places are overhead. The hub neither makes nor cancels any."""

    ids: Texts = Field(
        default=(),
        description="Ids of On-Demand Capacity Reservations.",
        examples=[["cr-0a1b2c3d4e5f60718"]],
    )
    tags: Annotated[dict[str, str], BeforeValidator(_tags)] = Field(
        default={},
        description="Reservations that have all of these tags are used as well. Empty is none.",
        examples=[{"course": "ml-101"}],
    )
    blocks: Annotated[tuple[CapacityBlockConfig, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="Capacity Blocks for ML, each with what was paid for it.",
        examples=[[{"id": "cr-0a1b2c3d4e5f60718", "upfront_usd": 8421.12}]],
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
            _reservation_id(each)
        if len(value) > MAX_IDS:
            wrong(f"more than {MAX_IDS} ids", "give the reservations a tag, and write it in `tags`")
        return value

    @field_validator("blocks")
    @classmethod
    def _are_listed_once(
        cls, value: tuple[CapacityBlockConfig, ...]
    ) -> tuple[CapacityBlockConfig, ...]:
        repeated = [name for name, count in Counter(x.id for x in value).items() if count > 1]
        if repeated:
            wrong(
                f"{repeated[0]} is listed more than once",
                "write it once, with what was paid for the block and its extensions together",
            )
        return value

    def choice(self) -> ReservationChoice:
        """The same for the provisioner."""
        blocks = {each.id: each.upfront_usd for each in self.blocks}
        return ReservationChoice(frozenset(self.ids), dict(self.tags), self.before_spot, blocks)
