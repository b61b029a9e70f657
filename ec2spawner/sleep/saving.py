"""Saving a namespace: a survey, a plan, and one file after the other until the deadline."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from . import naming, plan, search_path
from .bounds import children, recursion
from .bounds.muted import muted
from .bounds.time_limit import is_possible, limited
from .failure import NO_SPACE, Failure, NotRestorable, attempt, failure_of
from .plan import Group
from .storage import earlier, owned
from .storage import manifest as manifests
from .storage.earlier import Earlier
from .storage.files import Files
from .storage.manifest import DEFINITION, MODULE, NOT_SHARED, Entry, Journal, Manifest
from .survey.grouping import grouping
from .survey.walk import entry_of, survey
from .values import pickling, source, unpickling

SURVEY_SHARE: Final = 0.15
"""Of the time: the search for shared objects ends then."""
MANIFEST_SECONDS: Final = 1.0
"""Left for the manifest, or a tenth of the time where that is less."""
VERIFIED_BYTES: Final = 4 << 20
"""Up to this size, what a child saved is loaded there once: what cannot be, is not saved."""
NEEDS_DILL: Final = (pickle.PicklingError, TypeError, AttributeError, NotImplementedError)
DETAIL_SECONDS: Final = 1.0
"""For the type of one variable, or the source of a definition, which may be on a slow disk."""

EMPTY: Final[Mapping[str, Earlier]] = {}

Report = Callable[[dict[str, Any]], None]


class CarriedOver(NamedTuple):
    """A variable that was not restored since the last wake: its file is still there."""

    entry: Entry
    folder: Path


def save_namespace(
    namespace: dict[str, Any],
    folder: Path,
    *,
    seconds: float,
    max_bytes: int,
    hidden: Mapping[str, Any],
    kept: Sequence[str] = (),
    forgotten: Sequence[str] = (),
    carried_over: Sequence[CarriedOver] = (),
    known: Mapping[str, Earlier] = EMPTY,
    absent: Collection[str] = (),
    report: Report = lambda _: None,
) -> Manifest:
    """Save what the user has made, in a new generation. Raises OSError, `owned.NotOurs`.

    `known`: the values that earlier generations have; `absent`: those of them to be kept although
    the namespace does not have their names.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    owned.check(folder)
    carried = [each for each in carried_over if each.entry.name not in forgotten]
    mine = naming.of_user(namespace, hidden)
    entries = {
        name: replace(_entry(name, namespace), earlier=_saved_at(known.get(name)))
        for name in mine
        if name not in forgotten
    }
    there = {*mine, *forgotten, *(each.entry.name for each in carried)}
    entries |= {each.name: each for each in earlier.absent(known, {*absent} - there)}
    saving = _Saving(namespace, folder, seconds, max_bytes, entries, kept, forgotten, report)
    return saving.run(carried, known)


