"""The end of a sleep: what each kernel has saved, and the record that makes it the one that wakes.

Until the record is replaced, the session before is complete and stays.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...sleep.storage import earlier
from ...sleep.storage import folder as folders
from ...sleep.storage import manifest as manifests
from ...sleep.storage.manifest import Manifest, Unreadable
from ...wire import SavedKernel, SavedSession, SleepOrder
from ...wire.sleep import MAX_COUNT, MAX_KERNELS, MAX_SIZE
from . import session_record
from .lineage import Lineage
from .reports import saved_kernel, unsaved
from .running_kernels import RunningKernel
from .session_record import SessionRecord, SleepingKernel

log = logging.getLogger(__name__)


@dataclass
class KernelSave:
    """One kernel while it is saved."""

    kernel: RunningKernel
    key: str
    """Of the folder of its variables."""
    has_begun: bool = False
    generation: Path | None = None
    last: Path | None = None
    """The last complete generation before."""
    max_bytes: int = 0
    variables: int = 0
    size_bytes: int = 0
    result: SavedKernel | None = None
    why_not: str = "busy"
    """The code if time is over now."""
    interrupted_cell: str | None = None
    """As in `SavedKernel`, if time is over now."""

    def unsaved(self, code: str) -> SavedKernel:
        """Nothing was saved, for this reason."""
        return unsaved(self.kernel.notebook, self.kernel.kernel_name, code)

    def hear(self, report: Mapping[str, Any]) -> None:
        """Apply what the kernel reports."""
        kernel = self.kernel
        if report.get("kind") == "saved":
            self.result = saved_kernel(kernel.notebook, kernel.kernel_name, report)
            self.variables, self.size_bytes = self.result.variables, self.result.size_bytes
        elif report.get("kind") == "progress":
            self.variables = _number(report.get("done"), self.variables, MAX_COUNT)
            self.size_bytes = _number(report.get("size_bytes"), self.size_bytes, MAX_SIZE)


def last_complete(root: Path, save: KernelSave, lineage: Lineage) -> Path | None:
    """The last complete generation that the kernel's values are of. Blocks."""
    return lineage.last(root / folders.KERNELS, save.kernel.kernel_id, save.key)


def commit(
    root: Path,
    order: SleepOrder,
    saves: Sequence[KernelSave],
    kept: Sequence[SleepingKernel],
    lineage: Lineage,
    seconds: float,
) -> SavedSession:
    """Conclude what is not complete, then replace the record. Blocks. Raises `OSError`."""
    sleeping = [*(_sleeping(root, each, lineage) for each in saves), *kept]
    del sleeping[session_record.MAX_KERNELS :]
    saved = [each.saved for each in sleeping]
    session = SavedSession(
        id=order.id,
        slept_at=datetime.now(UTC),
        trigger=order.trigger,
        seconds=seconds,
        size_bytes=sum(each.size_bytes for each in saved),
        kernels=saved[:MAX_KERNELS],
        kernel_count=len(saved),
    )
    superseded = session_record.superseded(session_record.read(root), sleeping)
    record = SessionRecord(
        session=session, kernels=sleeping, superseded=superseded, max_bytes=order.max_bytes
    )
    session_record.write(root, record)
    return session


def _sleeping(root: Path, save: KernelSave, lineage: Lineage) -> SleepingKernel:
    kernel = save.kernel
    result = save.result or _conclude(save)
    generation = save.generation
    if generation is not None and not folders.is_complete(generation):
        generation = None
    if not result.variables and result.code:
        if generation is not None and (now := _read(save, generation)) and now.saved:
            result = _summary(save, now)  # whatever the kernel has reported
        else:
            result, generation = _as_before(root, save, lineage, result) or (result, generation)
    saved = result if generation or result.code else save.unsaved("failed")
    return SleepingKernel(
        kernel_id=kernel.kernel_id,
        session_id=kernel.session_id,
        path=kernel.path,
        name=kernel.name,
        type=kernel.type,
        generation=f"{generation.parent.name}/{generation.name}" if generation else "",
        saved=saved.model_copy(update={"interrupted_cell": save.interrupted_cell}),
    )


def _as_before(
    root: Path, save: KernelSave, lineage: Lineage, result: SavedKernel
) -> tuple[SavedKernel, Path] | None:
    """A kernel of which nothing was saved now wakes as it was saved last, and says so."""
    last = save.last if save.has_begun else last_complete(root, save, lineage)
    manifest = _read(save, last) if last is not None else None
    if last is None or manifest is None:
        return None
    if save.generation is not None:
        earlier.remove(save.generation)  # the latest generation is what wakes
    at = datetime.fromtimestamp(manifest.saved_at, UTC)
    before = _summary(save, manifest)
    return before.model_copy(update={"code": result.code, "values_of": at}), last


def _conclude(save: KernelSave) -> SavedKernel:
    """What was saved of a kernel that has not reported that it is done."""
    if save.generation is None:
        return save.unsaved(save.why_not)
    try:
        folders.conclude(save.generation, save.why_not)
    except OSError as error:
        log.warning("ec2spawner: kernel %s: %s", save.kernel.kernel_id, error)
    manifest = _read(save, save.generation)
    return save.unsaved(save.why_not) if manifest is None else _summary(save, manifest)


def _read(save: KernelSave, generation: Path) -> Manifest | None:
    """Its manifest, where it can be read."""
    try:
        return manifests.read(generation)
    except Unreadable as error:
        log.warning("ec2spawner: kernel %s: %s", save.kernel.kernel_id, error)
        return None


def _summary(save: KernelSave, manifest: Manifest) -> SavedKernel:
    kernel = save.kernel
    return saved_kernel(kernel.notebook, kernel.kernel_name, manifests.summary(manifest))


def _number(value: Any, otherwise: int, most: int) -> int:
    """A number that the kernel reports, if it is one."""
    return value if type(value) is int and 0 <= value <= most else otherwise
