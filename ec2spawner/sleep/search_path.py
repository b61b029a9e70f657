"""What a session has added to `sys.path`. What its environment has by itself is not restored:
another environment would import the packages of the first one, of another version of Python.
"""

from __future__ import annotations

import contextlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path


def added() -> tuple[str, ...]:
    """The folders that are neither the environment's nor in `PYTHONPATH`."""
    path = [each for each in sys.path if isinstance(each, str) and each]
    return tuple(not_below(path, _of_environment(), os.environ.get("PYTHONPATH", "").split(":")))


def not_below(path: Sequence[str], environment: Iterable[str], given: Iterable[str]) -> list[str]:
    """Without what is in a folder of the environment, and without what was given at the start."""
    folders = [Path(each) for each in environment]
    without = {Path(each).absolute() for each in given if each}
    return [
        each
        for each in path
        if Path(each).absolute() not in without
        and not any(Path(each).is_relative_to(folder) for folder in folders)
    ]


def restore(folders: Iterable[str]) -> None:
    """Search these, too, where they exist; behind what the environment has."""
    for each in folders:
        if each not in sys.path and Path(each).is_dir():
            sys.path.append(each)


def _of_environment() -> set[str]:
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    # The standard library may be in an archive beside its folder.
    version = f"{sys.version_info.major}{sys.version_info.minor}"
    found.add(str(Path(paths["stdlib"]).with_name(f"python{version}.zip")))
    with contextlib.suppress(AttributeError):  # in an old virtualenv
        found |= {*site.getsitepackages(), site.getusersitepackages()}
    return found
