"""An alarm, its kinds, and the thresholds of the rules that raise it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from .weekly import Schedule


class Kind(StrEnum):
    """What an alarm is about, as an admin writes it in `alarms`."""

    LIMIT = "limit"
    """A limit on spending or use is used up, or nearly."""
    DENIED_START = "denied-start"
    """A limit refused a start."""
    IDLE_GPU = "idle-gpu"
    """A server with a GPU has been idle for long, and runs."""
    UNATTENDED_GPU = "unattended-gpu"
    """A GPU works for a program that belongs to no kernel or terminal: mining, perhaps."""
    INTERRUPTIONS = "interruptions"
    """EC2 reclaimed many spot instances within a short time."""
    LEAK = "leak"
    """A disk or network interface outlived its instance, or an instance runs that nobody ends."""
    PRICE = "price"
    """The spot price of a running instance has risen."""
    QUOTA = "quota"
    """A vCPU quota of the account is used up, or nearly."""
    DISCOUNT = "discount"
    """A discount expires soon."""
    POOL_UNUSED = "pool-unused"
    """Instances of the warm pool wait, and no server takes them."""
    FULL_DISK = "full-disk"
    """A disk of a running server is nearly full."""
    RUN_ENDED = "run-ended"
    """A run has ended whose user asked for that."""
    SUMMARY = "summary"
    """The weekly summary."""


class Severity(StrEnum):
    """How urgent an alarm is: the words are Apprise's."""

    INFO = "info"
    WARNING = "warning"
    FAILURE = "failure"


SEVERITIES: Final[Mapping[Kind, Severity]] = MappingProxyType(
    dict.fromkeys(Kind, Severity.WARNING)
    | {
        Kind.DENIED_START: Severity.INFO,
        Kind.RUN_ENDED: Severity.INFO,
        Kind.SUMMARY: Severity.INFO,
        Kind.UNATTENDED_GPU: Severity.FAILURE,
    }
)


@dataclass(frozen=True, slots=True)
class Alarm:
    """One message to the admins. The same `alarm_id` is sent once to each destination."""

    kind: Kind
    subject: str
    """What it is about, such as a lease's id: with `period`, its identity."""
    period: str
    """Within which it is not repeated, such as a day or a month; empty is for good."""
    title: str
    body: str
    at: datetime
    """UTC."""
    user: str = ""
    """Who can cause it, such as by many starts or runs; empty for nobody in particular."""

    @property
    def alarm_id(self) -> str:
        """Kind, subject and period."""
        return f"{self.kind}/{self.subject}/{self.period}"

    @property
    def severity(self) -> Severity:
        """That of its kind."""
        return SEVERITIES[self.kind]


@dataclass(frozen=True, slots=True)
class AlarmRules:
    """Which kinds are raised, and from which value on. Durations in seconds."""

    kinds: frozenset[Kind] = frozenset(Kind)
    limit_used: float = 90.0
    """Percent of a limit."""
    idle_gpu: float = 6 * 3600.0
    """A GPU server idle for so long raises an alarm."""
    unattended_gpu: float = 1800.0
    """So does a program without a kernel or terminal that uses a GPU for so long."""
    interruptions: int = 5
    """So many interruptions"""
    interruptions_within: float = 3600.0
    """within this time are a storm."""
    price_rise: float = 50.0
    """Percent above the median of the last seven days."""
    quota_used: float = 90.0
    """Percent of a vCPU quota."""
    discount_expires: float = 14 * 86400.0
    """A discount that expires within this time."""
    pool_unused: float = 86400.0
    """Instances of the warm pool that wait for so long."""
    disk_used: float = 90.0
    """Percent of a disk's space or of its inodes."""
    summary: Schedule | None = None
    """When the weekly summary is sent; None sends none."""
    per_hour: int = 10
    """Alarms of one kind in an hour of UTC that are sent one by one; the rest becomes one. Of one
    user's, half as many."""
