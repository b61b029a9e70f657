"""What the hub knows of the agent of a lease. A hub has one for each server: keep it small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ...core.sleep.spot_events import Notices
from ...core.text.sizes import in_words
from ...wire import PROTOCOL, AdminMessage, DiskUse

FLUSH_SILENCE: Final = 30.0
"""Seconds: an agent that flushes a home reports that every five, and may have to repeat a call. One
that reports nothing for so long has crashed, or hangs."""


@dataclass(slots=True)
class Contact:
    """What the hub knows of a lease's agent now. Not stored: heartbeats report it again."""

    heard_at: float | None = None
    """By the hub's uptime (`Clock.uptime`), in seconds: the wall clock can be set."""
    idle_since: datetime | None = None
    busy_because: str = ""
    interruption_at: datetime | None = None
    """When EC2 reclaims the spot instance, as `notices` say."""
    notices: Notices = field(default_factory=Notices)
    """What its agent and EventBridge have reported of that."""
    gpu_percent: float | None = None
    """Use of its GPUs as reported last, 0 to 100 on average; None if none is measured."""
    gpu_measured_at: float | None = None
    """When the use of its GPUs was reported last, by the hub's uptime in seconds; None while it is
    not."""
    gpu_unattended: bool | None = None
    """Whether a program uses a GPU that belongs to no kernel and no terminal; None if unknown."""
    disks: Sequence[DiskUse] = ()
    """How full its disks are, of those that can be written."""
    protocol: int = PROTOCOL - 1
    """Version of the agent's protocol: the oldest supported one until it is reported."""
    message: AdminMessage | None = None
    """What an admin has sent to the user's open pages, last."""
    message_sent_at: float = float("-inf")
    """By the hub's uptime, in seconds."""
    state: int = 1
    """`HeartbeatResponse.state`: grows with each change that the agent is notified of."""
    heartbeats: int = 0
    """Number of heartbeats: a newer one releases an older one that is still held."""
    hung_up_at: float = float("-inf")
    """Instant at which its agent closed a heartbeat's connection and sent no other one, by the
    hub's uptime."""
    last_heartbeat: int = 0
    """The number of that heartbeat: it is the last one unless the agent lives."""
    woke_at: float = float("-inf")
    """When a heartbeat last began a pass, on the loop's clock in seconds."""
    chose_at: float = float("-inf")
    """When its user last chose another idle limit, on the loop's clock in seconds."""
    agent_stopped: bool = False
    """Of an ending lease: its notebook has ended, or nothing is left to end."""
    home_released: bool = False
    """Of an ending lease: no instance has its home mounted any more."""
    dirty_bytes: int | None = None
    """What its instance has yet to write before the home is unmounted; None unless that is under
    way."""
    flushing_at: float = float("-inf")
    """When that was last reported, on the loop's clock in seconds."""
    workers_worked_at: datetime | None = None
    """Of a server with a cluster: when one of its workers was last seen working, UTC."""
    reckoned: tuple[tuple[object, ...], datetime | None] | None = None
    """When its server will end, and from which inputs that was computed: each pass reads it."""

    def is_flushing(self, now: float) -> bool:
        """Whether the agent of an ending lease has reported lately that it flushes the home. `now`
        is by the loop's clock."""
        is_recent = now - self.flushing_at < FLUSH_SILENCE
        return self.dirty_bytes is not None and is_recent and not self.agent_stopped

    def flush_progress(self, now: float) -> str:
        """How far that has come, for people; empty unless it is under way."""
        if self.dirty_bytes is None or not self.is_flushing(now):
            return ""
        return f"writing files to disk, {in_words(self.dirty_bytes)} left"
