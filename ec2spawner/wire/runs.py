"""Runs: notebooks and scripts that are executed to completion on an instance of their own."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, Field, JsonValue

from .message import Market, Message, ShortText

MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
"""Of a notebook, a script or a log as it is sent: compressed with zlib, then in base64."""

MAX_PLAIN_BYTES = 64 * 1024 * 1024
"""Of the same once it is unpacked."""

MAX_RUN_BODY_BYTES = MAX_DOCUMENT_BYTES + 1024 * 1024
"""Of a call that carries one; the rest is for parameters."""

MAX_PARAMETER_BYTES = 2048
"""Of one run, as JSON: they are kept in memory."""

MAX_VALUES = 50_000
"""Values in the body of one submission: to parse so many takes 30 ms."""

MAX_ARRAY = 1000
"""Runs of one array."""

MAX_SHOWN_RUNS = MAX_ARRAY
"""Of one answer, the newest."""

DELETED_SERVER = "/deleted/"
"""Begins `RunSummary.server` of a server that was deleted with its files."""

RunKind = Literal["notebook", "script"]

RunState = Literal["queued", "starting", "running", "ended"]

RunOutcome = Literal["succeeded", "failed", "cancelled", "cost-cap", "deadline", "limit"]
"""`failed`: the notebook raised an error, or no instance stayed for long enough. `cost-cap` and
`deadline`: those of the run; `limit`: one of its user or payer."""

RequestId = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_-]*$")]

Document = Annotated[str, Field(max_length=MAX_DOCUMENT_BYTES, pattern=r"^[A-Za-z0-9+/=]*$")]
"""Base64 of what zlib has compressed; empty for none."""


def _below_home(path: str) -> str:
    """Raises `ValueError` unless it names a notebook or script below the home."""
    parts = path.split("/")
    if not path.isprintable() or any(part in {"", ".", ".."} for part in parts):
        raise ValueError("must be a path relative to the home, such as projects/train.ipynb")
    if not path.endswith((".ipynb", ".py")):
        raise ValueError("must end in .ipynb or .py")
    return path


RunPath = Annotated[str, Field(min_length=4, max_length=250), AfterValidator(_below_home)]


def _sound(parameters: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Raises `ValueError` for what is large, and for NaN and infinity, which are no JSON."""
    try:
        size = len(json.dumps(parameters, allow_nan=False))
    except ValueError as error:
        raise ValueError("NaN and infinity are no values: send text, such as 'inf'") from error
    if size > MAX_PARAMETER_BYTES:
        raise ValueError(f"a set may have {MAX_PARAMETER_BYTES} bytes as JSON: send a path instead")
    return parameters


Parameters = Annotated[dict[str, JsonValue], Field(max_length=100), AfterValidator(_sound)]
"""By name: for a notebook the variables of the cell tagged `parameters`, for a script the arguments
`--name value`."""


def has_too_many_values(body: bytes) -> bool:
    """Whether a body of JSON may have more than `MAX_VALUES`; known before it is parsed."""
    return sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES


class RunSubmission(Message):
    """What a user wants to have run: once, or once for each of several sets of parameters."""

    request_id: RequestId = ""
    """Chosen by the sender: the same again, because no answer came, makes no second run."""
    path: RunPath
    """Relative to the home of the server that it is sent from."""
    document: Document
    profile: Annotated[str, Field(min_length=1, max_length=100)]
    """Slug."""
    payer: Annotated[str, Field(max_length=300)] = ""
    """Such as `group:research` or `user:ann`; empty is the user's default. From a server it is that
    of the server, and no other may be named."""
    parameters: Annotated[list[Parameters], Field(min_length=1, max_length=MAX_ARRAY)] = [{}]
    """One run for each; several are an array."""
    at_once: Annotated[int, Field(ge=1, le=MAX_ARRAY)] | None = None
    """So many runs of the array at most have an instance at the same time."""
    retries: Annotated[int, Field(ge=0, le=100)] = 5
    """How often a run begins again on another instance after its own was lost."""
    max_usd: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    """What each run may cost in USD, all its instances together."""
    deadline: AwareDatetime | None = None
    """When a run ends, done or not."""
    max_spot_usd_per_hour: Annotated[float, Field(gt=0, le=10_000)] | None = None
    """Wait until a spot instance costs so much or less."""
    wait_until: AwareDatetime | None = None
    """Until then only a spot instance will do; later whatever the profile allows."""
    notify: bool = False
    """Notify the hub's alarm destinations when it ends; of an array once, when all have ended."""


