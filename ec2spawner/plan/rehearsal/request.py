"""The rehearsal that was asked for, from the command line. Pure."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from ...core.profiles.choices import MAX_TEMPORARY
from ..costs import prices
from ..facts import Facts, Source, Wanted
from ..request import WrongRequest
from ..verdicts import State, verdicts
from .prediction import STOP_TIMEOUT

MAX_SERVERS: Final = 200
"""JupyterHub answers so many users at once, and the command waits for each start by itself."""

MIN_TIMEOUT: Final = 30.0

MAX_TIMEOUT: Final = 7200.0

CLOCK_MARGIN: Final = timedelta(minutes=5)
"""By which the clocks of two machines that rehearse at one hub may differ."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How many servers of which profile, and for how long at most."""

    number: int
    profile: str
    """Slug."""
    timeout: float
    """Seconds for the starts: what is not ready by then has failed."""

    @property
    def temporary_seconds(self) -> float:
        """After which the hub ends each server by itself, from when it is ready."""
        return min(self.timeout + STOP_TIMEOUT, MAX_TEMPORARY)

    def until(self, now: datetime) -> datetime:
        """When everything of it is over if it begins now, also if this process is killed: a start
        that is late, its server, and the end of both."""
        seconds = self.timeout + self.temporary_seconds + STOP_TIMEOUT
        return now + timedelta(seconds=seconds) + CLOCK_MARGIN


def rehearsal_of(arguments: argparse.Namespace) -> Rehearsal:
    """Raises `WrongRequest`."""
    number, timeout = arguments.rehearse, arguments.timeout
    if not 1 <= number <= MAX_SERVERS:
        raise WrongRequest(
            f"--rehearse={number} is not within 1 to {MAX_SERVERS}; 0 removes what an earlier "
            "rehearsal has left"
        )
    if not MIN_TIMEOUT <= timeout <= MAX_TIMEOUT:
        raise WrongRequest(
            f"--timeout={timeout:g} is not within {MIN_TIMEOUT:g} to {MAX_TIMEOUT:g} seconds"
        )
    return Rehearsal(number, arguments.profile, timeout)


def why_not(facts: Facts, wanted: Wanted, rehearsal: Rehearsal, now: datetime) -> str:
    """Why the plan says that so many servers cannot start now; empty where it does not."""
    fewer = replace(wanted, users=rehearsal.number)
    found = verdicts(facts, fewer, prices(facts, fewer), now)
    short = [each for each in found if each.state is State.SHORT]
    if not short:
        return ""
    first = short[0]
    return (
        f"the plan says that {rehearsal.number} servers cannot start: {first.name}: {first.said}. "
        "Fix: rehearse fewer, or add --even-if-short to see what happens"
    )


def why_unmeasured(facts: Facts) -> str:
    """Why times and cost could not be read afterwards; empty where they can."""
    reason = facts.unread.get(Source.STORE, "")
    return reason and (
        f"the hub's store cannot be read, and it has the times and the cost: {reason}. Fix: run "
        "this on the hub's machine, as its user"
    )
