"""`python -m tests.deflake --runs N [ARGUMENT…]`: run the same tests until one fails.

Each run has another order, another hash seed and another seed of virtual time, and shares the
machine with a process that keeps a core busy; `--first SEED` is where the seeds begin. The first
failure ends it, with the command that repeats that run. After an interruption it continues with the
run that was under way, as long as the code is the same: `tests/output/deflake.json` has what
passed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

from tests.run import run_pytest

ROOT: Final = Path(__file__).resolve().parents[1]
STATE: Final = ROOT / "tests" / "output" / "deflake.json"

ORDER_VARIABLE: Final = "EC2SPAWNER_TEST_ORDER"
"""The seed of the order of files, and of the tests in each."""

BUSY: Final = "while True: pass"


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 once all runs have passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.deflake")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="of the first run")
    options, given = parser.parse_known_args(arguments)
    subject = {"arguments": given, "first": options.first, "code": _code()}
    for number in range(_passed(subject), options.runs):
        seed = options.first + number
        print(f"\n=== {number + 1} of {options.runs}, seed {seed}", flush=True)
        seeds = {name: str(seed) for name in ("PYTHONHASHSEED", "EC2SPAWNER_SEED", ORDER_VARIABLE)}
        os.environ.update(seeds)
        arguments = ["-p", "tests.deflake", *given]
        with _busy_core():
            status, _ = run_pytest(arguments)
        if status:
            variables = " ".join(f"{name}={value}" for name, value in seeds.items())
            print(f"\nFailed. To repeat: {variables} python -m pytest {shlex.join(arguments)}")
            return status
        STATE.parent.mkdir(parents=True, exist_ok=True)
        STATE.write_text(json.dumps({"subject": subject, "passed": number + 1}), encoding="utf-8")
    STATE.unlink(missing_ok=True)
    print(f"\nAll {options.runs} runs passed.")
    return 0


def _code() -> str:
    """A digest of the commit, of what differs from it, and of what git does not know yet."""
    said = [_git("rev-parse", "HEAD"), _git("diff", "HEAD")]
    new = _git("ls-files", "--others", "--exclude-standard", "-z").decode()
    said += [(ROOT / name).read_bytes() for name in filter(None, new.split("\0"))]
    return hashlib.sha256(b"".join(said)).hexdigest()


def _git(*command: str) -> bytes:
    return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, check=True).stdout


def _passed(subject: Mapping[str, object]) -> int:
    """How many runs of the same tests of the same code have passed."""
    try:
        state = json.loads(STATE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    return int(state["passed"]) if state["subject"] == subject else 0


@contextmanager
def _busy_core() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as busy:
        try:
            yield
        finally:
            busy.kill()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Shuffle the files, and the tests of each: those of a file share fixtures."""
    drawn = random.Random(os.environ[ORDER_VARIABLE])
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    drawn.shuffle(files)
    for tests in files:
        drawn.shuffle(tests)
    items[:] = [item for tests in files for item in tests]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
