"""A session that sleeps: what was saved of each kernel, and what came back of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from .message import Message, Seconds, ShortText

Trigger = Literal["interruption", "idle", "limit", "user", "hardware"]
"""Why a session is put to sleep: AWS reclaims the instance; nobody uses the server; it has reached
its maximum age or a limit of its cost; its user asked for it; its user continues on other
hardware."""

MAX_COUNT = 2**31
MAX_SIZE = 2**60

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
Bytes = Annotated[int, Field(ge=0, le=MAX_SIZE)]

WAKE = "EC2SPAWNER_WAKE"
"""In the environment of a notebook server: what its start wakes. `sleeping`, what sleeps; `last`,
also what was woken before; `no`, nothing."""

MAX_BYTES = "EC2SPAWNER_SLEEP_MAX_BYTES"
"""There too: the most that a session may take on disk. With 0 none is saved."""

KEEP_SECONDS = "EC2SPAWNER_SLEEP_KEEP_SECONDS"
"""There too: a session that was saved longer ago has expired."""

MAX_KERNELS = 20
"""More kernels than these are counted, not listed."""

MAX_LARGEST = 5
MAX_LOST = 10


class SavedVariable(Message):
    """One variable that was saved."""

    name: ShortText
    type: ShortText = ""
    size_bytes: Bytes
    gpu: bool = False
    """Whether it was in GPU memory."""


class LostVariable(Message):
    """One variable that was not saved, or did not come back."""

    name: ShortText
    type: ShortText = ""
    code: ShortText
    """Why, as `ec2spawner.sleep` codes it; a later version may know more."""
    detail: ShortText = ""
    """The error's own words, where there was one."""
    kept_of: AwareDatetime | None = None
    """When the value was saved that an earlier sleep has of it, and that `%wake name` restores."""


class SavedKernel(Message):
    """What was saved of one kernel."""

    path: ShortText
    """The notebook's, from the server's root; empty for a console."""
    kernel_name: ShortText
    """Of its kernel spec."""
    variables: Count
    proved: Count = 0
    """Of these, those that were loaded after they were saved and compared with what was saved."""
    size_bytes: Bytes
    gpu_bytes: Bytes = 0
    """Of those that were in GPU memory, all together."""
    largest: Annotated[list[SavedVariable], Field(max_length=MAX_LARGEST)] = []
    lost: Annotated[list[LostVariable], Field(max_length=MAX_LOST)] = []
    lost_count: Count = 0
    changed: Annotated[list[LostVariable], Field(max_length=MAX_LOST)] = []
    """Those of which it is known that they will come back changed."""
    changed_count: Count = 0
    code: ShortText = ""
    """Why nothing or not all of it was saved: `busy`, `no-extension`, `timed-out`, `not-python`,
    `no-space`, `died`; empty where all was done."""
    values_of: AwareDatetime | None = None
    """When its variables were saved, where this sleep could save none and an earlier one has."""
    interrupted_cell: ShortText | None = None
    """Id of the cell that this sleep interrupted, or that was still running at its end; empty where
    its id is not known, None where no cell was."""


class SavedSession(Message):
    """A session that sleeps: all kernels of one server, saved together."""

    id: ShortText
    slept_at: AwareDatetime
    trigger: Trigger
    seconds: Seconds
    """How long saving its variables took."""
    size_bytes: Bytes
    """On the home's disk, of all kernels together."""
    kernels: Annotated[list[SavedKernel], Field(max_length=MAX_KERNELS)] = []
    kernel_count: Count = 0


class SleepOrder(Message):
    """Agent -> notebook extension, in `AgentState.sleep`: save the session now."""

    id: ShortText
    """Of the session: the same order has the same id, and is carried out once."""
    trigger: Trigger
    until: AwareDatetime
    """All of it has to be on disk by then; what is not is lost."""
    interrupt_busy: bool
    """Whether a kernel that runs a cell may be interrupted to save its variables."""
    max_bytes: Bytes
    """The most that the session may take on disk."""


class SleepProgress(Message):
    """Notebook extension -> agent and browser: how far a sleep has come."""

    type: Literal["sleep-progress"] = "sleep-progress"
    id: ShortText
    """Of the order."""
    kernels: Count = 0
    kernels_done: Count = 0
    variables: Count = 0
    """Saved so far."""
    size_bytes: Bytes = 0


class StepResult(Message):
    """What became of one step of a server's end."""

    step: ShortText
    """`documents`, `hook`, `session` or `upload`."""
    outcome: Literal["done", "late", "failed"]
    seconds: Seconds
    detail: ShortText = ""


class SessionSaved(Message):
    """Notebook extension -> agent: the order of this id is done."""

    type: Literal["session-saved"] = "session-saved"
    id: ShortText
    session: SavedSession | None = None
    """None where there was nothing to save, or it could not be saved."""
    why_not: ShortText = ""
    """Why it could not, as a sentence for the user."""
    steps: Annotated[list[StepResult], Field(max_length=4)] = []
    """Those that the extension took by itself: the user's hooks."""


class WokenKernel(Message):
    """What came back of one kernel."""

    path: ShortText
    kernel_name: ShortText
    state: Literal["waiting", "starting", "restoring", "done", "failed"]
    variables: Count = 0
    """That are back."""
    later: Count = 0
    """That are loaded when a cell first uses them."""
    expected: Count = 0
    """That were saved."""
    size_bytes: Bytes = 0
    """Of those that are back, while it is `restoring`; 0 where that is unknown."""
    expected_bytes: Bytes = 0
    """Of those that were saved, on the home's disk; 0 where that is unknown."""
    lost: Annotated[list[LostVariable], Field(max_length=MAX_LOST)] = []
    """Those that were not saved, then those that did not come back."""
    lost_count: Count = 0
    differing: Annotated[list[LostVariable], Field(max_length=MAX_LOST)] = []
    """Those that are back, but not in all as they were: `changed`, `copied`, `no-longer-shared`,
    `released`, `without-cache`, `without-graph`, `without-traceback`."""
    unkept: Annotated[list[ShortText], Field(max_length=MAX_LOST)] = []
    """What of the kernel's process is not as it was, in the kernel's words."""
    code: ShortText = ""
    """Why the kernel itself is not back, or without variables: `notebook-gone`,
    `kernel-spec-gone`, `kernel-failed`, `died`, `timed-out`, `no-extension`, `damaged`, or the code
    of its `SavedKernel`; empty where all is well."""
    values_of: AwareDatetime | None = None
    """As in its `SavedKernel`: its variables are older than the session."""
    interrupted_cell: ShortText | None = None
    """As in its `SavedKernel`; None where the cell runs again by itself."""


class Wake(Message):
    """How far a session has woken, and what is back."""

    id: ShortText
    """Of the session."""
    slept_at: AwareDatetime
    trigger: Trigger
    state: Literal["waking", "done"]
    again: bool = False
    """Whether it had been woken before: the instance went without saving it again, so that what
    has changed since then is lost."""
    kernels: Annotated[list[WokenKernel], Field(max_length=MAX_KERNELS)] = []
    kernel_count: Count = 0
