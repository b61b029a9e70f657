"""What became of each name of a save: in the journal as it happens, in the manifest at the end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from . import plan
from .failure import NO_SPACE, failure_of, shown
from .plan import Group
from .storage import manifest as manifests
from .storage.files import Files
from .storage.manifest import CHANGED, NOT_SHARED, Entry, Journal, Manifest
from .values.pickling import Written

Report = Callable[[dict[str, Any]], None]


class CarriedOver(NamedTuple):
    """A variable that was not restored since the last wake: its file is still there."""

    entry: Entry
    folder: Path


class _Archive(NamedTuple):
    number: int
    size_bytes: int
    needs: list[str]
    """The definitions that it refers to by name."""


class Outcome:
    """The entries of one generation."""

    def __init__(self, folder: Path, files: Files, manifest: Manifest, report: Report) -> None:
        """`manifest`: as if nothing was saved."""
        self._started = time.monotonic()
        self._folder = folder
        self._files = files
        self._manifest = manifest
        self._report = report
        self._journal = Journal(folder, manifest)
        self.entries = {each.name: each for each in manifest.entries}
        self.sizes: dict[str, int] = {}
        """By name, in bytes, as estimated in memory."""
        self._written: dict[Group, _Archive] = {}
        """The groups that are saved."""
        self._apart: list[tuple[str, ...]] = []
        """The names of the groups that could not be saved as one."""

    def begin(self, entries: Mapping[str, Entry]) -> None:
        """What the survey knows of them."""
        self.entries |= entries
        self.sizes = {name: each.size_bytes for name, each in entries.items()}
        self.note([each for each in entries.values() if each.code])

    def note(self, entries: list[Entry]) -> None:
        """These are saved, or have a reason why not."""
        self.entries |= {each.name: each for each in entries}
        with contextlib.suppress(OSError):  # a full disk: the manifest may still find room
            self._journal.note(entries)
        done = [each for each in self.entries.values() if each.saved or each.code]
        self._report(
            {
                "kind": "progress",
                "name": entries[-1].name if entries else "",
                "done": len(done),
                "of": len(self.entries),
                "size_bytes": self._files.used,
                "seconds": round(time.monotonic() - self._started, 2),
            }
        )

    def saved(
        self,
        group: Group,
        number: int,
        written: Written,
        seconds: float,
        sources: Mapping[str, str],
    ) -> None:
        """A group is in the file of this number; `sources`: files by the names of definitions."""
        self._files.used += written.size_bytes
        self._written[group] = _Archive(number, *written)
        whole = sum(self.sizes[name] for name in group.names) or 1
        left = written.size_bytes
        done = []
        for place, name in enumerate(group.names):
            share = written.size_bytes * self.sizes[name] // whole
            share = left if place == len(group.names) - 1 else share
            left -= share
            entry = replace(
                self.entries[name],
                saved=True,
                size_bytes=share,
                seconds=seconds,
                file=f"{number}.sleep",
                source=sources.get(name, ""),
            )
            done.append(entry)
        self.note(done)

    def carry_over(self, each: CarriedOver, saved_at: float) -> None:
        """What was never restored stays as it is, by a link."""
        entry = each.entry
        try:
            names = {f: self._files.link(each.folder, f) for f in (entry.file, entry.source) if f}
            self._files.used += entry.size_bytes
            entry = replace(
                entry,
                file=names.get(entry.file, ""),
                source=names.get(entry.source, ""),
                saved=True,
            )
        except OSError as error:
            failure = failure_of(error)
            entry = replace(entry, saved=False, code=failure.code, detail=failure.detail)
            entry = replace(entry, file="", source="", earlier=saved_at)
        self.note([entry])

    def part(self, names: Iterable[str]) -> None:
        """These could not be saved as one, and are saved one by one."""
        shared = [name for name in names if NOT_SHARED not in self.entries[name].differs]
        self._apart.append(tuple(shared))
        for name in shared:
            differs = tuple(sorted((*self.entries[name].differs, NOT_SHARED)))
            self.entries[name] = replace(self.entries[name], differs=differs)

    def discard(self, group: Group) -> None:
        """Remove the file of a group, which is saved in another way, or not at all."""
        archive = self._written.pop(group)
        self._files.remove(archive.number)
        self._files.used -= archive.size_bytes
        for name in group.names:
            entry = self.entries[name]
            if entry.source:
                (self._folder / entry.source).unlink(missing_ok=True)
            self.entries[name] = replace(entry, saved=False, file="", source="")

    # --- what is known of the files ---

    @property
    def unproved(self) -> dict[Group, Path]:
        """Groups of which nothing is known but that they are saved, with their files: what others
        need first, then the smallest."""
        found = {
            group: archive
            for group, archive in self._written.items()
            if not any(self.entries[n].proved or self.entries[n].unproved for n in group.names)
        }
        order = sorted(found, key=lambda group: (not group.definition, found[group].size_bytes))
        return {group: self._files.path(found[group].number) for group in order}

    def size_bytes(self, group: Group) -> int:
        """Of the file of a group."""
        return self._written[group].size_bytes

    def prove(self, group: Group, differing: Mapping[str, str], opaque: Collection[str]) -> None:
        """A group was loaded: `differing`, in what a name came back as another one; `opaque`, the
        names of which that is not known in all."""
        for name in group.names:
            why = "not all of it can be compared" if name in opaque else ""
            self.entries[name] = replace(self.entries[name], proved=not why, unproved=why)
            if name in differing:
                self._change(name, differing[name])

    def leave_unproved(self, group: Group, why: str) -> None:
        """A group could not be loaded here, which says nothing of a wake."""
        for name in group.names:
            self.entries[name] = replace(self.entries[name], unproved=shown(why))

    # --- what needs each other ---

    def take_cycles(self) -> list[Group]:
        """Groups to save as one, because their definitions refer to each other: as two files,
        none could be restored before the other. What was saved of them is removed."""
        return [self._together(groups) for groups in plan.cycles(self._needed_groups())]

    def _needed_groups(self) -> dict[Group, set[Group]]:
        holders = {name: group for group in self._written for name in group.names}
        return {
            group: {holders[name] for name in archive.needs if name in holders}
            for group, archive in self._written.items()
        }

    def _together(self, groups: list[Group]) -> Group:
        for group in groups:
            self.discard(group)
        return plan.merged(groups)

    def _lose_what_needs_lost(self) -> None:
        """What refers to a class or function that is not saved would not come back."""
        while lost := {
            group: missing[0]
            for group, archive in self._written.items()
            if (missing := [name for name in archive.needs if not self.entries[name].saved])
        }:
            for group, definition in lost.items():
                del self._written[group]
                for name in group.names:
                    entry = self.entries[name]
                    why = f"{definition} is not saved"
                    if not entry.source:
                        entry = replace(entry, saved=False, file="", code="needs", detail=why)
                    self.entries[name] = entry

    def _spread_changes(self) -> None:
        """What refers to a class or function that comes back changed does so, too."""
        changed = {name for name, each in self.entries.items() if CHANGED in each.differs}
        while spread := {
            group: needed[0]
            for group, archive in self._written.items()
            if (needed := [name for name in archive.needs if name in changed])
            and not changed.issuperset(group.names)
        }:
            for group, definition in spread.items():
                for name in group.names:
                    if name not in changed:
                        self._change(name, f"{definition} does")
                changed.update(group.names)

    def _change(self, name: str, what: str) -> None:
        entry = self.entries[name]
        differs = tuple(sorted({*entry.differs, CHANGED}))
        self.entries[name] = replace(entry, differs=differs, detail=shown(what))

    # --- the end ---

    def complete(self) -> Manifest:
        """Write the manifest; on a full disk, without the largest file."""
        self._lose_what_needs_lost()
        self._spread_changes()
        self._forget_what_nobody_sees()
        while True:
            done = replace(
                self._manifest,
                entries=tuple(self.entries.values()),
                seconds=time.monotonic() - self._started,
            )
            try:
                manifests.write(self._folder, done)
            except OSError as error:
                written = [each for each in done.saved if each.file not in self._files.linked]
                largest = max(written, key=lambda each: each.size_bytes, default=None)
                if error.errno not in NO_SPACE or largest is None or not largest.file:
                    raise
                (self._folder / largest.file).unlink(missing_ok=True)
                for each in done.entries:
                    if each.file == largest.file:
                        lost = replace(each, saved=False, file="", code="no-space")
                        self.entries[each.name] = lost
                self._lose_what_needs_lost()
            else:
                return done

    def describe_process(self, settings: str, unkept: Sequence[str]) -> None:
        """`settings`: the file that has them; `unkept`: what of the process is not kept."""
        self._manifest = replace(self._manifest, settings=settings, unkept=tuple(unkept))

    def close(self) -> None:
        """The manifest has everything, or will never be written."""
        self._journal.close()

    def _forget_what_nobody_sees(self) -> None:
        """A name has no copy if nothing that it shared with was saved."""
        for names in self._apart:
            saved = [name for name in names if self.entries[name].saved]
            if len(saved) == 1:
                entry = self.entries[saved[0]]
                differs = tuple(each for each in entry.differs if each != NOT_SHARED)
                self.entries[entry.name] = replace(entry, differs=differs)
