"""The Python on this instance that runs the engine: it must be as the notebook's."""

from __future__ import annotations

import asyncio
import shutil
import sys

from ..clusters.engine_python import matching_python
from ..clusters.errors import ClusterError
from ..wire import ClusterJoin
from .engine import CannotJoin


async def find_python(join: ClusterJoin) -> str:
    """The path of a Python with the versions of the notebook. Raises `CannotJoin`, which says what
    there is instead.

    First the path that the notebook uses, which may be in its home; then that of the image below
    it, the first on the PATH, and our own.
    """
    candidates = (join.python, join.image_python, shutil.which("python3") or "", sys.executable)
    versions = (join.engine, join.python_version, join.engine_version)
    try:
        return await asyncio.to_thread(matching_python, candidates, *versions)
    except ClusterError as error:
        raise CannotJoin(str(error)) from error
