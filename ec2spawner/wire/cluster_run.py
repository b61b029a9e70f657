"""A script that torchrun runs on a cluster: the notebook's order to a worker, and its answer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .cluster import MAX_WORKERS
from .message import Message

MAX_SCRIPT_BYTES = 1024 * 1024
"""Of a script. Other files reach workers by buckets, data volumes or a home on EFS."""

MAX_ORDER_BYTES = 4 * 1024 * 1024
"""Of a whole order: in JSON, quotes and line ends of a script take two bytes each."""

RunId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Nodes = Annotated[int, Field(ge=1, le=MAX_WORKERS)]


def _file_name(text: str) -> str:
    if text in {".", ".."} or "/" in text or "\0" in text:
        raise ValueError("not the name of a file")
    return text


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("no NUL can be handed to a process")
    return text


Argument = Annotated[str, Field(max_length=10_000), AfterValidator(_no_nul)]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)]


class RunOrder(Message):
    """`POST /run` to a worker: what torchrun is started with."""

    run_id: RunId
    """Random; its rendezvous has the same name."""
    file_name: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_file_name)]
    script: Annotated[str, Field(max_length=MAX_SCRIPT_BYTES, repr=False)]
    """The text of the file."""
    args: Annotated[list[Argument], Field(max_length=1000, repr=False)] = []
    environment: Annotated[dict[Variable, Argument], Field(max_length=200, repr=False)] = {}
    """Beside the worker's own variables."""
    min_nodes: Nodes = 1
    """Fewer workers wait for more."""
    max_nodes: Nodes
    nproc_per_node: Annotated[int, Field(ge=1, le=256)] | None = None
    """Processes on each worker; None is one per GPU, and one without GPUs."""
    max_restarts: Annotated[int, Field(ge=0, le=10_000)]
    """How often torchrun starts the processes of a worker again after one has failed."""


class CancelOrder(Message):
    """`POST /cancel` to a worker."""

    run_id: RunId


class RunStatus(Message):
    """Worker -> notebook, to each order and to `GET /run`: the last run on this worker."""

    run_id: str = ""
    """Empty if there was none."""
    exit_code: int | None = None
    """Of torchrun; negative is the signal that ended it, None while it runs."""
    stopped: Literal["", "cancelled", "drained"] = ""
    """Why the worker has ended the run, or is ending it; empty if it has not."""
