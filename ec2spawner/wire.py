"""The messages between instance and hub, and between notebook and agent.

Both sides import these models, so a field has one name and one unit everywhere. An AMI is
older than its hub: the hub speaks `PROTOCOL` and `PROTOCOL - 1`. Models ignore fields they do
not know, so that an addition is no break; a change of meaning is a new protocol number.

Instants are timezone-aware UTC; durations are seconds; prices are USD/hour; memory is MiB;
shares of a whole are percent, 0-100.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field

PROTOCOL = 2
"""The protocol this code speaks. 2 added certificates to the grant."""

MAX_BODY_BYTES = 64 * 1024
"""A body larger than this is refused unread: an identity document with its signature is ~4 KiB."""


def _printable(text: str) -> str:
    """Lines of plain text: no escape sequence reaches a terminal, no NUL a database."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


ShortText = Annotated[str, Field(max_length=500), AfterValidator(_printable)]
Seconds = Annotated[float, Field(ge=0)]
ProtocolNumber = Annotated[int, Field(ge=0, le=9999)]
Percent = Annotated[float, Field(ge=0, le=100)]


class Message(BaseModel):
    """Base of all messages: frozen, and deaf to fields of a newer protocol."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Market(StrEnum):
    SPOT = "spot"
    ON_DEMAND = "on-demand"


Then = Literal["terminate", "linger", "stop"]
"""What becomes of an instance when its server has stopped: it ends; it waits for its user's
restart; its disk is kept while it is stopped."""


# --- agent -> hub: the claim -----------------------------------------------------------------


class Spoken(Message):
    """What every claim has, whatever its protocol: enough to answer in words."""

    protocol: ProtocolNumber = PROTOCOL


class Claim(Message):
    """`POST claims`: an instance proves who it is and asks for a lease.

    The claim is answered late on purpose (`wait_seconds`): one waiter per instance.
    """

    protocol: ProtocolNumber
    document: Annotated[str, Field(max_length=8192)]
    """The instance identity document, the exact JSON text that was signed."""
    signature: Annotated[str, Field(max_length=8192)]
    """Its PKCS7 signature from `/rsa2048`, base64 without PEM armour."""
    key: Annotated[str, Field(min_length=43, max_length=128, repr=False)]
    """The agent's key: 32 random bytes, base64url, made at boot, never written to disk."""
    agent_version: ShortText = ""
    boot_seconds: Seconds | None = None
    """Seconds from kernel start to this agent's start, where known."""
    wait_seconds: Annotated[float, Field(ge=0, le=55)] = 25.0


class HomeMount(Message):
    """What the agent shall mount as the user's home."""

    kind: Literal["ebs", "efs", "none"]
    volume_id: str | None = None
    """`vol-...`: found on the instance by the volume's serial, not by a device name."""
    file_system: str = ""
    """`fs-...`: the EFS file system of a home of kind `efs`."""
    access_point: str = ""
    """`fsap-...`: EFS enforces its user and folder; empty for none."""
    directory: str = ""
    """Where in the file system, or below the access point's folder, the home is. The agent makes
    it; no part of it is `..`."""
    tls: bool = True
    """Mount over TLS, or not at all."""
    iam: bool = False
    """Mount as the role of the instance profile."""


class DataMount(Message):
    """A volume that was made from a snapshot with the instance, mounted read-only for everyone."""

    volume_id: str
    """`vol-...`: found by its serial."""
    path: str
    """Absolute, as the user finds it."""


class BucketMount(Message):
    """An S3 bucket, mounted by Mountpoint for Amazon S3 with the role of the instance profile."""

    bucket: str
    prefix: str = ""
    """Only keys that begin so; ends in `/`, or is empty."""
    path: str
    """Absolute, as the user finds it."""
    read_only: bool = True


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
    gpu_busy_percent: Percent = 5.0
    """A GPU used at least this much is work."""
    cpu_busy_percent: Annotated[float, Field(ge=0)] = 20.0
    """Processes of the user that use at least this much CPU (percent of one core) are work."""


class Certificates(Message):
    """For a hub with `internal_ssl`: what the notebook proves itself with, and whom it believes.

    PEM texts. The notebook's clients are the hub and its proxy; nobody else's certificate counts.
    """

    key: Annotated[str, Field(repr=False)]
    certificate: str
    """For the instance's private address and for nothing else."""
    ca: str
    """The authorities of the hub and of its proxy."""


