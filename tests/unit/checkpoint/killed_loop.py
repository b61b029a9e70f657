"""A program for tests: runs a loop again and again, each time killed at one file operation.

`python killed_loop.py FOLDER STEPS SEQUENCES`: SEQUENCES is a JSON list of lists; each number kills
one run with SIGKILL at that file operation, and a last run of each sequence is not killed. Prints
JSON: for each sequence and run, the steps that were done, in order, and at its end the state.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ec2spawner.checkpoint import resumable

EVENTS = {"open", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.listdir", "shutil.rmtree"}


def run(folder: Path, steps: int, kill_at: int | None, log: Path) -> None:
    seen = 0

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in EVENTS and str(folder) in str(arguments[0]):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)
    state: list[int] = []

    def save(path: Path) -> None:
        path.mkdir()
        for place, value in enumerate(state):
            (path / str(place)).write_text(str(value))

    def load(path: Path) -> None:
        files = sorted(path.iterdir(), key=lambda each: int(each.name))
        state[:] = [int(each.read_text()) for each in files]

    for step in resumable(range(steps), save=save, load=load, every=0, to=folder, quiet=True):
        state.append(step * step)
        with log.open("a") as out:
            out.write(f"{step}\n")
    with log.open("a") as out:
        out.write(f"{json.dumps(state)}\n")


def runs(folder: Path, steps: int, kills: list[int]) -> list[list[str]]:
    found = []
    log = folder / "log"
    for kill_at in [*kills, None]:
        child = os.fork()
        if child == 0:
            try:
                run(folder / "place", steps, kill_at, log)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        found.append(log.read_text().splitlines() if log.exists() else [])
        log.unlink(missing_ok=True)
    return found


def main() -> None:
    found = []
    for number, kills in enumerate(json.loads(sys.argv[3])):
        folder = Path(sys.argv[1]) / str(number)
        folder.mkdir()
        found.append(runs(folder, int(sys.argv[2]), kills))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
