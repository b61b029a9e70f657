"""A notebook that is renamed while its kernel runs keeps its saved variables, and only it has them.

A kernel learns the path of its notebook from its environment, once. Jupyter Server notes a rename
in its session, and for the kernel's next process.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import ensure_async

from ...sleep.storage import folder as folders
from ...sleep.storage.owned import replace_file
from .running_kernels import session_file

log = logging.getLogger(__name__)


def follow_renames(server: ServerApp) -> None:
    """From now on, have each kernel know the path of its notebook."""
    sessions: Any = server.session_manager
    update_session = sessions.update_session

    async def update(session_id: str, **changes: Any) -> Any:
        before = await ensure_async(sessions.get_session(session_id=session_id))
        done = await ensure_async(update_session(session_id, **changes))
        try:
            after = await ensure_async(sessions.get_session(session_id=session_id))
            await _follow(server, before, after)
        except Exception:
            log.exception("ec2spawner: a kernel does not know of a rename")
        return done

    sessions.update_session = update


async def _follow(server: ServerApp, before: Any, after: Any) -> None:
    old, new = (session_file(server, each["path"], each["name"]) for each in (before, after))
    kernel_id = after["kernel"]["id"]
    if old == new or kernel_id != before["kernel"]["id"]:
        return
    kernel: Any = server.kernel_manager.get_kernel(kernel_id)
    await asyncio.to_thread(_note, kernel.connection_file, kernel.kernel_name, old, new)


def _note(connection_file: str, kernel_name: str, old: str, new: str) -> None:
    replace_file(folders.renamed_file(connection_file), new.encode())
    kernels = folders.root() / folders.KERNELS
    keys = (folders.kernel_key(each, kernel_name) for each in (old, new))
    folders.hand_over(*(kernels / key for key in keys))
