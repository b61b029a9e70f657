"""`~/.ec2spawner/sleep/session.json`: the kernels that sleep, and which files are theirs.

Its replacement is the commit of a sleep: until then, the one before is complete and stays.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, ValidationError

from ...sleep.storage import earlier, owned
from ...sleep.storage import folder as folders
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


_replacing = threading.RLock()
"""A thread whose task was cancelled may still write while the next one does."""

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
    max_bytes: Annotated[int, Field(ge=0)] = 2**60
    """Of the order: what is kept of earlier sleeps is no more, either."""
    superseded: Annotated[list[Generation], Field(max_length=MAX_SUPERSEDED)] = []  # noqa: RUF012
    """Of kernels that slept before and are not of this session: to be removed."""

    def generations(self, root: Path) -> set[Path]:
        """Of its kernels. Two kernels of one notebook have theirs in one folder."""
        return {root / folders.KERNELS / e.generation for e in self.kernels if e.generation}


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
    with _replacing:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        owned.replace_file(root / FILE, record.model_dump_json().encode())
        owned.sync(root)


def superseded(before: SessionRecord | None, kernels: list[SleepingKernel]) -> list[str]:
    """What the session before has of kernels that are not among these or have another folder now,
    with what it had itself still to remove."""
    if before is None:
        return []
    present = {(each.path, each.name, each.saved.kernel_name): each.generation for each in kernels}
    used = {*present.values()}
    gone = []
    for each in before.kernels:
        new = present.get((each.path, each.name, each.saved.kernel_name))
        is_moved = new and new.split("/")[0] != each.generation.split("/")[0]
        if each.generation and (new is None or is_moved):
            gone.append(each.generation)
    return [each for each in [*gone, *before.superseded] if each not in used][:MAX_SUPERSEDED]


def mark_woken(root: Path, session_id: str, now: datetime) -> SessionRecord | None:
    """Note that this session has woken, unless the disk is full; the record of it, None if another
    one has replaced it."""
    with _replacing:
        record = read(root)
        if record is None or record.session.id != session_id:
            return None
        woken = record.model_copy(update={"woken_at": now})
        try:
            write(root, woken)
        except OSError as error:
            log.warning("it cannot be noted that the session has woken: %s", error)
        return woken


def remove_unused(root: Path, record: SessionRecord) -> None:
    """Remove what the sleeps before this one have left.

    Whatever the record names stays. A kernel that this sleep could not save keeps what was saved of
    it before, and so does a variable. Errors are ignored: what is left is removed the next time.
    Blocks for as long as files take to delete.
    """
    kernels, named = root / folders.KERNELS, record.generations(root)
    spare = record.max_bytes
    for each in record.kernels:
        if each.generation:
            spare -= earlier.remove_older(kernels / each.generation, spare, named)
    for name in filter(None, record.superseded):
        earlier.remove(kernels / name)


def remove_incomplete(root: Path, before: str) -> None:
    """Remove what no sleep has completed, of servers before the time of this name. Blocks."""
    with contextlib.suppress(OSError):
        for kernel in (root / folders.KERNELS).iterdir():
            earlier.remove_incomplete(kernel, before)


def expire(
    root: Path, record: SessionRecord, keep: timedelta, now: datetime
) -> SessionRecord | None:
    """Remove what was saved longer than `keep` ago; the record of what is left, None for nothing.

    The record goes last: killed before that, the rest is removed at the next start. Raises
    `OSError`. Blocks.
    """
    limit = (now - keep).astimezone(UTC)
    is_over = record.session.slept_at < limit
    name = folders.stamp(limit.timestamp())
    left = []
    named = record.generations(root)
    for each in record.kernels:
        generation = root / folders.KERNELS / each.generation
        if each.generation and (is_over or earlier.newest(generation, named).name < name):
            earlier.remove_until(generation.parent, max(name, generation.name))
        else:
            left.append(each)
    if is_over:
        for old in filter(None, record.superseded):
            earlier.remove(root / folders.KERNELS / old)
        (root / FILE).unlink(missing_ok=True)
        return None
    if len(left) < len(record.kernels):
        record = record.model_copy(update={"kernels": left})
        write(root, record)
    return record
