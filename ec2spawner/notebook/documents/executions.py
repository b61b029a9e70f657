"""The executions whose outputs a page may never receive. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .cell_outputs import KINDS, CellOutputs

KEPT_SECONDS = 180.0
"""After its end an execution is kept for this long for a page that seems to be connected. One that
is gone without a word, such as a laptop's that sleeps, is found out within 90 s, and a page saves
what it shows within seconds."""

FOLLOWED_SECONDS = 75.0
"""A page that shows what another one has begun asks every few seconds; browsers wake a hidden tab
once a minute."""

MAX_BYTES = 256 * 1024 * 1024
"""Of all outputs together: the executions that ended first are dropped."""

MAX_EXECUTIONS = 2000
"""At once; the same."""


@dataclass(eq=False)
class Execution:
    """One cell that a page has sent to a kernel."""

    id: str
    kernel_id: str
    session: str
    """The page's connection to the kernel; a reload of the page makes another one."""
    cell_id: str
    outputs: CellOutputs = field(default_factory=CellOutputs)
    count: int | None = None
    """None until the kernel has begun it."""
    ended_at: float | None = None
    followed_at: float | None = None
    """When a page has last asked for its outputs, to show and save them."""

    @property
    def is_running(self) -> bool:
        """Whether the kernel has begun it and not ended it."""
        return self.count is not None and self.ended_at is None


class Executions:
    """In the order in which they were sent. `is_connected` says whether a session of a kernel has a
    page now, whose own the outputs then are."""

    def __init__(self, is_connected: Callable[[str, str], bool]) -> None:
        self._is_connected = is_connected
        self._by_id: dict[str, Execution] = {}

    def begin(self, execution: Execution) -> None:
        """A page sends a cell: what an earlier execution of the cell has shown is over."""
        cell = (execution.kernel_id, execution.cell_id)
        self.forget(each.id for each in self.of((cell[0],)) if each.cell_id == cell[1])
        self._by_id[execution.id] = execution

    def hear(
        self, kernel_id: str, kind: str, parent_id: str, content: Mapping[str, Any], now: float
    ) -> None:
        """A kernel's message on iopub. Raises `KeyError` or `TypeError` for a malformed one."""
        if kind == "status" and content["execution_state"] == "starting":
            self._end_all(kernel_id, now)
            return
        execution = self._by_id.get(parent_id)
        if kind == "update_display_data":
            for each in self.of((kernel_id,)):
                each.outputs.update(content)
        elif execution is None or execution.kernel_id != kernel_id:
            return
        elif kind == "execute_input":
            execution.count = content["execution_count"]
        elif kind in KINDS:
            execution.outputs.add(kind, content)
        elif kind == "status" and content["execution_state"] == "idle":
            self._end(execution, now)

    def of(self, kernel_ids: Collection[str]) -> list[Execution]:
        """All of these kernels."""
        return [each for each in self._by_id.values() if each.kernel_id in kernel_ids]

    def left(self, kernel_ids: Collection[str]) -> list[Execution]:
        """Those that have begun and whose page is gone."""
        return [
            each
            for each in self.of(kernel_ids)
            if each.count is not None and not self._is_connected(each.kernel_id, each.session)
        ]

    def follow(self, kernel_ids: Collection[str], now: float) -> list[Execution]:
        """The same, for a page that shows and saves them from now on."""
        found = self.left(kernel_ids)
        for each in found:
            each.followed_at = now
        return found

    def unsaved(
        self, kernel_ids: Collection[str], pages: Collection[str], now: float
    ) -> list[Execution]:
        """Those that no page saves; `pages` are the kernels that have a page. A file that changes
        below a page leaves its user to choose between the two."""
        return [
            each
            for each in self.left(kernel_ids)
            if each.followed_at is None
            or each.kernel_id not in pages
            or now - each.followed_at > FOLLOWED_SECONDS
        ]

    def forget(self, ids: Iterable[str]) -> None:
        """Drop these, if they are there."""
        for each in list(ids):
            self._by_id.pop(each, None)

    def taken(self, ids: Iterable[str]) -> None:
        """A page shows the outputs of these: drop those that have ended."""
        known = (self._by_id.get(each) for each in ids)
        self.forget(each.id for each in known if each is not None and each.ended_at is not None)

    def prune(self, now: float) -> None:
        """Drop what pages have, and what is too much."""
        ended = [each for each in self._by_id.values() if each.ended_at is not None]
        self.forget(
            each.id
            for each in ended
            if now - (each.ended_at or now) > KEPT_SECONDS
            and self._is_connected(each.kernel_id, each.session)
        )
        size = sum(each.outputs.size for each in self._by_id.values())
        for each in ended:
            if size <= MAX_BYTES and len(self._by_id) <= MAX_EXECUTIONS:
                break
            if self._by_id.pop(each.id, None) is not None:
                size -= each.outputs.size

    def _end_all(self, kernel_id: str, now: float) -> None:
        for each in self.of((kernel_id,)):
            self._end(each, now)

    def _end(self, execution: Execution, now: float) -> None:
        if execution.count is None:
            # Never begun, because a cell before it failed: the cell keeps what it shows.
            self.forget([execution.id])
        elif execution.ended_at is None:
            execution.ended_at = now
