"""`python -m tests.run [ARGUMENT…]`: pytest, which never hides a test that failed by chance.

Failed files of processes and browsers run once more, alone, after all others. If they pass, so does
the run, and it says so in its last lines and in `tests/output/flaky.json`: each such test is a
defect whose cause is to be found. Nothing else runs again: neither what is pure or in virtual time,
which fails again, nor a test of an invariant.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from tests import tiers

OUTPUT: Final = tiers.TREE / "tests" / "output"
FLAKY: Final = OUTPUT / "flaky.json"
FAILURES: Final = OUTPUT / "failures.json"

FAILURES_VARIABLE: Final = "EC2SPAWNER_TEST_FAILURES"
"""The file into which pytest writes what failed, see `tests/conftest.py`."""

MAX_FILES: Final = 2
"""More failed files than this are not chance."""

MAX_SECONDS: Final = 180.0
"""For all files that run once more."""

TESTS_FAILED: Final = 1
"""pytest's exit status if tests ran and some failed."""


@dataclass(frozen=True)
class Failure:
    """A test that failed: its id, and how long it took in seconds."""

    test: str
    seconds: float

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


def main(arguments: Sequence[str]) -> int:
    """The exit status of the run."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    _write([])
    FAILURES.unlink(missing_ok=True)
    environment = os.environ | {FAILURES_VARIABLE: str(FAILURES)}
    command = [sys.executable, "-m", "pytest", *arguments]
    status = subprocess.run(command, env=environment, check=False).returncode
    if status != TESTS_FAILED or not FAILURES.exists():
        return status
    failures = [Failure(**each) for each in json.loads(FAILURES.read_text())]
    files = sorted({each.file for each in failures})
    if reason := why_not_again(files):
        print(f"\nNothing runs once more: {reason}", flush=True)
        return status
    print(f"\nOnce more, alone: {' '.join(files)}", flush=True)
    began = time.monotonic()
    if again := _run_again(arguments, files):
        return again
    seconds = round(time.monotonic() - began, 1)
    _write([_entry(each, seconds) for each in failures])
    print(f"\n{'*' * 80}\n** FLAKY: these tests failed, and passed when their files ran once more:")
    for each in failures:
        print(f"**   {each.test} ({each.seconds:.1f} s)")
    print(f"** Each is a defect: find its cause. See {FLAKY.relative_to(tiers.TREE)}.\n{'*' * 80}")
    return 0


def why_not_again(files: Sequence[str]) -> str:
    """Why a run with these failed files has failed for good; empty if it has not."""
    if not files:
        return "no test has failed, the run itself has"
    if len(files) > MAX_FILES:
        return f"{len(files)} files failed, and more than {MAX_FILES} are not chance"
    refused = [each for each in files if not tiers.may_run_again(each)]
    if refused:
        return (
            f"{refused[0]} depends on nothing that a busy machine can delay, or is an invariant's"
        )
    return ""


def _run_again(arguments: Sequence[str], files: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-m", default="")
    marks = parser.parse_known_args(arguments)[0].m
    command = [sys.executable, "-m", "pytest", "-n", "0", "-m", marks, "--durations=10", *files]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            return process.wait(MAX_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"\nNot through after {MAX_SECONDS:g} s", flush=True)
            return TESTS_FAILED
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _entry(failure: Failure, again_seconds: float) -> dict[str, Any]:
    seeds = {"hash_seed": "PYTHONHASHSEED", "seed": "EC2SPAWNER_SEED"}
    return {
        **asdict(failure),
        "files_again_seconds": again_seconds,
        **{name: os.environ.get(variable, "") for name, variable in seeds.items()},
    }


def _write(entries: Sequence[dict[str, Any]]) -> None:
    FLAKY.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
