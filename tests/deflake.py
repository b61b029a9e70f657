"""`python -m tests.deflake --runs N [ARGUMENT…]`: run the same tests until one fails.

Each run has another order, another hash seed and another seed of virtual time, and shares the
machine with a process that keeps a core busy. The first failure ends it, with the command that
repeats that run. After an interruption it continues: `tests/output/deflake.json` has what passed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

STATE: Final = Path(__file__).resolve().parent / "output" / "deflake.json"

ORDER_VARIABLE: Final = "EC2SPAWNER_TEST_ORDER"
"""The seed of the order of files, and of the tests in each."""

BUSY: Final = "while True: pass"


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0 once all runs have passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.deflake")
    parser.add_argument("--runs", type=int, default=5, metavar="N")
    parser.add_argument("--afresh", action="store_true", help="forget which runs have passed")
    options, given = parser.parse_known_args(arguments)
    passed = 0 if options.afresh else _passed(given)
    for seed in range(passed + 1, options.runs + 1):
        print(f"\n=== {seed} of {options.runs}", flush=True)
        seeds = {name: str(seed) for name in ("PYTHONHASHSEED", "EC2SPAWNER_SEED", ORDER_VARIABLE)}
        command = [sys.executable, "-m", "pytest", "-p", "tests.deflake", *given]
        with _busy_core():
            status = subprocess.run(command, env=os.environ | seeds, check=False).returncode
        if status:
            variables = " ".join(f"{name}={value}" for name, value in seeds.items())
            print(f"\nFailed. To repeat: {variables} {shlex.join(['python', *command[1:]])}")
            return status
        STATE.parent.mkdir(parents=True, exist_ok=True)
        STATE.write_text(json.dumps({"arguments": given, "passed": seed}), encoding="utf-8")
    print(f"\nAll {options.runs} runs passed.")
    return 0


def _passed(arguments: Sequence[str]) -> int:
    """How many runs with these arguments have passed."""
    try:
        state = json.loads(STATE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
    return int(state["passed"]) if state["arguments"] == list(arguments) else 0


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