class LeaseGrant(Message):
    """The answer 200 to a claim. The same key always gets the same answer."""

    protocol: int = PROTOCOL
    lease_id: str
    lease_token: Annotated[str, Field(repr=False)]
    """Bearer token for `leases/{id}/...`; derived from the agent's key, see `core.names`."""
    environment: Annotated[dict[str, str], Field(repr=False)]
    command: list[str]
    """Program and arguments of the notebook server."""
    base_url: str
    """`JUPYTERHUB_SERVICE_PREFIX`; readiness is asked at `{base_url}api`."""
    port: int
    home: HomeMount
    data: list[DataMount] = []
    buckets: list[BucketMount] = []
    scratch: str = ""
    """Where the instance store is mounted for the user; empty leaves it alone."""
    idle: IdlePolicy
    profile: ShortText = ""
    hub_lost_after_seconds: Seconds = 900.0
    """Without an answer from the hub for this long, an idle instance powers itself off."""
    certificates: Certificates | None = None
    """The notebook shall speak TLS with these; since protocol 2."""


class ClaimWait(Message):
    """The answer 202: nothing yet, ask again at once."""

    protocol: int = PROTOCOL
    retry_after_seconds: Seconds = 0.0


class Refusal(Message):
    """The body of 403, 404, 409 and 410: one sentence for the agent's log."""

    message: str


# --- agent -> hub: life of a lease -----------------------------------------------------------


class Step(StrEnum):
    """The steps of a start, in order. `progress()` shows them with their usual times."""

    REQUEST = "request"
    """Looking for an instance: from the request to EC2's answer."""
    BOOT = "boot"
    """From EC2's answer to the agent's claim."""
    HOME = "home"
    """Attaching and mounting the home."""
    NOTEBOOK = "notebook"
    """Starting the notebook server until it listens."""
    READY = "ready"


class AgentEvent(Message):
    """`POST leases/{id}/events`."""

    step: Literal["home", "notebook", "ready", "failed", "stopped"]
    """`home`/`notebook`: that step has begun; `stopped`: notebook ended and home unmounted."""
    at: AwareDatetime
    message: ShortText = ""
    """For people; for `failed` the cause with the last lines of the log, for `notebook` what could
    not be mounted."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """With `ready`: where the notebook listens on the instance's private address."""


class GpuSample(Message):
    """One GPU, now."""

    index: int
    name: ShortText
    use_percent: Percent | None = None
    memory_used_mib: Annotated[float, Field(ge=0)] | None = None
    memory_total_mib: Annotated[float, Field(ge=0)] | None = None
    temperature_c: float | None = None
    power_w: Annotated[float, Field(ge=0)] | None = None


class Telemetry(Message):
    """What the machine does, now."""

    at: AwareDatetime
    gpu_source: Literal["nvml", "simulated", "none"] = "none"
    gpus: list[GpuSample] = []
    cpu_percent: Percent | None = None
    """Of all cores together."""
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None


class Beat(Message):
    """`POST leases/{id}/beat`: the state of an instance, at least once a minute.

    The hub may answer late (`hold_seconds`): the answer is how the hub reaches the instance
    at once when a stop is due. An agent with news drops the held beat and sends another.
    """

    protocol: ProtocolNumber
    sent_at: AwareDatetime | None = None
    """The agent's clock when it sent this: `sent_at - idle_since` is how long nothing has worked
    by one clock, whatever the hub's says."""
    idle_since: AwareDatetime | None = None
    """Since when nothing works; None while something does."""
    busy_because: ShortText = ""
    """For people: what keeps the server on, or empty."""
    telemetry: Telemetry | None = None
    hold_seconds: Annotated[float, Field(ge=0, le=55)] = 0.0
    state_seen: int = 0
    """The last `BeatAnswer.state`; the hub answers at once when it has a newer one."""


