"""A kernel of a user's server: started over HTTP, used over its websocket."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from .kernel_messages import CellFailed, execute, is_done, request
from .session import Session, StepFailed, no_answer

TIMEOUT: Final = 180.0
"""Seconds for the start of a kernel, and for a cell."""

MAX_MESSAGE: Final = 4 << 20
"""Bytes of one message."""

_ID: Final = re.compile(r"[0-9a-zA-Z-]{1,64}")


class Kernel:
    """A kernel and the connection to it."""

    def __init__(self, channels: ClientConnection, session: str) -> None:
        self._channels = channels
        self._session = session

    def run(self, code: str) -> None:
        """Execute a cell, until the kernel is idle again. Raises `StepFailed`."""
        self._ask(execute(self._session, code))

    def prove(self) -> None:
        """Wait until the kernel answers. Raises `StepFailed`."""
        self._ask(request("kernel_info_request", self._session, {}))

    def _ask(self, message: dict[str, Any]) -> None:
        deadline = time.monotonic() + TIMEOUT
        try:
            self._channels.send(json.dumps(message))
            while not is_done(
                self._channels.recv(deadline - time.monotonic()), message["header"]["msg_id"]
            ):
                pass
        except CellFailed as error:
            raise StepFailed(f"the cell failed: {error}") from error
        except TimeoutError as error:
            raise StepFailed(f"the kernel did not answer within {TIMEOUT:.0f} s") from error
        except (WebSocketException, OSError) as error:
            kind = type(error).__name__
            raise StepFailed(f"the connection to the kernel broke: {kind}") from error


def start_kernel(session: Session, server: str) -> str:
    """Start a kernel on the server at that address; returns the kernel's address."""
    answer = session.ask("POST", f"{server}api/kernels", body={})
    found = str(answer.require("kernel", HTTPStatus.CREATED).json().get("id", ""))
    if not _ID.fullmatch(found):
        raise StepFailed("the server answers no id of a kernel")
    return f"{server}api/kernels/{found}"


@contextmanager
def connected(session: Session, kernel: str) -> Iterator[Kernel]:
    """The kernel at that address, connected. Raises `StepFailed`."""
    where = session.place(kernel)
    identity = uuid.uuid4().hex
    if session.token:
        headers = {"Authorization": f"token {session.token}"}
    else:
        headers = {"Cookie": session.cookies_for(where)}
    try:
        channels = connect(
            f"ws{where.removeprefix('http')}/channels?session_id={identity}",
            additional_headers=headers,
            max_size=MAX_MESSAGE,
            open_timeout=TIMEOUT,
            close_timeout=2.0,
        )
    except (WebSocketException, OSError) as error:
        raise no_answer(f"{where}/channels", error) from error
    with channels:
        yield Kernel(channels, identity)
