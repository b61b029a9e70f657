"""Random programs in forked children of one warm process: each is run, sleeps and wakes."""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import tempfile
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ec2spawner.sleep.saving import save_namespace
from ec2spawner.sleep.storage import manifest as manifests
from ec2spawner.sleep.waking.restoring import Restoring
from tests.unit.sleep.random_programs import Program, described


class Ran(NamedTuple):
    """What became of one program."""

    seed: int
    wrong: dict[str, str]
    """Variables that are another after the wake, and of which that was not said."""
    names: int
    equal: int
    """Of the names, those that came back as they were."""
    proved: int


def run(seed: int) -> Ran:
    """Run a program, save its variables, and restore them in another process."""
    program = Program(seed)
    folder = Path(tempfile.mkdtemp(prefix="program-", dir=_memory()))
    try:
        before = _in_child(lambda: _save(program, folder / "generation"))
        after = _in_child(lambda: _wake(folder / "generation", program.names))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    said, proved = {*before["said"]}, {*before["proved"]}
    wrong = {}
    for key, was in before["described"].items():
        if after["described"].get(key) != was and said.isdisjoint(key.split()):
            wrong[key] = f"{was}\n  -> {after['described'].get(key)}"
    wrong |= {name: f"lost: {why}" for name, why in after["lost"].items() if name not in said}
    equal = [n for n in program.names if after["described"][n] == before["described"][n]]
    return Ran(seed, wrong, len(program.names), len(equal), len(proved))


def _memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _main() -> dict[str, Any]:
    """A notebook's namespace."""
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    return vars(module)


def _save(program: Program, folder: Path) -> dict[str, Any]:
    namespace = _main()
    for cell in program.cells:
        try:
            exec(compile(cell, "<cell>", "exec"), namespace)
        except (NameError, TypeError) as error:  # what is named was deleted, or cannot be done
            print(f"seed {program.seed}: {error!r} in {cell}", file=sys.stderr)
    gc.collect()  # what only a weak reference has is gone at any moment
    found = described(namespace, program.names)
    manifest = save_namespace(namespace, folder, seconds=30, max_bytes=1 << 30, hidden={})
    entries = {each.name: each for each in manifest.entries}
    return {
        "described": found,
        "said": [n for n, each in entries.items() if each.differs or not each.saved],
        "proved": [n for n in program.names if n in entries and entries[n].proved],
    }


def _wake(folder: Path, names: list[str]) -> dict[str, Any]:
    namespace = _main()
    result = Restoring(namespace, folder, manifests.read(folder)).begin(1 << 40)
    lost = {each.name: f"{each.code} {each.detail}" for each in result.lost}
    return {"described": described(namespace, names), "lost": lost}


def _in_child(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            try:
                answer: Any = work()
            except BaseException:
                answer = {"error": traceback.format_exc()}
            with os.fdopen(writing, "w") as pipe:
                json.dump(answer, pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = json.load(pipe)
    os.waitpid(child, 0)
    if "error" in answer:
        raise AssertionError(answer["error"])
    found: dict[str, Any] = answer
    return found


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:3])
    import attrs  # noqa: F401
    import dill  # noqa: F401
    import numpy  # noqa: F401
    import pandas  # type: ignore[import-untyped] # noqa: F401

    total, equal, proved, bad = 0, 0, 0, 0
    for seed in range(first, last):
        try:
            ran = run(seed)
        except AssertionError as error:
            print(seed, "ERROR", str(error)[-600:], flush=True)
            continue
        total, equal, proved = total + ran.names, equal + ran.equal, proved + ran.proved
        bad += bool(ran.wrong)
        for name, what in ran.wrong.items():
            print(seed, name, what, flush=True)
    print(
        f"{last - first} programs, {total} variables: {equal} equal, {proved} proved; {bad} wrong"
    )
