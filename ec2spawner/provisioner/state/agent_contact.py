"""What the hub knows of the agent of a lease. A hub has one for each server: keep it small."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from ...core.sleep.spot_events import Notices
from ...wire import PROTOCOL, AdminMessage


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
    woke_at: float = float("-inf")
    """When a heartbeat last began a pass, on the loop's clock in seconds."""
    chose_at: float = float("-inf")
    """When its user last chose another idle limit, on the loop's clock in seconds."""
    agent_stopped: bool = False
    """Of an ending lease: notebook and home are closed, or nothing is left to close."""
    workers_worked_at: datetime | None = None
    """Of a server with a cluster: when one of its workers was last seen working, UTC."""
    reckoned: tuple[tuple[object, ...], datetime | None] | None = None
    """When its server will end, and from which inputs that was computed: each pass reads it."""
