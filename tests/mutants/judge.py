"""Try mutants, one after the other, in the copy of the tree that is the current directory.

A test that fails with a mutant has to pass without it before it counts; one that starts processes
has to fail twice, too. Each verdict is kept at once in `verdicts.json` of the tree: a run may be
interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Final

from tests.deflake import ORDER_VARIABLE
from tests.mutants.contexts import CONTEXTS, MARKS, RESULTS
from tests.mutants.places import Mutant, Place
from tests.mutants.sample import PACKAGES, located, read
from tests.run import run_pytest
from tests.tiers import RUN_AGAIN, TREE, kind_of

VERDICTS: Final = "tests/mutants/verdicts.json"

KILLED: Final = "killed"
SURVIVED: Final = "survived"
TIMEOUT: Final = "timeout"
"""No test has failed, but some have not run."""
NOT_EXECUTED: Final = "not executed"

MAX_SECONDS: Final = 180.0
"""For all tests of one mutant, without the runs that confirm a failure."""
CONFIRMING_SECONDS: Final = 120.0
HANGS: Final = 60
"""Seconds after which a test has failed. One that is only slow fails without the mutant, too."""

STAGES: Final = (("pure", "virtual"), ("local",), ("process",), ("browser",))
FIRST: Final = 6
"""Files of a stage that run before the others are even imported."""

NO_TESTS: Final = 5
"""pytest's exit status if all tests are deselected."""
CANNOT_BEGIN: Final = frozenset({3, 4})
"""Its exit statuses if it has failed itself, such as when a conftest cannot be imported."""


@dataclass
class Verdict:
    """What became of a mutant."""

    verdict: str
    by: str = ""
    """The test that failed."""
    files: int = 0
    """Test files that execute it."""
    seconds: float = 0.0
    unreliable: list[str] = field(default_factory=list)
    """Tests that failed, but also did so without the mutant, or not always with it."""


@dataclass(frozen=True)
class _Ended:
    """How a run of pytest ended."""

    failed: str = ""
    """The first test that failed, or the file that could not be imported."""
    is_complete: bool = True


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0 once all chosen mutants are decided, 2 if nothing is known of their tests."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants run")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--packages", default=",".join(PACKAGES), metavar="CORE,HUB")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of this sitting")
    parser.add_argument(
        "--again", nargs="*", metavar="ID", help="decide these again; without any, all not killed"
    )
    parser.add_argument("--workers", type=int, default=0, help="processes that run tests")
    options = parser.parse_args(arguments)
    os.environ[ORDER_VARIABLE] = ""  # test files run in the order of the arguments
    contexts = _read(options.tree / RESULTS / CONTEXTS)
    if not contexts:
        print("First find out which tests execute each mutant: make mutants ARGS=contexts")
        return 2
    until = time.monotonic() + 60 * options.minutes
    sample = read()
    places, vanished = located(sample)
    for mutant in vanished:
        print(f"No longer in the source: {mutant.file}, {mutant.function}: {mutant.before}")
    for key, place in places.items():
        known = _read(options.tree / VERDICTS)
        is_wanted = place.mutant.package in options.packages.split(",")
        if not is_wanted or not _is_open(key, known, options.again):
            continue
        if time.monotonic() > until:
            return 1
        print(f"\n=== {key} {describe(place.mutant)}\n", flush=True)
        try:
            verdict = judge(place, nearest_first(contexts.get(key, ()), place), options.workers)
        except KeyboardInterrupt:
            print("\nInterrupted: this mutant is not decided.")
            return 1
        print(f"\n=== {key} {verdict.verdict} {verdict.by}", flush=True)
        known[key] = asdict(verdict)
        # Without those of mutants that the sample had before.
        _write(options.tree / VERDICTS, {each: known[each] for each in places if each in known})
    return 1 if vanished else 0


def describe(mutant: Mutant) -> str:
    """What a mutant changes, for people."""
    return f"{mutant.file} {mutant.function}: {mutant.before} -> {mutant.after}"


