"""Restoring a generation into a namespace: modules, definitions, small values; large ones later.

What may run code of the notebook's own, and what other versions of libraries saved, is loaded in a
child first: a trial that exits, crashes or hangs costs a message, not the kernel. What crashes here
regardless does so once: see `crashes`.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from .. import naming, plan, search_path, settings
from ..bounds.memory import memory
from ..bounds.muted import muted
from ..bounds.time_limit import limited
from ..failure import Failure, attempt
from ..outcome import CarriedOver, Report
from ..storage import manifest as manifests
from ..storage import owned
from ..storage.manifest import DEFINITION, MODULE, Entry, Manifest, python_version
from ..values import source, unpickling
from . import imports, trials
from .crashes import Crashes
from .unrestored import Unavailable, why_not_imported, why_not_restored
from .waiting import Waiting

LOAD_SECONDS: Final = 10.0
EMPTY: Final[Mapping[str, Any]] = {}
BYTES_PER_SECOND: Final = 25e6
"""A volume that is read for the first time, from its snapshot, is this slow."""


@dataclass
class Restored:
    """What became of the names of a generation."""

    restored: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    """Restored when a cell names them, or when the kernel is idle."""
    yours: list[str] = field(default_factory=list)
    """The namespace had them: they are as they were."""
    moved: list[str] = field(default_factory=list)
    """Their tensors were on a GPU that is not here, and are on the CPU."""
    differing: list[Entry] = field(default_factory=list)
    """They are not as they were in all: see `Entry.differs`."""
    lost: list[Entry] = field(default_factory=list)
    unkept: list[str] = field(default_factory=list)
    """What of the process is not as it was, in words."""
    seconds: float = 0.0

    def message(self) -> dict[str, Any]:
        """For the page."""
        return {
            "kind": "restored",
            "restored": self.restored,
            "later": self.later,
            "yours": self.yours,
            "moved": self.moved,
            "differing": [
                {"name": each.name, "type": each.type, "code": code, "detail": each.detail}
                for each in self.differing
                for code in each.differs
            ],
            "lost": [manifests.lost(each) for each in self.lost],
            "unkept": self.unkept,
            "seconds": round(self.seconds, 2),
        }


class Restoring:
    """One generation, and what of it is not restored yet."""

    def __init__(
        self,
        namespace: dict[str, Any],
        folder: Path,
        manifest: Manifest,
        report: Report = lambda _: None,
        hidden: Mapping[str, Any] = EMPTY,
    ) -> None:
        """`hidden`: as for `naming.of_user`."""
        self._namespace = namespace
        self._hidden = hidden
        self._folder = folder
        self._manifest = manifest
        self._report = report
        self.result = Restored()
        self._waiting = Waiting()
        self._failed: dict[str, Entry] = {}
        self._under_way: set[str] = set()
        self._is_trial = False
        self._modules: list[Entry] = []
        """To be imported."""
        self._crashes = Crashes(folder)
        self._imports = imports.Imports(self._crashes)
        self._variables = 0
        """That are restored, of `result.restored`; without modules."""
        self._bytes = 0

    @property
    def pending(self) -> dict[str, int]:
        """The names that are not restored yet, with their size in bytes."""
        return {each.name: each.size_bytes for each in self._waiting.all}

    @property
    def failed(self) -> list[str]:
        """The names that could not be restored here; `restore_names` tries them again."""
        return [name for name in self._failed if not self._has(name)]

    @property
    def next(self) -> tuple[str, int]:
        """A name of the smallest file that is not restored yet, and the host memory in bytes that
        the file takes; an empty one if there is none."""
        file = self._waiting.smallest
        return (self._waiting.of(file)[0].name, self._host_bytes(file)) if file else ("", 0)

    def carried_over(self) -> list[CarriedOver]:
        """What the next sleep keeps as it is: what waits, and what could not be restored here."""
        return [
            CarriedOver(each, self._folder)
            for each in [*self._waiting.all, *self._failed.values()]
            if each.file or each.source or each.kind == MODULE
        ]

    @property
    def folder(self) -> Path:
        """The generation."""
        return self._folder

    def move_to(self, folder: Path, saved: Iterable[Entry]) -> None:
        """Read from this generation from now on, if it has all that this one is needed for."""
        there = {each.name: each for each in saved if each.saved}
        if not all(each.entry.name in there for each in self.carried_over()):
            return
        waiting = self._waiting.all
        self._folder = folder
        self._crashes.move_to(folder)
        self._waiting = Waiting()
        for each in waiting:
            self._wait_for(there[each.name])
        self._failed = {name: there[name] for name in self._failed if name in there}

    def begin(self, eager_bytes: int) -> Restored:
        """Restore modules, definitions, and values up to so many bytes; the rest waits."""
        started = time.monotonic()
        self._restore_paths()
        for entry in self._manifest.entries:
            self._sort(entry)
        self._import()
        waiting = self._waiting
        values = waiting.files(definition=False)
        # Where one is missing, its builtin would be used, without an error.
        hiding = [f for f in values if any(hasattr(builtins, e.name) for e in waiting.of(f))]
        sizes = {file: waiting.size(file) for file in values if file not in hiding}
        now, later = plan.eager(sizes, eager_bytes)
        self.restore([*waiting.files(definition=True), *hiding, *now])
        self.result.later = [each.name for file in later for each in waiting.of(file)]
        there = {*self.result.restored, *self.result.later}
        self.result.differing = [
            each for each in self._manifest.entries if each.differs and each.name in there
        ]
        self._restore_settings()
        self.result.seconds = time.monotonic() - started
        return self.result

    def pick(self, names: Collection[str]) -> list[str]:
        """Of a generation that has not begun: restore these names, with the definitions that they
        need, and nothing else; which of them are there now."""
        for entry in self._manifest.entries:
            if entry.saved and (entry.name in names or entry.kind == DEFINITION):
                self._sort(entry)
        self._import()
        return self.restore_names(names)

    def restore_names(self, names: Iterable[str]) -> list[str]:
        """Restore these names now, with those in the same files, also what could not be restored
        before; which of them are there now."""
        wanted = list(names)
        self.forget_assigned()
        self._wait_again({self._place(self._failed[n]) for n in wanted if n in self._failed})
        self.restore(self._waiting.files_of(wanted))
        return [name for name in wanted if self._has(name)]

    def forget_assigned(self) -> None:
        """A name that the user has assigned meanwhile is the user's."""
        self.result.yours += self._waiting.remove_names(self._has)

    def drop(self, name: str) -> None:
        """Never restore this name."""
        self._waiting.remove_names(name.__eq__)
        self._failed.pop(name, None)

    # --- what there is to restore ---

    def _has(self, name: str) -> bool:
        """Whether the user has a variable of this name."""
        there = self._namespace
        return name in there and not naming.is_of_shell(name, there[name], self._hidden)

    def _sort(self, entry: Entry) -> None:
        if not entry.saved:
            self.result.lost.append(entry)
        elif self._has(entry.name):
            self.result.yours.append(entry.name)
        elif entry.kind == MODULE:
            self._modules.append(entry)
        else:
            self._wait_for(entry)

    def _wait_for(self, entry: Entry) -> None:
        self._waiting.add(entry, self._place(entry))

    def _place(self, entry: Entry) -> str:
        """The file that a value is restored from; of a module, what is imported."""
        if entry.kind == MODULE:
            return entry.target
        file = entry.file if entry.file and not self._by_source(entry) else entry.source
        return file or entry.file

    def _wait_again(self, places: Collection[str]) -> None:
        if not places:
            return
        for each in list(self._failed.values()):
            if self._place(each) in places:
                del self._failed[each.name]
                self._sort(each)
        for place in places:
            self._crashes.allow(place)
            self._imports.refused.pop(place, None)
        self._import()

    def _by_source(self, entry: Entry) -> bool:
        return entry.kind == DEFINITION and bool(entry.source) and not self._same_python(entry)

    def _same_python(self, entry: Entry) -> bool:
        return entry.python == python_version()

    def _restore_paths(self) -> None:
        """Modules are found where they were, and relative paths mean what they meant."""
        search_path.restore(self._manifest.search_path)
        with contextlib.suppress(OSError, ValueError):
            if self._manifest.directory:
                os.chdir(self._manifest.directory)

    def _restore_settings(self) -> None:
        """Those of the process, unless it had variables: then it has settings of its own."""
        self.result.unkept += self._manifest.unkept
        if not self._manifest.settings or self.result.yours:
            return
        path = self._folder / self._manifest.settings
        found = attempt(lambda: self._load_file(path, bytecode=False)[0], LOAD_SECONDS)
        if not isinstance(found, Failure):
            self.result.unkept += settings.apply(naming.shell(), found)

    def _import(self) -> None:
        """The modules, and the libraries of what waits: once here, instead of in each trial."""
        entries, self._modules = self._modules, []
        waiting = self._waiting.all
        libraries = sorted({name for each in waiting for name in each.libraries} - {"__main__"})
        modules = [name for each in entries for name in (each.target, *each.submodules)]
        names = dict.fromkeys([*modules, *libraries])
        self._imports.prepare(names, in_doubt=imports.is_changed([*entries, *waiting]))
        with self._crashes:
            for entry in entries:
                self._import_module(entry)
            for name in libraries:
                self._imports.library(name)

    def _import_module(self, entry: Entry) -> None:
        if why := self._why_not_imported(entry.target):
            self._lose([entry], *why)
        else:
            self._namespace[entry.name] = sys.modules[entry.target]
            self.result.restored.append(entry.name)
            self._import_submodules(entry)

    def _why_not_imported(self, name: str) -> Failure | None:
        """Import a module; why that failed."""
        if name in self._imports.refused:
            return self._imports.refused[name]
        try:
            self._imports.module(name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a module raises
            return why_not_imported(error)
        return None

    def _import_submodules(self, entry: Entry) -> None:
        """Those that importing the package did not bring; the first that fails is reported."""
        missing = [name for name in entry.submodules if name not in sys.modules]
        failures = list(filter(None, map(self._why_not_imported, missing)))
        if failures:
            self._lose([entry], *failures[0])

    # --- restoring ---

    def restore(self, files: Sequence[str]) -> None:
        """Restore these files, with a trial of those that need one."""
        files = [file for file in files if file in self._waiting]
        unsafe = trials.failures(files, self._waiting, self._crashes, self._try, self._limit)
        for file, why in list(unsafe):
            self._lose(self._waiting.remove(file), *why)
        with self._crashes:
            for place, file in enumerate(files):
                self._restore_file(file)
                self._report(
                    {
                        "kind": "progress",
                        "done": place + 1,
                        "of": len(files),
                        "variables": self._variables,
                        "size_bytes": self._bytes,
                    }
                )

    def _try(self, file: str) -> None:
        """In a child: an error is no reason to give up, because it will be the same here."""
        self._is_trial = True
        with contextlib.suppress(BaseException):
            self._load(file, self._waiting.of(file))

    def _host_bytes(self, file: str) -> int:
        """That loading it takes of the host's memory: a tensor crosses it in pieces to its GPU."""
        entries = self._waiting.of(file)
        on_gpu = sum(each.size_bytes for each in entries if each.gpu)
        return self._waiting.size(file) - (on_gpu if on_gpu and _is_gpu_here() else 0)

    def _limit(self, file: str) -> float:
        return LOAD_SECONDS + self._waiting.size(file) / BYTES_PER_SECOND

    def _restore_file(self, file: str) -> None:
        entries = self._waiting.of(file)
        if not entries or file in self._under_way:
            return
        self._under_way.add(file)
        try:
            if self._host_bytes(file) > memory().available:
                raise MemoryError
            with self._crashes.noting(file), muted("stdout"):
                values, moved = limited(lambda: self._load(file, entries), self._limit(file))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a value's own code raises
            self._waiting.remove(file)
            self._lose(entries, *why_not_restored(error))
            return
        finally:
            self._under_way.discard(file)
        self._waiting.remove(file)
        for each in entries:
            if self._has(each.name):  # assigned by what was loaded
                continue
            if each.name not in values:
                self._lose([each], "damaged", "its file does not have it")
                continue
            self._set(each, values[each.name])
            if moved:
                self.result.moved.append(each.name)

    def _load(self, file: str, entries: Sequence[Entry]) -> tuple[dict[str, Any], set[str]]:
        """The values of a file."""
        owned.check(self._folder)
        with self._imports.refusing():
            if file.endswith(".py"):
                text = source.read(self._folder / file)
                made = source.run(text, self._namespace, self._restore_needed)
                return {entries[0].name: made}, set()
            bytecode = all(map(self._same_python, entries))
            return self._load_file(self._folder / file, bytecode=bytecode)

    def _load_file(self, path: Path, *, bytecode: bool) -> tuple[dict[str, Any], set[str]]:
        return unpickling.load(
            path,
            namespace=self._namespace,
            definition=self._definition,
            bytecode=bytecode,
            may_use_gpu=not self._is_trial,
        )

    def _definition(self, name: str) -> Any:
        """The function or class of a name, which another value needs now."""
        if not self._has(name):
            self._restore_needed({name})
        if name not in self._namespace:
            raise Unavailable(name)
        return self._namespace[name]

    def _restore_needed(self, names: set[str]) -> None:
        for name in sorted(names):
            file = self._waiting.file_of(name)
            entries = self._waiting.of(file)
            if not entries or file in self._under_way or self._has(name):
                continue
            self._under_way.add(file)
            try:
                values, _ = self._load(file, entries)
            finally:
                self._under_way.discard(file)
            self._waiting.remove(file)
            for each in entries:
                if each.name in values and not self._has(each.name):
                    self._set(each, values[each.name])

    def _set(self, entry: Entry, value: Any) -> None:
        self._namespace[entry.name] = value
        if self._is_trial:
            return
        self.result.restored.append(entry.name)
        self._variables += 1
        self._bytes += entry.size_bytes
        self._remember_source(entry)

    def _remember_source(self, entry: Entry) -> None:
        if entry.kind != DEFINITION or not entry.source:
            return
        with contextlib.suppress(Exception):
            text = source.read(self._folder / entry.source)
            source.remember_for(self._namespace[entry.name], text)

    def _lose(self, entries: Iterable[Entry], code: str, detail: str = "") -> None:
        for each in entries:
            self._failed[each.name] = each
            lost = replace(each, saved=False, code=code, detail=detail, earlier=0.0)
            self.result.lost.append(lost)


def _is_gpu_here() -> bool:
    """For tensors; their library is imported before they are restored."""
    cuda = sys.modules.get("torch.cuda")
    return cuda is not None and bool(cuda.is_available())
