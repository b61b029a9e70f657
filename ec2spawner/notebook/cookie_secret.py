"""The key of the server's cookies stays in the home, with which it comes to the next instance.

Open pages would have to log in again otherwise, after each move and each stop. Jupyter has it in
its runtime directory, which is outside the home here, and empty at each start.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from jupyter_core.paths import jupyter_data_dir
from jupyter_server.serverapp import ServerApp

NAME: Final = "jupyter_cookie_secret"


def keep_cookie_secret_in_home(serverapp: ServerApp) -> None:
    """Have the server read its cookie secret where Jupyter has it by default; a configured file or
    secret stays. In a home that is full it may be lost, and Jupyter logs that. Blocks for a moment.
    """
    if {"cookie_secret", "cookie_secret_file"} & serverapp.config.ServerApp.keys():
        return
    folder = Path(jupyter_data_dir()) / "runtime"
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    serverapp.cookie_secret_file = str(folder / NAME)
