"""`python -m tests.run [ARGUMENT…]`: pytest, which never hides a test that failed by chance.

Failed files of processes and browsers run once more, alone, after all others. If all their tests
pass then, so does the run, and it says so in its last lines and in `tests/output/flaky.json`:
each such test is a defect whose cause is to be found. Nothing else runs again: neither what is pure
or in virtual time, which fails again, nor a test of an invariant, nor a run that did not complete.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests import tiers

FLAKY: Final = tiers.TREE / "tests" / "output" / "flaky.json"

OUTCOMES_VARIABLE: Final = "EC2SPAWNER_TEST_OUTCOMES"
"""Names the file into which pytest writes an `Outcomes`, see `tests/conftest.py`."""

MAX_FILES: Final = 2
"""If more files failed, the change is at fault, not the machine."""

MAX_SECONDS: Final = 150.0
"""For all files that run once more."""

END_SECONDS: Final = 30.0
"""For pytest to end after that, and what its tests have started."""

TESTS_FAILED: Final = 1
"""pytest's exit status if tests ran and some failed."""


@dataclass
class Outcomes:
    """What became of the tests of one run."""

    passed: list[str] = field(default_factory=list)
    failed: dict[str, float] = field(default_factory=dict)
    """Seconds that each took, by its id."""
    incomplete: str = ""
    """Why tests were not even tried: a file that cannot be imported, or an early end. Such a run
    has failed, whatever pytest's status."""

    def __post_init__(self) -> None:
        self.passed = [each for each in self.passed if each not in self.failed]


def main(arguments: Sequence[str]) -> int:
    """The exit status of the run."""
    FLAKY.parent.mkdir(parents=True, exist_ok=True)
    _write([])
    status, first = run_pytest(arguments)
    if first is None or (first.incomplete and not status):
        print(f"\nThe run is incomplete: {first.incomplete if first else 'pytest ended early'}")
        return status or TESTS_FAILED
    if status != TESTS_FAILED:
        return status
    files = sorted({_file_of(each) for each in first.failed})
    if reason := first.incomplete or why_not_again(files):
        print(f"\nNo file runs once more: {reason}", flush=True)
        return status
    print(f"\nOnce more, alone: {' '.join(files)}", flush=True)
    began = time.monotonic()
    again, second = run_pytest(["-n", "0", "-m", _marks(arguments), *files], MAX_SECONDS)
    if again or second is None or not first.failed.keys() <= set(second.passed):
        return status
    seconds = round(time.monotonic() - began, 1)
    _write([_entry(test, took, seconds) for test, took in first.failed.items()])
    print(f"\n{'*' * 80}\n** FLAKY: failed, and passed when their files ran once more, alone:")
    for test, took in first.failed.items():
        print(f"**   {test} ({took:.1f} s)")
    print(f"** Each is a defect: find its cause. See {FLAKY.relative_to(tiers.TREE)}.\n{'*' * 80}")
    return 0


def why_not_again(files: Sequence[str]) -> str:
    """Why a run with these failed files has failed for good; empty if it has not."""
    if not files:
        return "no test has failed, the run itself has"
    if len(files) > MAX_FILES:
        return f"tests of {len(files)} files failed, which is more than {MAX_FILES}"
    refused = [each for each in files if not tiers.may_run_again(each)]
    if refused:
        return f"{refused[0]} waits for no process, or holds an invariant"
    return ""


def run_pytest(
    arguments: Sequence[str], timeout: float | None = None
) -> tuple[int, Outcomes | None]:
    """Exit status and outcomes of pytest; no outcomes if it ended before it could write them.

    Ctrl-C, SIGTERM and `timeout`, in seconds, interrupt pytest, which ends what its tests have
    started.
    """
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder) / "outcomes.json"
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *arguments],
            env=os.environ | {OUTCOMES_VARIABLE: str(outcomes)},
        )
        before = signal.signal(signal.SIGTERM, lambda *_: process.send_signal(signal.SIGINT))
        try:
            status = _wait(process, timeout)
        finally:
            signal.signal(signal.SIGTERM, before)
        if not outcomes.exists():
            return status, None
        said: Mapping[str, Any] = json.loads(outcomes.read_text(encoding="utf-8"))
        return status, Outcomes(**said)


def _wait(process: subprocess.Popen[bytes], timeout: float | None) -> int:
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        try:
            return process.wait(None if deadline is None else deadline - time.monotonic())
        except KeyboardInterrupt:
            continue  # the terminal sent it to pytest, too
        except subprocess.TimeoutExpired:
            print(f"\nStopped after {timeout:g} s", flush=True)
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                return process.wait(END_SECONDS) or TESTS_FAILED
            process.kill()
            return process.wait()


def _marks(arguments: Sequence[str]) -> str:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-m", default="")
    marks: str = parser.parse_known_args(arguments)[0].m
    return marks


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _entry(test: str, seconds: float, again_seconds: float) -> dict[str, Any]:
    seeds = {"hash_seed": "PYTHONHASHSEED", "seed": "EC2SPAWNER_SEED"}
    return {
        "test": test,
        "seconds": seconds,
        "files_again_seconds": again_seconds,
        **{name: os.environ.get(variable, "") for name, variable in seeds.items()},
    }


def _write(entries: Sequence[dict[str, Any]]) -> None:
    FLAKY.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
