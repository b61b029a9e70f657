"""Other hardware for a running server or for a run: what there is, and how far a move is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from .message import Market, Message, ShortText

MAX_CHOICES = 40
"""More profiles than these are left out: a person chooses from a list."""


class HardwareChoice(Message):
    """One profile that the server's owner may start."""

    profile: ShortText
    """Its slug."""
    name: ShortText
    usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Of what would be bought first; None is unknown."""
    market: Market | None = None
    is_available: bool = False
    """False where it is sold out as far as is known, or offered in no zone of the home."""
    refusal: ShortText = ""
    """Why no start of it is accepted now, in words; empty where it is."""
    memory_bytes: Annotated[int, Field(ge=0)] = 0
    """0 is unknown."""
    gpu_memory_bytes: Annotated[int, Field(ge=0)] = 0
    """Of all GPUs together; 0 without one."""


class HardwareChoices(Message):
    """Hub -> agent: the other profiles, in the order of the spawn page, as far as the payer of this
    server can pay for them."""

    choices: Annotated[list[HardwareChoice], Field(max_length=MAX_CHOICES)] = []
    own: HardwareChoice | None = None
    """The server's own profile, for a run on an instance of its own; None where the hub no longer
    has it, and from a hub that is older than runs."""
    deletes_disk: bool = False
    """Whether a stop would keep the instance with its own disk, and a move deletes it."""
    reports_ends: bool = False
    """Whether anybody is notified of the end of a run that asks for that."""


class ContinueRequest(Message):
    """`POST leases/{id}/continue` on the owner's behalf."""

    profile: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """The slug to continue on; None asks only how far a move is."""


class Move(Message):
    """How far a server's move to other hardware is."""

    state: Literal["none", "looking", "booting", "moving", "failed"]
    """`none`: it has not been asked for. `looking` for an instance, which is `booting` then, while
    the server runs on. `moving`: the server has left its instance. `failed`: it stays there."""
    profile_name: ShortText = ""
    message: ShortText = ""
    """What happens now, or why it failed, in words."""