class RunSummary(Message):
    """One run, as its owner sees it."""

    number: int
    array: int = 0
    """Number of the first run of its array; 0 for a run of its own."""
    server: ShortText = ""
    """Name of the server that sent it, empty for the default server; `/deleted/lab` for one that
    was deleted with its files."""
    path: ShortText
    parameters: dict[str, JsonValue] = {}
    profile: ShortText
    profile_name: ShortText
    payer: ShortText = ""
    state: RunState
    outcome: RunOutcome | None = None
    message: ShortText = ""
    """Why it waits, what it does, or how it ended, in words."""
    submitted_at: AwareDatetime
    started_at: AwareDatetime | None = None
    """When it had its first instance."""
    ended_at: AwareDatetime | None = None
    deadline: AwareDatetime | None = None
    cells_done: int = 0
    cells_total: int = 0
    """Code cells; 0 for a script, and before it has begun."""
    attempts: int = 0
    """Instances that it has had."""
    retries: int = 0
    instance_type: ShortText = ""
    """Of its present or last instance, as are zone and market; empty before the first."""
    zone: ShortText = ""
    market: Market | None = None
    usd: Annotated[float, Field(ge=0)] | None = None
    """Cost so far, an estimate at list prices; None is unknown."""
    usd_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Of its present instance."""
    max_usd: float | None = None
    has_result: bool = False
    """Whether there is an executed notebook, or a log, so far."""
    delivered: bool = False
    """Whether the result is in the home."""


class RunsRequest(Message):
    """`POST leases/{id}/runs` on the owner's behalf."""

    action: Literal["list", "submit", "cancel", "result", "undelivered", "delivered"] = "list"
    """`result`: the executed notebook or the log so far. `undelivered`: those that have ended and
    whose result belongs into the home of this server."""
    submission: RunSubmission | None = None
    """Of `submit`."""
    number: Annotated[int, Field(ge=1)] | None = None
    """Of a run: of `cancel`, `result` and `delivered`; of `list` to have its array only."""
    request_id: RequestId = ""
    """Of `list` and `cancel`, in the place of a number: of the submission that made the runs."""
    array: bool = False
    """Of `cancel`: all of the array of this run."""


class RunsAnswer(Message):
    """Hub -> agent, to a `RunsRequest`."""

    runs: Annotated[list[RunSummary], Field(max_length=MAX_SHOWN_RUNS)] = []
    """Of `list` and `undelivered` the server's, the newest first; of the others those concerned."""
    result: Document = ""


class RunReport(Message):
    """`POST leases/{id}/run`: what the instance of a run says of it."""

    action: Literal["begin", "progress", "end"]
    cells_done: Annotated[int, Field(ge=0, le=100_000)] = 0
    cells_total: Annotated[int, Field(ge=0, le=100_000)] = 0
    message: ShortText = ""
    """What it does, or how it ended, in words."""
    result: Document = ""
    """The executed notebook, or the end of the script's log; empty leaves what was sent before."""
    succeeded: bool = False
    """Of `end`."""


class RunWork(Message):
    """Hub -> the instance of a run, to a `RunReport`; with its document to `begin`."""

    number: int
    attempt: int
    """1 for its first instance."""
    kind: RunKind
    path: ShortText
    document: Document = ""
    parameters: dict[str, JsonValue] = {}