def nearest_first(tests: Iterable[str], place: Place) -> list[str]:
    """Those test files that are still there; first those in folders named as the mutant's are, and
    of these the unit tests."""
    folders = {*Path(place.mutant.file).parts, "unit"}
    there = (each for each in tests if (TREE / each).exists())
    return sorted(there, key=lambda each: (-len(folders & {*Path(each).parts}), each))


def judge(place: Place, tests: Sequence[str], workers: int = 0) -> Verdict:
    """Run the tests with the mutant, those of each stage after those of the stage before."""
    if not tests:
        return Verdict(NOT_EXECUTED)
    trial = _Trial(place, workers)
    verdict = Verdict(SURVIVED, files=len(tests))
    batches = list(_batches(tests))
    while batches:
        left = MAX_SECONDS - verdict.seconds
        if left < 1:
            verdict.verdict = TIMEOUT
            break
        began = time.monotonic()
        with trial.applied():
            ended = trial.run(batches[0], left, verdict.unreliable)
        verdict.seconds = round(verdict.seconds + time.monotonic() - began, 1)
        if ended.failed:
            if trial.confirms(ended.failed):
                verdict.verdict, verdict.by = KILLED, ended.failed
                break
            verdict.unreliable.append(ended.failed)
            continue
        if not ended.is_complete:
            verdict.verdict = TIMEOUT
            break
        del batches[0]
    return verdict


def _batches(tests: Sequence[str]) -> Iterator[Sequence[str]]:
    for kinds in STAGES:
        stage = [each for each in tests if kind_of(each) in kinds]
        yield from filter(None, (stage[:FIRST], stage[FIRST:]))


@dataclass(frozen=True)
class _Trial:
    place: Place
    workers: int

    @property
    def file(self) -> Path:
        return TREE / self.place.mutant.file

    @contextmanager
    def applied(self) -> Iterator[None]:
        original = self.file.read_bytes()
        _write_source(self.file, self.place.applied_to(original))
        try:
            yield
        finally:
            _write_source(self.file, original)

    def confirms(self, test: str) -> bool:
        """Whether a failure is the mutant's."""
        if kind_of(test.partition("::")[0]) in RUN_AGAIN:
            with self.applied():
                again = self.run([test], CONFIRMING_SECONDS)
            if not again.failed and again.is_complete:
                return False
        without = self.run([test], CONFIRMING_SECONDS)
        return not without.failed and (without.is_complete or "::" not in test)

    def run(self, tests: Sequence[str], seconds: float, without: Sequence[str] = ()) -> _Ended:
        """Run tests until the first one fails."""
        options = ["-n", str(self.workers), "--dist", "loadfile", "--no-loadscope-reorder"]
        options += ["-x", "-q", "-m", MARKS, "-p", "no:cacheprovider", f"--timeout={HANGS}"]
        options += [f"--deselect={each}" for each in without]
        began = time.monotonic()
        status, outcomes = run_pytest([*options, *tests], seconds)
        if outcomes and outcomes.failed:
            return _Ended(next(iter(outcomes.failed)))
        if outcomes and outcomes.incomplete.endswith("cannot be collected"):
            return _Ended(outcomes.incomplete.split()[0])
        if status in {0, NO_TESTS}:
            return _Ended()
        if status in CANNOT_BEGIN:
            return _Ended(tests[0])
        if time.monotonic() - began < seconds:
            raise KeyboardInterrupt
        return _Ended(is_complete=False)


def _write_source(file: Path, text: bytes) -> None:
    """Replace a module: its bytecode would be taken for current within the same second."""
    file.write_bytes(text)
    Path(cache_from_source(str(file))).unlink(missing_ok=True)


def _is_open(key: str, known: Mapping[str, Any], again: Sequence[str] | None) -> bool:
    if key not in known or again is None:
        return key not in known
    return key in again if again else known[key]["verdict"] != KILLED


def _read(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _write(file: Path, known: Mapping[str, Any]) -> None:
    """Replace the file; a line for each mutant."""
    lines = [f"{json.dumps(key)}: {json.dumps(known[key])}" for key in sorted(known)]
    written = file.with_suffix(".new")
    written.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    written.replace(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
