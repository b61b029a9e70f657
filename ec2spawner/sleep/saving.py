"""Saving a namespace: a survey, a plan, and one file after the other until the deadline."""

from __future__ import annotations

import pickle
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from . import naming, plan, search_path, settings
from .bounds import children, recursion
from .bounds.muted import muted
from .bounds.time_limit import is_possible, limited
from .failure import Failure, attempt, failure_of
from .outcome import CarriedOver, Outcome, Report
from .plan import Group
from .proving.proof import Proofs
from .storage import earlier, owned
from .storage.earlier import Earlier
from .storage.files import Files
from .storage.manifest import DEFINITION, MODULE, Entry, Manifest
from .survey.grouping import grouping
from .survey.walk import entry_of, survey
from .values import pickling, source

SURVEY_SHARE: Final = 0.15
"""Of the time: the search for shared objects ends then."""
MANIFEST_SECONDS: Final = 1.0
"""Left for the manifest, or a tenth of the time where that is less."""
PROOF_SECONDS: Final = 0.5
PROOF_SHARE: Final = 0.3
"""Of the time that saving took, or `PROOF_SECONDS` where that is more: proving it may take as much,
within the time that there is."""
NEEDS_DILL: Final = (pickle.PicklingError, TypeError, AttributeError, NotImplementedError)
DETAIL_SECONDS: Final = 1.0
"""For the type of one variable, or the source of a definition, which may be on a slow disk."""

EMPTY: Final[Mapping[str, Earlier]] = {}


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
        self._seconds = seconds
        manifest = Manifest(
            tuple(entries.values()),
            saved_at=time.time(),
            kept=tuple(kept),
            forgotten=tuple(forgotten),
            search_path=search_path.added(),
            directory=_directory(),
        )
        self._outcome = Outcome(folder, self._files, manifest, report)
        self._entries = self._outcome.entries
        self._surveyed = survey({}, (), 0)

    def run(self, carried_over: Iterable[CarriedOver], known: Mapping[str, Earlier]) -> Manifest:
        """Save everything, and write the manifest."""
        try:
            # First: if this save is cut off, its manifest has to have what only links to before.
            mine = {*self._names}
            for each in carried_over:
                if each.entry.name not in mine:
                    self._outcome.carry_over(each, _saved_at(known.get(each.entry.name)))
            self._save(plan.order(self._groups()))
            self._save(self._outcome.take_cycles())
            self._save_settings()
            self._prove()
            return self._outcome.complete()
        finally:
            self._outcome.close()

    def _groups(self) -> list[Group]:
        """What is saved together; what cannot be is noted."""
        mine = [self._entries[name] for name in self._names]
        self._outcome.note([each for each in mine if each.kind == MODULE or each.code])
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
        self._outcome.begin(entries)
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
                written = limited(
                    lambda: self._write(group, number, fast_only=not runs_code), limit
                )
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
        self._saved(group, number, written, time.monotonic() - started)
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
            elif "failure" in result:
                failure = Failure(*result["failure"])
            if failure is None:
                written = pickling.Written(*result["written"])
                self._saved(group, numbers[group], written, time.monotonic() - started)
            else:
                self._files.remove(numbers[group])
                again += self._failed(group, failure)
        return again

    def _work_in_child(self, group: Group, number: int) -> Any:
        """The file, or a failure, as JSON has it."""
        try:
            with recursion.bounded():
                written = self._write(group, number, fast_only=False)
            self._files.used += written.size_bytes  # as the parent will know
            return {"written": written}
        except BaseException as error:
            return {"failure": failure_of(error)}

    def _write(self, group: Group, number: int, *, fast_only: bool) -> pickling.Written:
        return pickling.save(
            {name: self._namespace[name] for name in group.names},
            self._files.path(number),
            known=self._surveyed.definitions,
            whole=self._surveyed.whole,
            free=self._files.free,
            fast_only=fast_only,
        )

    def _save_settings(self) -> None:
        """Those of the process. Without them, the variables are saved regardless."""
        shell = naming.shell()
        limit = min(DETAIL_SECONDS, self._deadline - time.monotonic())
        unkept = attempt(lambda: settings.unkept(shell, self._namespace), limit)
        number = self._files.new_number()
        known = pickling.Definitions(self._namespace)

        def write() -> pickling.Written:
            found = settings.read(shell)
            path, free = self._files.path(number), self._files.free
            return pickling.save(found, path, known=known, whole=(), free=free, fast_only=True)

        written = attempt(write, limit)
        if isinstance(written, Failure):
            self._files.remove(number)
        self._outcome.describe_process(
            "" if isinstance(written, Failure) else self._files.path(number).name,
            [] if isinstance(unkept, Failure) else unkept,
        )

    # --- proving ---

    def _prove(self) -> None:
        """Load what was saved, as long as there is time: what cannot be loaded is saved in another
        way, or not at all."""
        now = time.monotonic()
        share = max(PROOF_SECONDS, PROOF_SHARE * (now - self._started))
        until = min(self._deadline, now + share)
        proofs = Proofs(self._namespace, self._outcome, until, self._deadline)
        while failures := proofs.run():
            again: list[Group] = []
            for group, failure in failures:
                self._outcome.discard(group)
                again += self._failed(group, failure)
            self._save(again)

    # --- what became of it ---

    def _saved(self, group: Group, number: int, written: pickling.Written, seconds: float) -> None:
        sources = {
            name: self._source(name)
            for name in group.names
            if self._entries[name].kind == DEFINITION
        }
        self._outcome.saved(group, number, written, seconds, sources)

    def _failed(self, group: Group, failure: Failure) -> list[Group]:
        """Note it; or what is left to try: the names of a group one by one."""
        if len(group.names) > 1 and failure.code != "deadline":
            self._outcome.part(group.names)
            return [
                replace(
                    group,
                    names=(name,),
                    size_bytes=self._outcome.sizes[name],
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
        self._outcome.note(entries)
        return []

    def _source(self, name: str) -> str:
        """Write a definition's source beside its bytecode; the name of the file."""
        limit = min(DETAIL_SECONDS, self._deadline - time.monotonic())
        text = attempt(lambda: source.of(self._namespace[name]), limit)
        return "" if isinstance(text, Failure) else self._files.write_source(text)


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
