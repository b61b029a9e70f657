"""`for step in checkpoint.resumable(range(n), save=save, load=load):`."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

from ..core.text import durations, full_disk
from ..cost import agent
from ..cost.formatting import lasted
from ..cost.line import Line
from . import restart as restarts
from .folder import FolderStore, Save
from .place import home, key
from .record import Changed, CheckpointError, LoopChanged, LoopLeft, Record, describe, first_step
from .s3 import SCHEME, S3Store
from .schedule import Saved, last_reason, reason

T = TypeVar("T")

WHY: Final = {
    "end": "the last one",
    "interruption": "AWS is reclaiming this machine",
    "idle": "the session is being saved",
    "user": "the session is being saved",
    "hardware": "the session is being saved",
}

PAUSE: Final = 2.0
"""Seconds between two lines about the schedule."""

ANSWER_TIMEOUT: Final = 3.0
"""Seconds for which a loop that is left asks a silent agent whether the machine ends."""

_current: dict[str, _Loop] = {}
"""The loop of this process for each folder: the last that began. An earlier one, whose cell was
left, neither saves nor continues."""


def resumable(
    steps: Iterable[T],
    *,
    save: Save | None = None,
    load: Callable[[Path], object] | None = None,
    every: str | float = "5m",
    name: str = "",
    to: str | os.PathLike[str] | None = None,
    changed: Changed = "refuse",
    restart: bool = False,
    quiet: bool = False,
) -> Iterator[T]:
    """Yield the steps that no checkpoint has yet, and save between them.

    `save(path)` writes the loop's state to a file or folder of that name, `load(path)` reads it;
    neither is needed if the position is all there is. A checkpoint is made `every` so often (a
    duration; 0 is after each step), at a spot notice, when the session is about to be saved, and
    after the last step. The loop continues after a notice until its machine ends.

    `name` is needed if a notebook has several such loops. `to` is another folder than
    `~/.ec2spawner/checkpoints`, or `s3://bucket/prefix`. A checkpoint of a loop with another
    length is refused, unless `changed` is `continue` or `restart`. With `restart` the cell runs
    again by itself, once, when a saved session is woken.

    Raises `CheckpointError` where nothing can be saved: at once, and at the first and the last
    checkpoint. Others that fail are reported, and the loop continues.
    """
    if (save is None) != (load is None):
        raise TypeError("save and load belong together: give both, or neither")
    if changed not in get_args(Changed):
        raise ValueError(f"changed is {changed!r}: one of {', '.join(get_args(Changed))}")
    seconds = durations.seconds(every)
    loop = _Loop(steps, save, load, seconds, name, to, changed, restart, quiet)
    return loop.run()


def clear(name: str = "", *, to: str | os.PathLike[str] | None = None) -> None:
    """Remove the checkpoints of a loop, so that it begins again."""
    store = _store(name, to)
    held = _current.get(str(store))
    if held is not None:
        held.leave()
    store.open()
    store.remove()
    store.close()


def _store(name: str, to: str | os.PathLike[str] | None) -> FolderStore | S3Store:
    if isinstance(to, str) and to.startswith(SCHEME):
        return S3Store(f"{to.rstrip('/')}/{key(name)}")
    return FolderStore((Path(to).expanduser() if to is not None else home()) / key(name))


def _may_end() -> bool:
    """Whether this machine ends, or its agent is too busy to answer that it does not."""
    until = time.monotonic() + ANSWER_TIMEOUT
    while (now := agent.read_now()).why == agent.NO_RESPONSE and time.monotonic() < until:
        time.sleep(agent.PAUSE)
    return now.notice is not None or now.why == agent.NO_RESPONSE


class _Loop:
    def __init__(
        self,
        steps: Iterable[Any],
        save: Save | None,
        load: Save | None,
        every: float,
        name: str,
        to: str | os.PathLike[str] | None,
        changed: Changed,
        restart: bool,
        quiet: bool,
    ) -> None:
        self._steps, self._save, self._load, self._every = steps, save, load, every
        self._changed: Changed = changed
        self._restart = restart
        self._line = None if quiet else Line()
        self._title = name or "checkpoint"
        self._loop = describe(steps, save, bool(name))
        self._store = _store(name, to)
        self._process = os.getpid()
        self._generation = 0
        self._done = 0
        self._saved = Saved(0.0)
        self._is_first = True
        """No checkpoint is there yet, of an earlier run neither."""
        self._has_saved = False
        """This run has saved one."""
        self._is_remembered = False
        """Its cell is to run again."""
        self._is_left = False
        """It has ended for its session to be saved."""
        self._shown_at = float("-inf")

    def run(self) -> Iterator[Any]:
        self._enter()
        try:
            finished = self._resume()
            if finished:
                self._forget()
                return
            if not self._restart:
                self._forget()  # what an earlier run has left whose kernel was killed
            elif not restarts.is_run_by_wake():
                self._remember()
            for each in self._left():
                yield each
                self._step_ended()
            self._write("end")
            self._forget()  # at a notice too: there is nothing left to run
        finally:
            self.leave()

    def leave(self) -> None:
        """Release the folder, and the cell that was to run again unless the machine ends."""
        if _current.get(str(self._store)) is not self or os.getpid() != self._process:
            return
        del _current[str(self._store)]
        self._store.close()
        # The agent may be too busy now to say again that the machine ends.
        if self._is_remembered and not self._is_left and not _may_end():
            self._forget()

    def _remember(self) -> None:
        self._is_remembered = restarts.remember(str(self._store))
        if not self._is_remembered:
            self._show("restart=True has an effect in a notebook's cell only")

    def _forget(self) -> None:
        self._is_remembered = False
        restarts.forget(str(self._store))

    def _enter(self) -> None:
        before = _current.get(str(self._store))
        if before is not None:
            before.leave()
        self._store.open()
        _current[str(self._store)] = self

    def _resume(self) -> bool:
        """Load the newest checkpoint that is complete; whether nothing remains to be done."""
        self._saved = Saved(time.monotonic())
        for each in self._store.generations():
            self._generation = max(self._generation, each)
            try:
                record = self._store.read(each)
            except ValueError as error:
                self._show(f"a checkpoint in {self._store} is incomplete ({error}): not used")
                continue
            return self._continue_from(record, each)
        return False

    def _continue_from(self, record: Record, generation: int) -> bool:
        try:
            self._done = first_step(record, self._loop, self._changed)
        except LoopChanged as error:
            raise LoopChanged(f"{self._store}: {error}") from None
        if self._done < record.done:
            self._show("the loop has changed: it begins again")
            return False
        if self._load is not None:
            self._store.load(generation, self._load)
        self._is_first = False
        self._saved = Saved(time.monotonic())
        finished = record.finished and record.loop == self._loop
        what = "all steps were done" if finished else f"resumed after {self._place()}"
        self._show(
            f"{what}, saved {record.saved_at} in {self._store}"
            + ("; `checkpoint.clear` lets it begin again" if finished else "")
        )
        return finished

    def _left(self) -> Iterator[Any]:
        """The steps after those that are done; those of a sequence are not read again."""
        if isinstance(self._steps, Sequence):
            return (self._steps[n] for n in range(self._done, len(self._steps)))
        return itertools.islice(iter(self._steps), self._done, None)

    def _step_ended(self) -> None:
        if _current.get(str(self._store)) is not self:
            raise CheckpointError(
                "another loop with this name began: give each a name of its own"
            ) from None
        self._done += 1
        if self._done == self._loop.length:
            return  # the last one is saved with the loop's end
        notice = agent.read().notice
        if notice is None:
            self._saved = replace(self._saved, notice=None)  # withdrawn: another one is new
        now = time.monotonic()
        # The variables are saved once the cell has ended, and the machine is not kept for less.
        must_leave = notice is not None and notice.is_saving and restarts.is_in_kernel()
        why = reason(now, self._saved, self._every, notice)
        if must_leave and not why:
            why = last_reason(now, self._saved, notice)
        if why:
            self._try_to_write(why)
        if must_leave:
            self._is_left = True
            raise LoopLeft("the session is being saved: run the cell again to continue")

    def _try_to_write(self, why: str) -> None:
        try:
            self._write(why)
        except Exception as error:
            if self._is_first:
                raise
            self._saved = Saved(time.monotonic(), notice=self._saved.notice)
            is_full = full_disk.is_full(error)
            why = full_disk.HOME_IS_FULL if is_full else f"{type(error).__name__}: {error}"
            self._show(f"no checkpoint after {self._place()}: {why}")

    def _write(self, why: str) -> None:
        began, notice = time.monotonic(), agent.read().notice
        record = partial(
            Record,
            self._loop,
            self._done,
            datetime.now(UTC).isoformat(timespec="seconds"),
            why,
            why == "end",
        )
        self._generation += 1  # also after a failed attempt, of which something may be left
        self._store.write(self._generation, self._save, record)
        ended = time.monotonic()
        self._saved = Saved(ended, ended - began, notice)
        if self._restart and why != "end" and not self._has_saved and restarts.is_run_by_wake():
            # Not before: one that ends its machine without progress would do so at each wake.
            self._remember()
        self._is_first, self._has_saved = False, True
        if why != "schedule" or ended - self._shown_at >= PAUSE:
            self._shown_at = ended
            remark = f" ({WHY[why]})" if why in WHY else ""
            self._show(f"saved after {self._place()} in {lasted(ended - began)}{remark}")

    def _place(self) -> str:
        of = f" of {self._loop.length}" if self._loop.length is not None else ""
        return f"step {self._done}{of}"

    def _show(self, text: str) -> None:
        if self._line is not None:
            self._line.show(f"{self._title}: {text}")
