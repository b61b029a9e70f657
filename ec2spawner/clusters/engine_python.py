"""Which Python of an instance runs an engine: its versions must be those of the notebook."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from .errors import ClusterError

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


def matching_python(
    candidates: Iterable[str],
    engine: str,
    python_version: str,
    engine_version: str,
    *,
    environment: Mapping[str, str] = os.environ,
) -> str:
    """The path of the first that has these versions in this environment. Blocks, for `SECONDS` each
    at most.

    Raises `ClusterError`, which says what there is instead.
    """
    found: list[str] = []
    for path in dict.fromkeys(candidates):
        if not os.access(path, os.X_OK):
            continue
        python, version = _versions(path, PACKAGES[engine], environment)
        if (python, version) == (python_version, engine_version):
            return path
        if python:
            found.append(f"{path} is Python {python} {_with(engine, version)}")
    there = "; ".join(found) or "there is no Python"
    raise ClusterError(
        f"The notebook runs Python {python_version} {_with(engine, engine_version)}, and the "
        f"workers' image does not: {there}. Use a kernel of the image, or install "
        f"{PACKAGES[engine]}=={engine_version} in it."
    )


def _with(engine: str, version: str) -> str:
    package = PACKAGES[engine]
    return f"with {package} {version}" if version else f"without {package}"


def _versions(python: str, package: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Of Python and the package; empty where they cannot be run or found."""
    try:
        said = subprocess.run(
            [python, "-P", "-c", PROBE, package],
            env=dict(environment),
            cwd=Path.home(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        ).stdout
        found, version = json.loads(said)
    except (OSError, subprocess.SubprocessError, ValueError):
        return "", ""
    return str(found), str(version)