class _Saving:
    def __init__(
        self,
        namespace: dict[str, Any],
        folder: Path,
        seconds: float,
        max_bytes: int,
        entries: Mapping[str, Entry],
        kept: Sequence[str],
        forgotten: Sequence[str],
        report: Report,
    ) -> None:
        self._started = time.monotonic()
        self._deadline = self._started + seconds - min(MANIFEST_SECONDS, seconds / 10)
        self._namespace = namespace
        self._folder = folder
        self._files = Files(folder, max_bytes)
        self._names = [e.name for e in entries.values() if e.code != earlier.NOT_RESTORED]
        """Those that the namespace had; a thread may remove one meanwhile."""
        self._kept = kept
        self._report = report
        self._seconds = seconds
        self._entries = dict(entries)
        self._sizes: dict[str, int] = {}
        """As estimated in memory."""
        self._manifest = Manifest(
            tuple(self._entries.values()),
            saved_at=time.time(),
            kept=tuple(kept),
            forgotten=tuple(forgotten),
            search_path=search_path.added(),
            directory=_directory(),
        )
        self._journal = Journal(folder, self._manifest)
        self._surveyed = survey({}, (), 0)
        self._apart: list[tuple[str, ...]] = []
        """The names of the groups that could not be saved as one."""

    def run(self, carried_over: Iterable[CarriedOver], known: Mapping[str, Earlier]) -> Manifest:
        """Save everything, and write the manifest."""
        try:
            # First: if this save is cut off, its manifest has to have what only links to before.
            mine = {*self._names}
            for each in carried_over:
                if each.entry.name not in mine:
                    self._carry_over(each, _saved_at(known.get(each.entry.name)))
            self._save(plan.order(self._groups()))
            return self._complete()
        finally:
            self._journal.close()

    def _forget_what_nobody_sees(self) -> None:
        """A name has no copy if nothing that it shared with was saved."""
        for names in self._apart:
            saved = [name for name in names if self._entries[name].saved]
            if len(saved) == 1:
                entry = self._entries[saved[0]]
                differs = tuple(each for each in entry.differs if each != NOT_SHARED)
                self._entries[entry.name] = replace(entry, differs=differs)

    def _complete(self) -> Manifest:
        """Write the manifest; on a full disk, without the largest file."""
        self._forget_what_nobody_sees()
        while True:
            done = replace(
                self._manifest,
                entries=tuple(self._entries.values()),
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
                        self._entries[each.name] = lost
            else:
                return done

    def _groups(self) -> list[Group]:
        """What is saved together; what cannot be is noted."""
        mine = [self._entries[name] for name in self._names]
        self._note([each for each in mine if each.kind == MODULE or each.code])
        names = [each.name for each in mine if each.kind != MODULE and not each.code]
        surveyed = survey(self._namespace, names, self._seconds * SURVEY_SHARE)
        self._surveyed = surveyed
        groups, entries = grouping(
            self._entries,
            surveyed.found,
            surveyed.shared,
            kept=self._kept,
            can_be_limited=is_possible(),
        )
        self._entries |= entries
        self._sizes = {name: each.size_bytes for name, each in entries.items()}
        self._note([each for each in entries.values() if each.code])
        return groups

    # --- saving ---

    def _save(self, groups: list[Group]) -> None:
        waiting = list(groups)
        while waiting:
            first = waiting[0]
            together = [first]
            for each in waiting[1:]:
                if each.in_child != first.in_child:
                    break
                together.append(each)
            del waiting[: len(together)]
            again = self._in_children(together, len(waiting)) if first.in_child else []
            if not first.in_child:
                again = [more for each in together for more in self._here(each)]
            waiting = again + waiting

    def _here(self, group: Group) -> list[Group]:
        """Save in this process; what to try again in another way."""
        number, started = self._files.new_number(), time.monotonic()
        remaining = self._deadline - started
        runs_code = group.runs_code
        limit = plan.limit_seconds(group, remaining, 0) if runs_code else remaining
        try:
            # Not within the limit, which ends code wherever it is.
            with muted("stdout"), muted("stderr"), recursion.bounded():
                size = limited(lambda: self._write(group, number, fast_only=not runs_code), limit)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever a value's own code raises
            self._files.remove(number)
            if not runs_code and issubclass(type(error), NEEDS_DILL):
                return [self._as_code(group)]
            failure = failure_of(error)
            if failure.code == "deadline" and time.monotonic() < self._deadline:
                failure = Failure("timed-out")
            return self._failed(group, failure)
        self._saved(group, number, size, time.monotonic() - started)
        return []

    def _as_code(self, group: Group) -> Group:
        """The group, which only dill can save."""
        for name in group.names:
            self._entries[name] = replace(self._entries[name], plain=False)
        return replace(group, runs_code=True, plain=False, in_child=not group.in_process)

    def _in_children(self, groups: Sequence[Group], waiting: int) -> list[Group]:
        """Save in children; what to try again in another way."""
        numbers = {group: self._files.new_number() for group in groups}
        after = {group: waiting + len(groups) - n - 1 for n, group in enumerate(groups)}
        again: list[Group] = []
        started = time.monotonic()

        def limit(group: Group) -> float:
            nonlocal started
            started = time.monotonic()
            return plan.limit_seconds(group, self._deadline - started, after[group])

        results = children.run(
            groups,
            lambda group: self._work_in_child(group, numbers[group]),
            limit,
            lambda group: 2 * group.size_bytes,
        )
        for group, result in results:
            failure = None
            if isinstance(result, children.Hung):
                late = time.monotonic() >= self._deadline
                failure = Failure("deadline" if late else "timed-out")
            elif isinstance(result, children.Died):
                failure = Failure("crashed", str(result))
            elif isinstance(result, list):
                failure = Failure(*result)
            if failure is None:
                self._saved(group, numbers[group], result, time.monotonic() - started)
            else:
                self._files.remove(numbers[group])
                again += self._failed(group, failure)
        return again

    def _work_in_child(self, group: Group, number: int) -> Any:
        """The size of the file, or a failure."""
        try:
            with recursion.bounded():
                size = self._write(group, number, fast_only=False)
            if size <= VERIFIED_BYTES:
                self._verify(group, number)
            self._files.used += size  # as the parent will know
            return size
        except BaseException as error:
            return list(failure_of(error))

    def _verify(self, group: Group, number: int) -> None:
        # Without the names that the file itself is to bring.
        others = {n: v for n, v in self._namespace.items() if n not in group.names}
        try:
            unpickling.load(
                self._files.path(number),
                namespace=self._namespace,
                definition=others.__getitem__,
                bytecode=True,
                may_use_gpu=False,
            )
        except BaseException as error:
            failure = failure_of(error)
            raise NotRestorable(failure.detail or failure.code) from None

    def _write(self, group: Group, number: int, *, fast_only: bool) -> int:
        return pickling.save(
            {name: self._namespace[name] for name in group.names},
            self._files.path(number),
            known=self._surveyed.definitions,
            whole=self._surveyed.whole,
            free=self._files.free,
            fast_only=fast_only,
        )

    # --- what became of it ---

    def _saved(self, group: Group, number: int, size: int, seconds: float) -> None:
        self._files.used += size
        whole = sum(self._sizes[name] for name in group.names) or 1
        left = size
        done = []
        for place, name in enumerate(group.names):
            share = size * self._sizes[name] // whole
            share = left if place == len(group.names) - 1 else share
            left -= share
            entry = replace(
                self._entries[name],
                saved=True,
                size_bytes=share,
                seconds=seconds,
                file=f"{number}.sleep",
                source=self._source(name) if self._entries[name].kind == DEFINITION else "",
            )
            done.append(entry)
        self._note(done)

    def _failed(self, group: Group, failure: Failure) -> list[Group]:
        """Note it; or what is left to try: the names of a group one by one."""
        if len(group.names) > 1 and failure.code != "deadline":
            shared = [n for n in group.names if NOT_SHARED not in self._entries[n].differs]
            self._apart.append(tuple(shared))
            for name in shared:
                differs = tuple(sorted((*self._entries[name].differs, NOT_SHARED)))
                self._entries[name] = replace(self._entries[name], differs=differs)
            return [
                replace(
                    group,
                    names=(name,),
                    size_bytes=self._sizes[name],
                    in_child=group.in_child or failure.code not in ("no-space", "not-storable"),
                )
                for name in group.names
            ]
        entries = []
        for name in group.names:
            entry = replace(self._entries[name], code=failure.code, detail=failure.detail)
            text = self._source(name) if entry.kind == DEFINITION else ""
            if text and failure.code != "deadline":
                why = "from its source"
                entry = replace(entry, saved=True, code="", detail=why, source=text, size_bytes=0)
            entries.append(entry)
        self._note(entries)
        return []

    def _source(self, name: str) -> str:
        """Write a definition's source beside its bytecode; the name of the file."""
        limit = min(DETAIL_SECONDS, self._deadline - time.monotonic())
        text = attempt(lambda: source.of(self._namespace[name]), limit)
        return "" if isinstance(text, Failure) else self._files.write_source(text)

    def _carry_over(self, each: CarriedOver, saved_at: float) -> None:
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
        self._note([entry])

    def _note(self, entries: list[Entry]) -> None:
        self._entries |= {each.name: each for each in entries}
        with contextlib.suppress(OSError):  # a full disk: the manifest may still find room
            self._journal.note(entries)
        done = [each for each in self._entries.values() if each.saved or each.code]
        self._report(
            {
                "kind": "progress",
                "name": entries[-1].name if entries else "",
                "done": len(done),
                "of": len(self._entries),
                "size_bytes": self._files.used,
                "seconds": round(time.monotonic() - self._started, 2),
            }
        )


def _entry(name: str, namespace: Mapping[str, Any]) -> Entry:
    """A thread may have removed the name meanwhile."""
    found = attempt(lambda: entry_of(name, namespace[name]), DETAIL_SECONDS)
    if isinstance(found, Failure):
        return Entry(name, code=found.code, detail=found.detail)
    return found


def _saved_at(known: Earlier | None) -> float:
    return known.saved_at if known else 0.0


def _directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""