class Cost(Message):
    """Money of one lease. Unknown is None, never 0."""

    usd: Annotated[float, Field(ge=0)] | None = None
    """Cost so far, at `as_of`."""
    usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Price now. The reader adds it for the time since `as_of`."""
    as_of: AwareDatetime
    """Up to when `usd` counts: in the first minute the end of that minute, which is paid whole."""
    since: AwareDatetime
    """When billing began."""
    estimate: bool = True
    """True unless the figure comes from a bill."""
    market: Market | None = None
    on_demand_usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    price_source: ShortText = ""


class Stop(Message):
    """Why a server is stopped: the words the user reads at the next login."""

    reason: Literal[
        "user",
        "idle",
        "admin",
        "budget",
        "interruption",
        "max-age",
        "hub",
        "capacity",
        "quota",
        "failed",
        "lost",
    ]
    """`capacity`: EC2 had no machine of the kind. `quota`: the account may not have one more."""
    message: ShortText = ""
    then: Then = "terminate"
    """Unless `terminate`: after `stopped` the agent claims again with its key, and the hub decides
    what becomes of the instance."""


class BeatAnswer(Message):
    protocol: int = PROTOCOL
    state: int
    """Grows with every change worth telling the agent."""
    cost: Cost
    idle: IdlePolicy
    extended_until: AwareDatetime | None = None
    """The user asked to keep the server until then."""
    stop: Stop | None = None
    """Set: save, stop the notebook, unmount, report `stopped`."""


class ExtendRequest(Message):
    """`POST leases/{id}/extend` on the owner's behalf."""

    seconds: Annotated[float, Field(gt=0, le=30 * 86400)]


class ExtendAnswer(Message):
    extended_until: AwareDatetime
    bounded: bool = False
    """True where the policy allowed less than was asked for."""


class StopRequest(Message):
    """`POST leases/{id}/stop` on the owner's behalf."""

    reason: Literal["user"] = "user"


# --- notebook extension <-> agent: JSON lines over a local socket ----------------------------


class KernelState(Message):
    id: str
    name: ShortText = ""
    """The notebook's path where known, else the kernel's name."""
    pid: int | None = None
    execution_state: Literal["idle", "busy", "starting", "unknown"] = "unknown"
    last_activity: AwareDatetime
    """The last execution or its result; connecting a tab does not count."""


class TerminalState(Message):
    name: str
    pid: int | None = None
    foreground: ShortText = ""
    """Command of the foreground job; empty while the shell waits at its prompt."""


class Observation(Message):
    """Notebook extension -> agent: what only the notebook server can see."""

    type: Literal["observation"] = "observation"
    at: AwareDatetime
    kernels: list[KernelState] = []
    last_input: AwareDatetime | None = None
    """The last key or pointer event of a person; an open tab is none."""


class NotebookRequest(Message):
    """Notebook extension -> agent: the user pressed a button."""

    type: Literal["extend", "stop"]
    id: int
    seconds: Annotated[float, Field(gt=0)] | None = None


class NotebookReply(Message):
    """Agent -> notebook extension: the answer to the request of the same id."""

    type: Literal["reply"] = "reply"
    id: int
    ok: bool
    message: ShortText = ""


class Idleness(Message):
    """What `core.idle` found, as both agent and extension show it."""

    idle_since: AwareDatetime | None = None
    busy_because: ShortText = ""
    stop_at: AwareDatetime | None = None
    """When the server will be stopped if nothing happens; None while something works."""
    warn_at: AwareDatetime | None = None
    sentence: ShortText = ""
    """The same for people, without numbers that tick."""
    cull_kernels: list[str] = []
    """Ids of kernels idle beyond `kernel_seconds`; the extension shuts these down."""


class AgentState(Message):
    """Agent -> notebook extension: everything the status endpoint answers from memory."""

    type: Literal["state"] = "state"
    at: AwareDatetime
    profile: ShortText = ""
    instance_type: ShortText = ""
    cost: Cost | None = None
    idle_policy: IdlePolicy
    idleness: Idleness
    extended_until: AwareDatetime | None = None
    telemetry: Telemetry | None = None
    stop: Stop | None = None
    hub_reachable: bool = True
    disk_full: ShortText = ""
    """For people: which disk is full, and what to do; empty while none is."""


class NotebookStatus(Message):
    """`GET {base}/ec2spawner/api/status`: what the browser sees.

    `state` is None where no agent is (plain JupyterHub, plain JupyterLab): GPU and idleness
    are then measured by the extension itself and cost is unknown.
    """

    now: AwareDatetime
    """The server's clock: the browser counts down against this, not against its own."""
    managed: bool
    """True where an agent stands behind this server, so that cost, extend and stop exist."""
    can_control: bool = True
    """Whether the person who asks may extend and stop: the owner, and nobody with whom the server
    is shared."""
    agent_connected: bool
    cost: Cost | None = None
    profile: ShortText = ""
    instance_type: ShortText = ""
    idle_policy: IdlePolicy | None = None
    idleness: Idleness | None = None
    extended_until: AwareDatetime | None = None
    telemetry: Telemetry | None = None
    stop: Stop | None = None
    hub_reachable: bool = True
    disk_full: ShortText = ""
    """For people: which disk is full, and what to do; empty while none is."""
