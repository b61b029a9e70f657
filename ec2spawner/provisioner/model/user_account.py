"""A user of JupyterHub, as leases, homes, sleeping sessions and runs refer to it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

ROUNDING: Final = timedelta(seconds=1)
"""By which two readings of when an account was created may differ where one is in whole seconds:
MySQL stores no fractions, and JupyterHub has what it wrote in memory until its next start."""


@dataclass(frozen=True, slots=True)
class Identity:
    """An account in JupyterHub's database. Neither part is enough: names change and are used again,
    and SQLite gives the id of a deleted user to the next one."""

    jupyterhub_id: int
    created_at: datetime | None
    """UTC; None where JupyterHub does not know."""

    def is_same(self, other: Identity) -> bool:
        """Whether both are readings of one account."""
        if self.jupyterhub_id != other.jupyterhub_id:
            return False
        mine, others = self.created_at, other.created_at
        if mine is None or others is None:
            return mine is others
        is_rounded = 0 in {mine.microsecond, others.microsecond}
        return mine == others or (is_rounded and abs(mine - others) <= ROUNDING)


class Claim(StrEnum):
    """Who gets what is recorded under a key."""

    IDENTITY = "identity"
    """The user of JupyterHub with this identity, and nobody else."""
    NAME = "name"
    """The first who logs in with its name: JupyterHub's database was made anew since."""
    NOBODY = "nobody"
    """Only whom an admin hands it over to: its user has got another key instead."""


@dataclass(frozen=True, slots=True)
class UserAccount:
    """One account, and what it is called."""

    key: str
    """In the place of a user's name in all records, and never changed: the name under which the
    account was first seen or, where another account has had that, with its number, such as
    `ann/7`. JupyterHub allows no slash in a name."""
    number: str
    """JupyterHub's id when it was first seen, made unique: no other account of its name has it."""
    name: str
    """At JupyterHub, when it was last seen."""
    identity: Identity
    named_at: datetime
    """When it was first seen under this name, UTC."""
    claim: Claim = Claim.IDENTITY

    @property
    def former_name(self) -> str:
        """What it is called while another account has its name, such as `ann/3`."""
        return f"{self.name}/{self.number}"
