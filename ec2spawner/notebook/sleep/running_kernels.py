"""The kernels of this server, with what is needed to save them and to start them again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import ensure_async

from ...sleep.storage import folder as folders

LONGEST = 500
"""Characters of a path or name: a session with a longer one is not saved."""


@dataclass(frozen=True, slots=True)
class RunningKernel:
    """One kernel, and Jupyter Server's session of it."""

    kernel_id: str
    kernel_name: str
    is_python: bool
    session_id: str = ""
    path: str = ""
    name: str = ""
    type: str = ""

    @property
    def notebook(self) -> str:
        """The notebook's path; empty for a console."""
        return self.path if self.type == "notebook" else ""


async def running_kernels(server: ServerApp) -> list[RunningKernel]:
    """All of them, those that are open as notebooks first.

    A console that shares a notebook's kernel is a second session: the notebook's counts, because a
    woken kernel is found by the notebook's path.
    """
    manager = server.kernel_manager
    listed = await ensure_async(server.session_manager.list_sessions())
    notebooks_last = sorted(listed, key=lambda each: each["type"] == "notebook")
    sessions = {each["kernel"]["id"]: each for each in notebooks_last}
    found = []
    for kernel_id in manager.list_kernel_ids():
        try:
            kernel_name = manager.get_kernel(kernel_id).kernel_name
        except KeyError:
            continue
        session = sessions.get(kernel_id, {})
        texts = {key: str(session.get(key) or "") for key in ("path", "name", "type")}
        if any(len(text) > LONGEST for text in texts.values()):
            texts = dict.fromkeys(texts, "")
        found.append(
            RunningKernel(
                kernel_id=kernel_id,
                kernel_name=kernel_name,
                is_python=is_python(server, kernel_name),
                session_id=str(session.get("id", "")),
                **texts,
            )
        )
    return sorted(found, key=lambda each: not each.notebook)


def is_python(server: ServerApp, kernel_name: str) -> bool:
    """Whether the kernel spec says so."""
    try:
        specs: Any = server.kernel_spec_manager
        spec = specs.get_kernel_spec(kernel_name)
    except Exception:  # of a provider of its own, or gone since
        return False
    return str(spec.language).lower() == "python"


def kernel_key(server: ServerApp, kernel: RunningKernel) -> str:
    """The folder of its variables: as the kernel itself derives it from JPY_SESSION_NAME."""
    if not kernel.path:
        return folders.kernel_key(kernel.kernel_id, kernel.kernel_name)
    return folders.kernel_key(session_file(server, kernel.path, kernel.name), kernel.kernel_name)


def session_file(server: ServerApp, path: str, name: str) -> str:
    """What the kernel of a session has in JPY_SESSION_NAME."""
    return os.path.join(server.kernel_manager.cwd_for_path(path), name)  # noqa: PTH118
