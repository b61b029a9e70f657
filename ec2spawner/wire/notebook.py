"""Notebook extension <-> agent, JSON lines over a local socket; and what the browser sees."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from .cluster import ClusterAnswer, ClusterRequest
from .hardware import HardwareChoices, Move
from .idle import Idleness, IdlePolicy
from .lease import AdminMessage, Cost, Stop
from .message import Message, Seconds, ShortText
from .runs import RunReport, RunsAnswer, RunsRequest, RunWork
from .sentences import Sentence
from .sleep import SleepOrder, SleepProgress, Wake
from .telemetry import MAX_DISKS, DiskUse, Telemetry

ScheduledEventCode = Literal[
    "instance-reboot", "instance-retirement", "instance-stop", "system-maintenance", "system-reboot"
]
"""EC2's codes."""


class ScheduledEvent(Message):
    """An event of an instance that AWS has announced, days in advance."""

    code: ScheduledEventCode
    not_before: AwareDatetime
    """The earliest time of the event."""


class KernelState(Message):
    """One kernel as Jupyter Server knows it."""

    id: str
    name: ShortText = ""
    """The notebook's path where known, else the kernel's name."""
    path: ShortText = ""
    """The notebook's path; empty for a console and where it is not known."""
    pid: int | None = None
    execution_state: Literal["idle", "busy", "starting", "unknown"] = "unknown"
    last_activity: AwareDatetime
    """The last execution or its result; connecting a tab does not count."""


class TerminalState(Message):
    """One of Jupyter's terminals and its foreground job."""

    name: str
    pid: int | None = None
    foreground: ShortText = ""
    """Name of the foreground job; empty while the shell waits at its prompt."""


class KeepChoice(Message):
    """An instant until which the user may ask to keep the server, by `core.idle.extension`."""

    until: AwareDatetime
    changes: bool
    """False where the server would not stop later than it does now."""


class Observation(Message):
    """Notebook extension -> agent: what only the notebook server can see."""

    type: Literal["observation"] = "observation"
    at: AwareDatetime
    kernels: list[KernelState] = []
    last_input: AwareDatetime | None = None
    """The last key or pointer event of a person; an open tab is none."""
    waking: bool = False
    """While a session is being woken: what its kernels do is not the user's work."""


class NotebookRequest(Message):
    """Notebook extension -> agent: the user pressed a button."""

    type: Literal[
        "extend", "stop", "sleep", "idle", "hardware", "continue", "cluster", "runs", "run"
    ]
    """`extend`: keep for `seconds` from now. `sleep`: save the session, then stop. `idle`: stop
    after `seconds` without work. `run`: of the process that executes a run, on its instance."""
    id: int
    seconds: Annotated[float, Field(gt=0)] | None = None
    profile: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """Of `continue`: the slug to continue on; None asks only how far a move is."""
    cluster: ClusterRequest | None = None
    """Of `cluster`."""
    runs: RunsRequest | None = None
    """Of `runs`."""
    run: RunReport | None = None
    """Of `run`."""


class DocumentsSaved(Message):
    """Notebook extension -> agent, after a stop: no open page has anything left to save."""

    type: Literal["saved"] = "saved"
    unsaved: ShortText = ""
    """What could not be saved, and why, as a sentence; empty where all was."""


class NotebookReply(Message):
    """Agent -> notebook extension: the answer to the request of the same id."""

    type: Literal["reply"] = "reply"
    id: int
    ok: bool
    sentence: Sentence | None = None
    """Why not, or what was granted instead; None where it was done as asked."""
    hardware: HardwareChoices | None = None
    """Of `hardware`."""
    move: Move | None = None
    """Of `continue`."""
    cluster: ClusterAnswer | None = None
    """Of `cluster`."""
    runs: RunsAnswer | None = None
    """Of `runs`."""
    work: RunWork | None = None
    """Of `run`."""
    retry_after_seconds: Seconds = 0
    """How long to wait where the hub got too many requests, of which this one has changed nothing;
    0 in all other cases."""


