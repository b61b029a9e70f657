"""The idle policy, and the idleness that follows from it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from .message import Message, Percent, Seconds, ShortText
from .sentences import Sentence


class WorkingHours(Message):
    """Hours of the week in which another idle time counts."""

    days: Annotated[list[Annotated[int, Field(ge=0, le=6)]], Field(max_length=7)]
    """0 is Monday."""
    from_minute: Annotated[int, Field(ge=0, le=1440)]
    """Minutes after midnight where `timezone` is; `to_minute` is the first that is outside."""
    to_minute: Annotated[int, Field(ge=0, le=1440)]
    timezone: ShortText
    """An IANA name, such as `Europe/Berlin`."""
    server_seconds: Seconds
    """Takes the place of the policy's `server_seconds` within these hours."""


class IdlePolicy(Message):
    """What counts as idle and what follows. Durations in seconds; 0 turns a rule off."""

    server_seconds: Seconds = 3600.0
    """Idle for this long: the server is stopped."""
    kernel_seconds: Seconds = 7200.0
    """A kernel idle for this long is shut down."""
    warn_seconds: Seconds = 600.0
    """The user is warned this long before the stop."""
    user_may_extend_seconds: Seconds = 14400.0
    """The furthest a user may push the stop away, counted from the moment of asking."""
    max_age_seconds: Seconds = 0.0
    """Stop at this age whatever runs; 0 (the default) is never."""
    then: Literal["sleep", "stop"] = "stop"
    """Whether the session is saved before the server is stopped for idleness, age or a limit."""
    gpu_busy_percent: Percent = 5.0
    """A GPU used at least this much is work."""
    cpu_busy_percent: Annotated[float, Field(ge=0)] = 20.0
    """Processes of the user that use at least this much CPU (percent of one core) are work."""
    silent_kernel_seconds: Seconds = 86400.0
    """A kernel that is busy for this long while neither it nor the GPUs do anything (it waits for
    input, a lock, a service elsewhere) no longer counts as work; with 0 it always does."""
    working_hours: WorkingHours | None = None
    user_server_min_seconds: Seconds = 0.0
    """The user may choose `server_seconds` from this"""
    user_server_max_seconds: Seconds = 0.0
    """to this; 0 is no choice."""
    user_server_seconds: Seconds | None = None
    """What the user chose: it takes the place of `server_seconds` and of `working_hours`."""


class Idleness(Message):
    """What `core.idle` found, as both agent and extension show it."""

    idle_since: AwareDatetime | None = None
    busy: Sentence | None = None
    """What keeps the server on; None while it is idle."""
    busy_because: ShortText = ""
    """The same in English, for the hub's pages and logs; empty while it is idle."""
    busy_kernel_id: str = ""
    """Which kernel that is, where it is one."""
    busy_path: ShortText = ""
    """Its notebook, where it has one."""
    stop_at: AwareDatetime | None = None
    """When the server will be stopped unless it is used; None while it is in use."""
    warn_at: AwareDatetime | None = None
    cull_kernels: list[str] = []
    """Ids of kernels idle beyond `kernel_seconds`; the extension shuts these down."""
