"""Messages of the Jupyter protocol, version 5.3, as far as a cell needs them. Pure."""

from __future__ import annotations

import json
import uuid
from typing import Any, Final

MAX_ERROR: Final = 200
"""Characters of a cell's error."""

COMPUTE: Final = "sum(n * n for n in range(200_000))"
"""About 10 ms of one core."""

PLOT: Final = """
from base64 import b64encode
from os import urandom
display({"image/png": b64encode(urandom(45_000)).decode()}, raw=True)
"""
"""An output as large as a usual plot, 60 kB; no browser draws it."""


class CellFailed(Exception):
    """The kernel reports an error, or answers what no kernel would."""


def cell(number: int) -> str:
    """The code of the cell with that number, from 0: every fifth one has the output of a plot."""
    return PLOT if number % 5 == 4 else COMPUTE


def request(kind: str, session: str, content: dict[str, Any]) -> dict[str, Any]:
    """A message of that type for the shell channel, with a new id."""
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": kind,
        "username": "",
        "session": session,
        "version": "5.3",
    }
    return {
        "header": header,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "channel": "shell",
    }


def execute(session: str, code: str) -> dict[str, Any]:
    """The request to execute this code."""
    content = {"code": code, "silent": False, "stop_on_error": True, "allow_stdin": False}
    return request("execute_request", session, content)


def is_done(raw: str | bytes, request_id: str) -> bool:
    """Whether this message says that the kernel is idle after the request.

    Raises `CellFailed` where it is the request's error, or no message at all.
    """
    if isinstance(raw, bytes):
        return False  # with buffers, such as of widgets
    try:
        message = json.loads(raw)
        parent, content = message["parent_header"], message["content"]
        if parent.get("msg_id") != request_id:
            return False
        if message["msg_type"] == "error":
            raise CellFailed(f"{content['ename']}: {content['evalue']}"[:MAX_ERROR])
        idle: bool = message["msg_type"] == "status" and content["execution_state"] == "idle"
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise CellFailed("the kernel sends what is no message") from error
    return idle
