"""A copy of the tree, with an environment of its own, in which mutants are tried.

Each program that a test starts has to import the copy, whatever environment variables it was given:
the agents of embedded instances get none of the test's. So the copy has a `.venv` of hard links,
whose scripts and editable install name the copy.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.tiers import TREE

COPY: Final = TREE / ".venv" / "mutants"

VENV_PARTS: Final = (
    "bin",
    "etc",
    "include",
    "lib",
    "lib64",
    "node",
    "pyvenv.cfg",
    "scheduler",
    "share",
)
BUILT: Final = ("ec2spawner/labextension", "labextension/node_modules")
"""What git ignores and tests read."""


LOCK: Final = TREE / ".venv" / "mutants.lock"


def refresh() -> None:
    """Bring the copy to the state of the tree, changes that are not committed included.

    Until this process ends, no other can do so.
    """
    _lock()
    if not (COPY / ".git").exists():
        shutil.rmtree(COPY, ignore_errors=True)
        _git(TREE, "clone", "--quiet", "--shared", str(TREE), str(COPY))
    _git(COPY, "fetch", "--quiet", "origin", "HEAD")
    _git(COPY, "reset", "--quiet", "--hard", "FETCH_HEAD")
    _git(COPY, "clean", "--quiet", "-d", "--force")
    changed = _git(TREE, "diff", "HEAD", "--name-only", "--no-renames", "-z")
    new = _git(TREE, "ls-files", "--others", "--exclude-standard", "-z")
    for name in filter(None, f"{changed}{new}".split("\0")):
        (COPY / name).parent.mkdir(parents=True, exist_ok=True)
        if (TREE / name).exists():
            shutil.copy2(TREE / name, COPY / name)
        else:
            (COPY / name).unlink(missing_ok=True)
    _link_installed()


def run_in_copy(module: str, *arguments: str) -> None:
    """Replace this process by `python -m module` of the copy."""
    binaries = COPY / ".venv/bin"
    environment = os.environ | {
        "PATH": f"{binaries}:{COPY / '.venv/node/node_modules/.bin'}:{os.environ['PATH']}",
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        "VIRTUAL_ENV": str(COPY / ".venv"),
    }
    for name in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        environment.pop(name, None)
    os.chdir(COPY)
    sys.stdout.flush()
    os.execve(binaries / "python", ["python", "-m", module, *arguments], environment)


def _lock() -> None:
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"Another run uses {COPY}")
    os.set_inheritable(descriptor, True)  # it stays open in `run_in_copy`


def _link_installed() -> None:
    """Link the environment and what was built, unless they are the tree's of today."""
    original, copied = TREE / ".venv", COPY / ".venv"
    made = copied / ".made"
    installed = max(each.stat().st_mtime for each in (original / ".done").iterdir())
    if made.exists() and made.stat().st_mtime > installed:
        return
    for name in (".venv", *BUILT):
        shutil.rmtree(COPY / name, ignore_errors=True)
    for name in (*(f".venv/{part}" for part in VENV_PARTS), *BUILT):
        _link(TREE / name, COPY / name)
    [packages] = copied.glob("lib/python*/site-packages")
    # Only these name the tree: other packages are as their registry has them.
    own = (*copied.glob("bin/*"), *copied.glob("share/**/*.json"), *packages.glob("*ec2spawner*"))
    files = {each for path in own for each in (path.rglob("*") if path.is_dir() else [path])}
    for file in files:
        _rename_tree_in(file)
    made.touch()


def _rename_tree_in(file: Path) -> None:
    if file.is_symlink() or not file.is_file():
        return
    text, name = file.read_bytes(), os.fsencode(TREE)
    if name in text and b"\0" not in text:
        mode = file.stat().st_mode
        file.unlink()  # it is a link to the tree's
        file.write_bytes(text.replace(name, os.fsencode(COPY)))
        file.chmod(mode)


def _link(source: Path, target: Path) -> None:
    """Make hard links of all files at or below a path."""
    if source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--archive", "--link", source, target], check=True)


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()
