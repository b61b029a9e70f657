"""`~/.ec2spawner/sleep/session.json`: the kernels that sleep, and which files are theirs.

Its replacement is the commit of a sleep: until then, the one before is complete and stays.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, ValidationError

from ...sleep import folder as folders
from ...sleep import owned
from ...wire import SavedKernel, SavedSession
from ...wire.message import Message, ShortText

log = logging.getLogger(__name__)

FILE = "session.json"

MAX_BYTES = 4 * 2**20
"""Of the file: a hundred kernels with long paths are a tenth of this."""

GENERATION = r"^([A-Za-z0-9-]{1,100}/[0-9]{17}-[0-9a-f]{8})?$"
"""Of a path: folders are removed by it."""

MAX_SUPERSEDED = 1000
MAX_KERNELS = 100
"""More kernels than these are not saved."""


Generation = Annotated[str, Field(pattern=GENERATION)]


class SleepingKernel(Message):
    """One kernel of the session, with what is needed to start it again under the same ids: a page
    that is still open finds it by them."""

    kernel_id: ShortText
    session_id: ShortText = ""
    """Of Jupyter Server's session; empty for a kernel that had none."""
    path: ShortText = ""
    """As Jupyter Server's session has it."""
    name: ShortText = ""
    type: ShortText = "notebook"
    generation: Generation = ""
    """`KEY/GENERATION` below `kernels`; empty where nothing was saved."""
    saved: SavedKernel


class SessionRecord(Message):
    """What sleeps, or has woken and stays until the next sleep is complete."""

    format: Literal[1] = 1
    session: SavedSession
    kernels: Annotated[list[SleepingKernel], Field(max_length=MAX_KERNELS)]
    woken_at: AwareDatetime | None = None
    superseded: Annotated[list[Generation], Field(max_length=MAX_SUPERSEDED)] = []  # noqa: RUF012
    """Of kernels that slept before and are not of this session: to be removed."""


def read(root: Path) -> SessionRecord | None:
    """The record of this home; None without one, and for one that is damaged or not the user's.

    Blocks for a file of some kilobytes.
    """
    try:
        owned.check(root)
        with open(owned.open_ours(root / FILE), "rb") as file:  # noqa: PTH123 - of a descriptor
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise owned.NotOurs(f"{FILE} is too large")
        return SessionRecord.model_validate_json(content)
    except FileNotFoundError:
        return None
    except (OSError, owned.NotOurs, ValidationError) as error:
        log.error("the sleeping session cannot be read: %s", error)
        return None


def write(root: Path, record: SessionRecord) -> None:
    """Replace the record; it is on the disk when this returns. Raises `OSError`."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    owned.replace_file(root / FILE, record.model_dump_json().encode())
    owned.sync(root)


def superseded(before: SessionRecord | None, kernels: list[SleepingKernel]) -> list[str]:
    """What the session before has of kernels that are not among these, with what it had itself
    still to remove."""
    if before is None:
        return []
    present = {(each.path, each.name, each.saved.kernel_name) for each in kernels}
    gone = [
        each.generation
        for each in before.kernels
        if each.generation and (each.path, each.name, each.saved.kernel_name) not in present
    ]
    return [*gone, *before.superseded][:MAX_SUPERSEDED]


def remove_unused(root: Path, record: SessionRecord) -> None:
    """Remove what the sleeps before this one have left, and what no sleep has completed.

    A kernel that this one could not save keeps what was saved of it before. Errors are ignored:
    what is left is removed the next time. Blocks for as long as files take to delete.
    """
    kernels = root / folders.KERNELS
    for each in record.kernels:
        if each.generation:
            folders.remove_older(kernels / each.generation)
    for name in filter(None, record.superseded):
        shutil.rmtree(kernels / name, ignore_errors=True)
    with contextlib.suppress(OSError):
        for kernel in kernels.iterdir():
            for generation in folders.generations(kernel):
                if folders.latest(kernel) is None:
                    shutil.rmtree(generation, ignore_errors=True)


def expire(root: Path, record: SessionRecord, keep: timedelta, now: datetime) -> bool:
    """Remove a session that was saved longer than `keep` ago; whether it was."""
    if now - record.session.slept_at <= keep:
        return False
    with contextlib.suppress(OSError):
        (root / FILE).unlink()
    for each in record.kernels:
        if each.generation:
            shutil.rmtree((root / folders.KERNELS / each.generation).parent, ignore_errors=True)
    return True
