"""The Python on this instance that runs the engine: it must be as the notebook's."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Final

from ..wire import ClusterJoin
from .engine import CannotJoin

SECONDS: Final = 60.0
"""For a Python to say what it has: on a new disk its files are read slowly."""

PACKAGES: Final = {"ray": "ray", "torchrun": "torch"}
"""By engine: the package whose version counts."""

PROBE: Final = (
    "import json, platform, sys\n"
    "from importlib import metadata\n"
    "try:\n    version = metadata.version(sys.argv[1])\n"
    "except metadata.PackageNotFoundError:\n    version = ''\n"
    "print(json.dumps([platform.python_version(), version]))\n"
)


async def find_python(join: ClusterJoin) -> str:
    """The path of a Python with the versions of the notebook. Raises `CannotJoin`, which says what
    there is instead."""
    found: list[str] = []
    for path in _candidates(join):
        python, version = await _versions(path, PACKAGES[join.engine])
        if (python, version) == (join.python_version, join.engine_version):
            return path
        if python:
            found.append(f"{path} is Python {python} {_with(join.engine, version)}")
    there = "; ".join(found) or "there is no Python"
    raise CannotJoin(
        f"The notebook runs Python {join.python_version} "
        f"{_with(join.engine, join.engine_version)}, and the workers' image does not: {there}. "
        f"Use a kernel of the image, or install "
        f"{PACKAGES[join.engine]}=={join.engine_version} in it."
    )


def _with(engine: str, version: str) -> str:
    package = PACKAGES[engine]
    return f"with {package} {version}" if version else f"without {package}"


def _candidates(join: ClusterJoin) -> list[str]:
    """The path that the notebook uses, which may be in its home, that of the image below it, the
    first on the PATH, and our own, each once."""
    paths = [join.python, join.image_python, shutil.which("python3") or "", sys.executable]
    return [path for path in dict.fromkeys(paths) if os.access(path, os.X_OK)]


async def _versions(python: str, package: str) -> tuple[str, str]:
    """Of Python and the package; empty where they cannot be run or found."""
    process = await asyncio.create_subprocess_exec(
        *(python, "-P", "-c", PROBE, package),
        cwd=Path.home(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(SECONDS):
            said, _ = await process.communicate()
        found, version = json.loads(said)
    except (TimeoutError, ValueError):
        return "", ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return str(found), str(version)
