"""Restoring a generation into a namespace: modules, definitions, small values; large ones later.

What may run code of the notebook's own, and what other versions of libraries saved, is loaded in a
child first: a trial that exits, crashes or hangs costs a message, not the kernel.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import importlib
import os
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from . import children, owned, plan, search_path
from . import manifest as manifests
from .failure import described
from .manifest import DEFINITION, MODULE, Entry, Manifest, python_version
from .saving import CarriedOver, Report
from .time_limit import Late, limited
from .values import source, unpickling
from .values.archive import Damaged

IMPORT_SECONDS: Final = 120.0
"""Of a module: `import torch` reads a gigabyte, from a new volume slowly."""
LOAD_SECONDS: Final = 10.0
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
                {"name": each.name, "type": each.type, "code": code}
                for each in self.differing
                for code in each.differs
            ],
            "lost": [manifests.lost(each) for each in self.lost],
            "seconds": round(self.seconds, 2),
        }


class _Unavailable(Exception):
    """A definition that a value needs could not be restored: its name."""


class Restoring:
    """One generation, and what of it is not restored yet."""

    def __init__(
        self,
        namespace: dict[str, Any],
        folder: Path,
        manifest: Manifest,
        report: Report = lambda _: None,
    ) -> None:
        self._namespace = namespace
        self._folder = folder
        self._manifest = manifest
        self._report = report
        self.result = Restored()
        self._files: dict[str, list[Entry]] = {}
        """What is to be restored, by file; a definition without bytecode by its source's."""
        self._by_name: dict[str, str] = {}
        self._failed: dict[str, Entry] = {}
        self._under_way: set[str] = set()
        self._is_trial = False
        self._imported = 0

    @property
    def pending(self) -> dict[str, int]:
        """The names that are not restored yet, with their size in bytes."""
        return {each.name: each.size_bytes for each in self._entries()}

    def carried_over(self) -> list[CarriedOver]:
        """What the next sleep keeps as it is: what waits, and what could not be restored here."""
        files = [each for each in self._failed.values() if each.file or each.source]
        return [CarriedOver(each, self._folder) for each in [*self._entries(), *files]]

    @property
    def folder(self) -> Path:
        """The generation."""
        return self._folder

    def move_to(self, folder: Path, saved: Iterable[Entry]) -> None:
        """Read from this generation from now on, if it has all that this one is needed for."""
        there = {each.name: each for each in saved if each.saved}
        if not all(each.entry.name in there for each in self.carried_over()):
            return
        waiting = self._entries()
        self._folder = folder
        self._files, self._by_name = {}, {}
        for each in waiting:
            self._wait_for(there[each.name])
        self._failed = {name: there[name] for name in self._failed if name in there}

    def begin(self, eager_bytes: int) -> Restored:
        """Restore modules, definitions, and values up to so many bytes; the rest waits."""
        started = time.monotonic()
        self._restore_paths()
        for entry in self._manifest.entries:
            self._sort(entry)
        self._import_libraries()
        definitions = self._of_kind(definition=True)
        values = self._of_kind(definition=False)
        # Where one is missing, its builtin would be used, without an error.
        hiding = [f for f in values if any(hasattr(builtins, e.name) for e in self._files[f])]
        sizes = {f: sum(e.size_bytes for e in self._files[f]) for f in values if f not in hiding}
        now, later = plan.eager(sizes, eager_bytes)
        self.restore([*definitions, *hiding, *now])
        self.result.later = [e.name for file in later for e in self._files.get(file, ())]
        there = {*self.result.restored, *self.result.later}
        self.result.differing = [
            each for each in self._manifest.entries if each.differs and each.name in there
        ]
        self.result.seconds = time.monotonic() - started
        return self.result

    def pick(self, names: Collection[str]) -> list[str]:
        """Of a generation that has not begun: restore these names, with the definitions that they
        need, and nothing else; which of them are there now."""
        for entry in self._manifest.entries:
            if entry.saved and (entry.name in names or entry.kind == DEFINITION):
                self._sort(entry)
        self._import_libraries()
        return self.restore_names(names)

    def restore_names(self, names: Iterable[str]) -> list[str]:
        """Restore these names now, with those in the same files; which of them are there now."""
        wanted = list(names)
        self.forget_assigned()
        self.restore(list(dict.fromkeys(self._by_name[n] for n in wanted if n in self._by_name)))
        return [name for name in wanted if name in self._namespace]

    def forget_assigned(self) -> None:
        """A name that the user has assigned meanwhile is the user's."""
        for file, entries in list(self._files.items()):
            mine = [each for each in entries if each.name in self._namespace]
            for each in mine:
                self.result.yours.append(each.name)
                self._by_name.pop(each.name, None)
            left = [each for each in entries if each not in mine]
            if left:
                self._files[file] = left
            else:
                del self._files[file]

    def drop(self, name: str) -> None:
        """Never restore this name."""
        file = self._by_name.pop(name, "")
        left = [each for each in self._files.pop(file, []) if each.name != name]
        if left:
            self._files[file] = left
        self._failed.pop(name, None)

    # --- what there is to restore ---

    def _entries(self) -> list[Entry]:
        return [each for entries in self._files.values() for each in entries]

    def _sort(self, entry: Entry) -> None:
        if not entry.saved:
            self.result.lost.append(entry)
        elif entry.name in self._namespace:
            self.result.yours.append(entry.name)
        elif entry.kind == MODULE:
            self._import(entry)
        else:
            self._wait_for(entry)

    def _wait_for(self, entry: Entry) -> None:
        file = entry.file if entry.file and not self._by_source(entry) else entry.source
        self._files.setdefault(file or entry.file, []).append(entry)
        self._by_name[entry.name] = file or entry.file

    def _of_kind(self, *, definition: bool) -> list[str]:
        return [
            file
            for file, entries in self._files.items()
            if all(each.kind == DEFINITION for each in entries) is definition
        ]

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

    def _import(self, entry: Entry) -> None:
        try:
            module = limited(lambda: importlib.import_module(entry.target), IMPORT_SECONDS)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a module raises
            self._lose([entry], "import-failed", described(error))
            return
        self._namespace[entry.name] = module
        self.result.restored.append(entry.name)
        self._imported += 1

    def _import_libraries(self) -> None:
        """Once here, instead of in each trial."""
        needed = {name for each in self._entries() for name in each.libraries}
        for name in sorted(needed - set(sys.modules) - {"__main__"}):
            try:
                limited(functools.partial(importlib.import_module, name), IMPORT_SECONDS)
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: S112 - what needs it says so
                continue

    # --- restoring ---

    def restore(self, files: Sequence[str]) -> None:
        """Restore these files, with a trial of those that need one."""
        files = [file for file in files if file in self._files]
        for file in self._not_safe(files):
            self._files.pop(file, None)
        for place, file in enumerate(files):
            self._restore_file(file)
            variables = len(self.result.restored) - self._imported
            self._report(
                {
                    "kind": "progress",
                    "done": place + 1,
                    "of": len(files),
                    "variables": variables,
                }
            )

    def _not_safe(self, files: Sequence[str]) -> list[str]:
        """The files that failed in their trial, reported."""
        unsafe = [file for file in files if not self._is_safe(self._files[file])]
        affordable = [f for f in unsafe if self._size(f) <= _available_bytes() // 2]
        failed = []
        for file in unsafe:
            entries = self._files[file]
            if file not in affordable and not self._same_libraries(entries):
                why = "saved by other versions of its libraries, and too large to try first"
                failed.append((file, "library-version", why))
        for file, result in children.run(
            affordable, self._try, self._limit, lambda file: 2 * self._size(file)
        ):
            if isinstance(result, children.Hung):
                failed.append((file, "timed-out", ""))
            elif isinstance(result, children.Died):
                failed.append((file, "crashed", str(result)))
        for file, code, detail in failed:
            self._lose(self._files[file], code, detail)
        return [file for file, _, _ in failed]

    def _try(self, file: str) -> None:
        """In a child: an error is no reason to give up, because it will be the same here."""
        self._is_trial = True
        with contextlib.suppress(BaseException):
            self._load(file, list(self._files[file]))

    def _is_safe(self, entries: Sequence[Entry]) -> bool:
        return all(each.plain for each in entries) and self._same_libraries(entries)

    def _same_libraries(self, entries: Sequence[Entry]) -> bool:
        for each in entries:
            for name, version in each.libraries.items():
                if getattr(sys.modules.get(name), "__version__", None) != version:
                    return False
        return True

    def _size(self, file: str) -> int:
        return sum(each.size_bytes for each in self._files.get(file, ()))

    def _limit(self, file: str) -> float:
        return LOAD_SECONDS + self._size(file) / BYTES_PER_SECOND

    def _restore_file(self, file: str) -> None:
        entries = self._files.get(file)
        if entries is None or file in self._under_way:
            return
        self._under_way.add(file)
        try:
            with contextlib.redirect_stdout(None):
                values, moved = limited(lambda: self._load(file, entries), self._limit(file))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a value's own code raises
            self._files.pop(file, None)
            self._lose(entries, *_failure(error))
            return
        finally:
            self._under_way.discard(file)
        self._files.pop(file, None)
        for each in entries:
            self._by_name.pop(each.name, None)
            if each.name in self._namespace:  # assigned by what was loaded
                continue
            if each.name not in values:
                self._lose([each], "damaged", "its file does not have it")
                continue
            self._namespace[each.name] = values[each.name]
            self.result.restored.append(each.name)
            self._remember_source(each)
            if moved:
                self.result.moved.append(each.name)

    def _load(self, file: str, entries: Sequence[Entry]) -> tuple[dict[str, Any], set[str]]:
        """The values of a file."""
        owned.check(self._folder)
        if file.endswith(".py"):
            text = source.read(self._folder / file)
            made = source.run(text, self._namespace, self._restore_needed)
            return {entries[0].name: made}, set()
        return unpickling.load(
            self._folder / file,
            namespace=self._namespace,
            definition=self._definition,
            bytecode=all(map(self._same_python, entries)),
            may_use_gpu=not self._is_trial,
        )

    def _definition(self, name: str) -> Any:
        """The function or class of a name, which another value needs now."""
        if name not in self._namespace and name in self._by_name:
            file = self._by_name[name]
            entries = self._files.get(file, [])
            if file not in self._under_way and entries:
                self._restore_needed({name})
        if name not in self._namespace:
            raise _Unavailable(name)
        return self._namespace[name]

    def _restore_needed(self, names: set[str]) -> None:
        for name in sorted(names):
            file = self._by_name.get(name, "")
            entries = self._files.get(file)
            if entries is None or file in self._under_way or name in self._namespace:
                continue
            self._under_way.add(file)
            try:
                values, _ = self._load(file, entries)
            finally:
                self._under_way.discard(file)
            for each in entries:
                if each.name in values and each.name not in self._namespace:
                    self._namespace[each.name] = values[each.name]
                    if not self._is_trial:
                        self.result.restored.append(each.name)
                        self._remember_source(each)
                self._by_name.pop(each.name, None)
            self._files.pop(file, None)

    def _remember_source(self, entry: Entry) -> None:
        if entry.kind != DEFINITION or not entry.source:
            return
        with contextlib.suppress(Exception):
            text = source.read(self._folder / entry.source)
            source.remember_for(self._namespace[entry.name], text)

    def _lose(self, entries: Iterable[Entry], code: str, detail: str = "") -> None:
        for each in entries:
            self._by_name.pop(each.name, None)
            self._failed[each.name] = each
            lost = replace(each, saved=False, code=code, detail=detail, earlier=0.0)
            self.result.lost.append(lost)


def _failure(error: BaseException) -> tuple[str, str]:
    if isinstance(error, Late):
        return "timed-out", ""
    if isinstance(error, unpickling.OtherPython):
        return "python-version", "it has bytecode of another version of Python"
    if isinstance(error, _Unavailable):
        return "needs", f"{error} could not be restored"
    if isinstance(error, (Damaged, owned.NotOurs, source.NoSource)):
        return "damaged", str(error)
    if isinstance(error, FileNotFoundError):
        return "damaged", "its file is missing"
    if isinstance(error, ImportError):
        return "import-failed", described(error)
    if isinstance(error, MemoryError):
        return "memory", ""
    return "failed", described(error)


def _available_bytes() -> int:
    """Memory that could be used without swapping; much if it is not known."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return 1 << 40
