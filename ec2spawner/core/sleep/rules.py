"""What admin and user decide about the session of a server, as its lease carries it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AfterInterruption = Literal["resume", "resume-on-demand", "stop"]
"""What follows when EC2 reclaims a spot instance: another instance, spot when available; another
one on demand; or nothing."""

Wakes = Literal["sleeping", "last", "no"]
"""What a start brings back: what sleeps; also what was woken before, for a server that continues
after an interruption; or nothing, which leaves what sleeps as it is."""


@dataclass(frozen=True, slots=True)
class SleepRules:
    """How the session of a server is saved and kept. The defaults are those of leases from before
    sessions were saved, which have none."""

    save_seconds: float = 0.0
    """How long the variables of all kernels may take, at most; 0 saves no session."""
    max_bytes: int = 0
    """Size of all that is saved of a server, at most."""
    keep_seconds: float = 0.0
    """A sleeping session expires this long after it was saved."""
    after_interruption: AfterInterruption = "stop"
    upload_to: str = ""
    """`s3://bucket/prefix/`: below it, each server has a place for a folder that its user wants
    uploaded after a spot notice; empty uploads nothing."""
    wake: Wakes = "sleeping"
    """What its start was to wake."""
