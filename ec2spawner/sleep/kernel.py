"""Sleep and wake of this process: its namespace, its hooks in IPython, what still waits."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from . import naming, report
from .bounds.memory import memory
from .outcome import CarriedOver, Report
from .saving import save_namespace
from .storage import earlier, owned
from .storage import folder as folders
from .storage import manifest as manifests
from .storage.earlier import Earlier
from .storage.manifest import Entry, Manifest
from .waking.restoring import Restored, Restoring

IDLE_SECONDS: Final = 1.0
"""Without a cell, before a large variable is restored that no cell has asked for."""


class Kernel:
    """One shell of IPython, or a plain Python process without one."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.kept: list[str] = []
        self.forgotten: list[str] = []
        self._restoring: Restoring | None = None
        self._of_others: list[CarriedOver] = []
        """What could not be restored of another notebook before."""
        self._timer: Any = None
        self._last: dict[Path, Path] = {}
        """The generations that the namespace was last saved to or restored from, by the folder of
        their kernel: this notebook's, and others' that were woken here."""
        self._is_hooked = False

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's variables."""
        return naming.namespace(self.shell)

    @property
    def _hidden(self) -> Mapping[str, Any]:
        """What IPython has put into the namespace, with its values."""
        hidden: Mapping[str, Any] = getattr(self.shell, "user_ns_hidden", {})
        return hidden

    @property
    def pending(self) -> dict[str, int]:
        """What is not restored yet, in bytes by name."""
        if self._restoring is None:
            return {}
        self._restoring.forget_assigned()
        return self._restoring.pending

    @property
    def failed(self) -> list[str]:
        """What could not be restored, and can be tried again."""
        return self._restoring.failed if self._restoring is not None else []

    def save(
        self,
        folder: Path,
        *,
        seconds: float,
        max_bytes: int,
        progress: Report,
        asleep: Path | None = None,
    ) -> Manifest:
        """Save the namespace as a generation. Raises OSError, `owned.NotOurs`.

        `asleep`: a generation that was to be restored here, and could not.
        """
        if self._restoring is not None:
            self._restoring.forget_assigned()
        carried = self._carried_over()
        before = earlier.before(folder, [asleep] if asleep else [*self._last.values()])
        known = earlier.values(before)
        saved = save_namespace(
            self.namespace,
            folder,
            seconds=seconds,
            max_bytes=max_bytes,
            hidden=self._hidden,
            kept=self.kept,
            forgotten=self.forgotten,
            carried_over=carried,
            known=known,
            absent=known if asleep or not self._is_ours(before) else self.asleep,
            report=progress,
        )
        self._last[folder.parent] = folder
        if self._restoring is not None:
            self._restoring.move_to(folder, saved.entries)
        return saved

    def _is_ours(self, generation: Path | None) -> bool:
        """Whether the namespace was restored from this generation, or saved to it.

        If not, the process was started anew, by its user or after a crash: a name that it does not
        have was not deleted. A generation has the same name in the folder of a renamed notebook.
        """
        names = {each.name for each in self._last.values()}
        return generation is None or generation.name in names

    @property
    def asleep(self) -> dict[str, Earlier]:
        """What the last sleep could not save, and an earlier one has: by the names that the
        namespace does not have."""
        found: dict[str, Earlier] = {}
        for last in self._last.values():
            with contextlib.suppress(manifests.Unreadable):
                found |= earlier.kept_values(last, manifests.read(last))
        there = {*naming.of_user(self.namespace, self._hidden), *self.forgotten}
        return {name: each for name, each in found.items() if name not in there}

    def restore_earlier(self, names: Iterable[str]) -> list[str]:
        """Restore the earlier values of these names; which of them are there now."""
        asleep = self.asleep
        found = []
        for folder in {asleep[name].folder for name in names}:
            mine = [name for name in names if asleep[name].folder == folder]
            owned.check(folder)
            restoring = Restoring(
                self.namespace, folder, manifests.read(folder), hidden=self._hidden
            )
            found += restoring.pick(mine)
            self._say_lost(restoring.result.lost)
        return found

    def needs_older(self, folder: Path) -> bool:
        """Whether what waits is still in an older generation of this folder's kernel."""
        return any(
            each.folder.parent == folder.parent and each.folder != folder
            for each in self._carried_over()
        )

    def _carried_over(self) -> list[CarriedOver]:
        own = self._restoring.carried_over() if self._restoring is not None else []
        names = {each.entry.name for each in own}
        return [*own, *(each for each in self._of_others if each.entry.name not in names)]

    def restore(self, folder: Path, *, eager_bytes: int, progress: Report) -> Restored:
        """Restore a generation. Raises `manifest.Unreadable`."""
        try:
            owned.check(folder)
        except (owned.NotOurs, OSError) as why:
            raise manifests.Unreadable(str(why)) from None
        manifest = manifests.read(folder)
        if self._restoring is not None and folder.parent != self._restoring.folder.parent:
            # Of another notebook: nothing would restore or save what still waits.
            self.restore_now(self.pending)
            self._of_others += self._restoring.carried_over()
        self._add_wishes(manifest)
        self._restoring = Restoring(self.namespace, folder, manifest, progress, self._hidden)
        self._hook()
        self._last[folder.parent] = folder
        found = self._restoring.begin(eager_bytes)
        there = self.asleep
        found.lost = [e if e.name in there else replace(e, earlier=0.0) for e in found.lost]
        self._wait_for_idleness()
        return found

    def _add_wishes(self, manifest: Manifest) -> None:
        """Those of the sleep, too; what was said here since is what counts."""
        said = {*self.kept, *self.forgotten}
        kept = (each for each in manifest.kept if each not in said)
        forgotten = (each for each in manifest.forgotten if each not in said)
        self.kept = [*kept, *self.kept]
        self.forgotten = [*forgotten, *self.forgotten]

    def keep(self, names: Iterable[str]) -> None:
        """Save these names before all others, from now on."""
        for name in names:
            self.kept = [*(each for each in self.kept if each != name), name]
            self.forgotten = [each for each in self.forgotten if each != name]

    def forget(self, names: Iterable[str]) -> None:
        """Do not save these names, and do not restore them, until they are kept again."""
        for name in names:
            self.forgotten = [*(each for each in self.forgotten if each != name), name]
            self.kept = [each for each in self.kept if each != name]
            if self._restoring is not None:
                self._restoring.drop(name)

    # --- large variables: when a cell names them, or when nothing runs ---

    def restore_now(self, names: Iterable[str]) -> list[str]:
        """Restore these names at once; which of them are there now."""
        if self._restoring is None:
            return []
        lost = len(self._restoring.result.lost)
        found = self._restoring.restore_names(names)
        self._say_lost(self._restoring.result.lost[lost:])
        return found

    def _say_lost(self, lost: Iterable[Entry]) -> None:
        for each in lost:
            report.say(f"{each.name} could not be restored: {report.reason(each)}")

    def cell_begins(self, info: Any) -> None:
        """IPython's `pre_run_cell`: restore what the cell names."""
        self._cancel()
        with contextlib.suppress(Exception):
            code = info.raw_cell or ""
            if names := naming.used_by(code, self.namespace, self.pending):
                self.restore_now(names)
            if naming.LISTING.search(code) and info.store_history and self.pending:
                report.say(f"Not listed, because they still wait: {', '.join(self.pending)}.")

    def cell_ended(self, result: Any) -> None:
        """IPython's `post_run_cell`: a name that only the cell's functions could know."""
        with contextlib.suppress(Exception):
            if result is not None:
                self._say_missing(naming.missing_in(result.error_in_exec, self.namespace))
                self._drop_if_reset(result.info.raw_cell or "")
            self._wait_for_idleness()

    def _say_missing(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.pending and self.restore_now([name]):
                report.say(f"{name} was asleep, and is restored now: run the cell again.")
            elif kept := self.asleep.get(name):
                report.say(f"{name} was not saved. {report.earlier_value(name, kept.saved_at)}")

    def _drop_if_reset(self, code: str) -> None:
        """After `%reset`, nothing comes back by itself."""
        if self._restoring is None or not naming.RESET.search(code):
            return
        if not naming.of_user(self.namespace, self._hidden):
            for name in self.pending:
                self._restoring.drop(name)

    def idle(self) -> None:
        """Restore one more file, the smallest; then wait again, so that a cell can begin.

        What is left waits for a cell that names it where it would take the memory that the user's
        own work may need.
        """
        self._timer = None
        if self._restoring is None or not self.pending:
            return
        name, size_bytes = self._restoring.next
        if size_bytes > memory().beyond_reserve:
            return
        # What fails, or is interrupted, is reported when a cell names it, or by `%wake`.
        with contextlib.suppress(Exception, KeyboardInterrupt):
            self.restore_now([name])
        self._wait_for_idleness()

    def unhook(self) -> None:
        """Restore nothing more."""
        self._cancel()
        if self._is_hooked:
            self.shell.events.unregister("pre_run_cell", self.cell_begins)
            self.shell.events.unregister("post_run_cell", self.cell_ended)
            self._is_hooked = False

    def _hook(self) -> None:
        if self.shell is not None and not self._is_hooked:
            self.shell.events.register("pre_run_cell", self.cell_begins)
            self.shell.events.register("post_run_cell", self.cell_ended)
            self._is_hooked = True

    def _wait_for_idleness(self) -> None:
        self._cancel()
        if not self.pending:
            return
        # A terminal's IPython has no loop between two cells: there, cells alone restore.
        with contextlib.suppress(RuntimeError):
            self._timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.idle)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_kernel: Kernel | None = None


def current() -> Kernel:
    """The one of this process."""
    global _kernel
    shell = naming.shell()
    if _kernel is None or _kernel.shell is not shell:
        _kernel = Kernel(shell)
    return _kernel


def kernel_folder(path: str = "") -> Path:
    """The folder of a notebook's kernel, of this one's by default, in the owner's home."""
    key = folders.kernel_key(path or notebook(), kernel_name())
    return folders.root() / folders.KERNELS / key


def notebook() -> str:
    """The path of this kernel's notebook, by its present name; empty where there is none."""
    import os

    with contextlib.suppress(Exception):
        return folders.renamed_file(_connection_file()).read_text(encoding="utf-8")
    return os.environ.get("JPY_SESSION_NAME", "")


def _connection_file() -> str:
    application = sys.modules["ipykernel.kernelapp"].IPKernelApp.instance()
    return str(application.abs_connection_file)


def kernel_name() -> str:
    """The name of this kernel's specification, empty where it is not known."""
    import json

    with contextlib.suppress(Exception):
        text = Path(_connection_file()).read_text(encoding="utf-8")
        return str(json.loads(text).get("kernel_name", ""))
    return ""