class ServerState(Message):
    """What agent, extension and browser know about a server."""

    profile: ShortText = ""
    instance_type: ShortText = ""
    cost: Cost | None = None
    idle_policy: IdlePolicy | None = None
    idleness: Idleness | None = None
    extended_until: AwareDatetime | None = None
    extended_by: ShortText = ""
    """Name of the admin or service that keeps the server on until then; empty for its user."""
    keep: list[KeepChoice] = []
    """What the user may ask for now, the nearest first; empty where the server is not kept on."""
    telemetry: Telemetry | None = None
    stop: Stop | None = None
    hub_reachable: bool = True
    full_disks: list[Sentence] = []
    """Which disks are full, and what to do."""
    disks: Annotated[list[DiskUse], Field(max_length=MAX_DISKS)] = []
    """How full each is; without a home on a file system that has no size."""
    interruption_at: AwareDatetime | None = None
    """When AWS reclaims this spot instance; None where it has not announced that."""
    rebalance_at: AwareDatetime | None = None
    """When AWS began to recommend leaving this spot instance; None where it does not."""
    scheduled_event: ScheduledEvent | None = None
    """The next event of this instance; None where AWS has announced nothing."""
    continues: bool = False
    """Whether the server continues on another instance when AWS reclaims this one."""
    files_kept: bool = True
    """False where the home ends with the instance."""
    message: AdminMessage | None = None
    """What an admin wants the user to read now."""
    undelivered_runs: int = 0
    """Runs that have ended and whose result belongs into this home."""


class AgentState(ServerState):
    """Agent -> notebook extension: everything the status endpoint answers from memory."""

    type: Literal["state"] = "state"
    at: AwareDatetime
    idle_policy: IdlePolicy
    idleness: Idleness
    sleep: SleepOrder | None = None
    """Set: save the session's variables."""


class Notice(Message):
    """Something that a person should know now, for as long as it holds."""

    id: str
    """The same notice has the same id, also after a reload of the page: it is shown once."""
    kind: Literal[
        "idle",
        "stopping",
        "interruption",
        "message",
        "budget",
        "gpu",
        "disk-full",
        "smaller-profile",
        "rebalance",
        "scheduled-event",
        "session",
        "price",
        "credit",
    ]
    level: Literal["success", "info", "warning", "error"]
    title: Sentence
    details: list[Sentence] = []
    """No number in them changes by itself: a screen reader would read it aloud each time."""
    stop: Stop | None = None
    """Why the server is being stopped, where that is not said by `since`."""
    until: AwareDatetime | None = None
    """What it warns of happens then: the browser counts down to it."""
    since: AwareDatetime | None = None
    """Since when the server has been idle, where that is why."""
    actions: list[Literal["keep", "sleep", "stop", "cell", "panel", "continue"]] = []
    """The main one first. `cell` leads to the first cell that `wake` says was interrupted."""


class NoticesEvent(Message):
    """On Jupyter Server's event websocket, whenever one comes or goes: all that hold now."""

    now: AwareDatetime
    notices: list[Notice] = []


class NotebookStatus(ServerState):
    """`GET {base}/ec2spawner/api/status`: what the browser sees.

    Without an agent (plain JupyterHub, plain JupyterLab) GPU and idleness are measured by the
    extension itself and cost is unknown.
    """

    now: AwareDatetime
    """The server's clock: the browser counts down against this, not against its own."""
    managed: bool
    """True if an agent runs for this server, so that cost, extend and stop exist."""
    can_control: bool = True
    """Whether the requesting user may extend and stop: only the owner, not users with whom the
    server is shared."""
    agent_connected: bool
    can_sleep: bool = False
    """Whether the session can be saved on request."""
    notices: list[Notice] = []
    end_url: str = ""
    """The path at which the hub answers a `ServerEnd` when this server no longer does; it needs no
    login. Empty where no hub of ours started this server."""
    saving: SleepProgress | None = None
    """While the session's variables are saved before a stop; None otherwise."""
    wake: Wake | None = None
    """What came back of the session that slept; None where none did."""
