"""A notebook's process: IPython in a process of its own, with the magics of sleep."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]

PROGRAM = """
import contextlib, io, json, sys, types
sys.path = [each for each in sys.path if each]
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(user_module=types.ModuleType("__main__"))
shell.run_line_magic("load_ext", "ec2spawner.sleep")
for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        done = shell.run_cell(json.loads(line), store_history=True)
    error = done.error_before_exec or done.error_in_exec
    answer = {"said": said.getvalue(), "error": "" if error is None else repr(error)}
    sys.__stdout__.write(json.dumps(answer) + "\\n")
    sys.__stdout__.flush()
"""


class Notebook:
    """Runs cells, one after the other; `home` is where its variables are saved."""

    def __init__(
        self,
        home: Path,
        *,
        python: str = sys.executable,
        path: str = "work.ipynb",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        given = {
            **{name: value for name, value in os.environ.items() if "EC2SPAWNER" not in name},
            "HOME": str(home),
            "IPYTHONDIR": str(home / ".ipython"),
            "JPY_SESSION_NAME": str(home / path),
            "PYTHONPATH": str(ROOT),
            **(environment or {}),
        }
        self.process = subprocess.Popen(
            [python, "-c", PROGRAM],
            env=given,
            cwd=home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def __enter__(self) -> Notebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def run(self, cell: str) -> dict[str, str]:
        """What the cell said, and its error."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(cell) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        return json.loads(line)

    def say(self, cell: str) -> str:
        """What the cell said; it must not fail."""
        done = self.run(cell)
        assert not done["error"], done
        return done["said"].strip()

    def save(self, folder: Path, seconds: float = 30, max_bytes: int = 1 << 30) -> dict[str, Any]:
        """Save a generation to this folder; its manifest."""
        self.say(
            "import ec2spawner.sleep as _sleep\n"
            f"_sleep.save({str(folder)!r}, seconds={seconds}, max_bytes={max_bytes})"
        )
        return manifest(folder)

    def restore(self, folder: Path, eager_bytes: int = 1 << 30) -> dict[str, Any]:
        """Restore a generation; the result."""
        said = self.say(
            "from ec2spawner.sleep import kernel as _kernel\n"
            "import json as _json, pathlib as _pathlib\n"
            f"_found = _kernel.current().restore(_pathlib.Path({str(folder)!r}), "
            f"eager_bytes={eager_bytes}, progress=lambda _: None)\n"
            "print(_json.dumps(_found.message()))"
        )
        return json.loads(said.splitlines()[-1])

    def wait_until(self, condition: str, seconds: float = 20) -> None:
        """Run cells until this is true."""
        until = time.monotonic() + seconds
        while self.say(f"print({condition})") != "True":
            assert time.monotonic() < until, condition
            with contextlib.suppress(InterruptedError):
                time.sleep(0.05)


def manifest(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_text())


def entries(folder: Path) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in manifest(folder)["entries"]}


def sleep_and_wake(home: Path, cells: Sequence[str], **about: Any) -> Notebook:
    """A second notebook with the variables of a first one, which ran these cells."""
    folder = home / "generation"
    with Notebook(home, **about) as first:
        for cell in cells:
            first.say(cell)
        first.save(folder)
    second = Notebook(home, **about)
    second.restore(folder)
    return second
