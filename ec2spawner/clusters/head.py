"""The engine on the notebook's own instance: which one workers join, and its end."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from ..wire import ClusterJoin, ClusterStatus
from . import run_folder
from .engine_python import matching_python
from .engines import engine_process
from .engines.engine import HeadEngine
from .engines.ray_head import RayHead
from .engines.torchrun_head import TorchrunHead
from .errors import ClusterError
from .kernel_python import image_python
from .run_folder import Record

SERVICE_URL: Final = "JUPYTERHUB_SERVICE_URL"
"""Where this server listens: at the private address of its instance."""

ENGINES: Final[dict[str, Callable[[], HeadEngine]]] = {"ray": RayHead, "torchrun": TorchrunHead}


def engine_named(name: str) -> HeadEngine:
    """Raises `ClusterError`."""
    kind = ENGINES.get(name)
    if kind is None:
        raise ClusterError(f"There is no engine {name!r}; there is: {', '.join(ENGINES)}.")
    return kind()


def check_workers_python(engine: HeadEngine, *, has_home: bool) -> None:
    """Look for a Python with the kernel's versions where workers look, on this instance, which has
    their image: a worker without one is paid for and cannot join. `has_home`: workers see this
    home. Raises `ClusterError`."""
    if has_home:
        return  # they see what this kernel sees
    path = os.pathsep.join(each for each in os.get_exec_path() if not _is_in_home(each))
    first = shutil.which("python3", path=path) or ""
    candidates = [x for x in (sys.executable, image_python(), first) if not _is_in_home(x)]
    versions = (engine.name, platform.python_version(), engine.version())
    try:
        matching_python(candidates, *versions, environment=_without_home())
    except ClusterError as error:
        raise ClusterError(f"{error} No worker was started.") from error


def _is_in_home(path: str) -> bool:
    return Path(path).is_relative_to(Path.home())


def _without_home() -> dict[str, str]:
    """The environment in which a Python sees no packages of the home."""
    packages = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    kept = os.pathsep.join(each for each in packages if each and not _is_in_home(each))
    return {**os.environ, "PYTHONNOUSERSITE": "1", "PYTHONPATH": kept}


def running(engine: HeadEngine, status: ClusterStatus) -> Record | None:
    """What runs here and workers of this kernel can join; None if there is nothing.

    What they cannot join is ended, unless it has workers. Raises `ClusterError` if it has.
    """
    record = run_folder.read()
    wanted = (engine.name, engine.version(), platform.python_version())
    if record is None or (record.engine, record.version, record.python_version) == wanted:
        return record
    if status.wanted:
        raise ClusterError(
            f"This server has a cluster of {record.engine} {record.version} with Python "
            f"{record.python_version}: %cluster stop ends it, and then one of {wanted[0]} "
            f"{wanted[1]} with Python {wanted[2]} can be started."
        )
    end(record)
    return None


def start(engine: HeadEngine) -> Record:
    """Start it at the private address of this instance, and remember it. Raises `ClusterError`."""
    host = urlsplit(os.environ.get(SERVICE_URL, "")).hostname
    if not host:
        raise ClusterError(
            f"This kernel does not know its machine's address: {SERVICE_URL} is unset."
        )
    record = engine.start(host)
    run_folder.write(record)
    return record


def end(record: Record) -> None:
    """Disconnect this kernel, which would end with it, and end the engine."""
    engine_named(record.engine).disconnect(record)
    engine_process.stop(record)


def join_of(record: Record) -> ClusterJoin:
    """What workers need to join it."""
    return ClusterJoin(
        engine=record.engine,
        address=record.address,
        token=record.token,
        python=sys.executable,
        image_python=image_python(),
        python_version=record.python_version,
        engine_version=record.version,
    )
