"""The browser pages that are open on this server, and which of them have saved before its stop."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from tornado.websocket import WebSocketHandler

from ..core.text.untrusted import visible
from .status.notice_events import SCHEMA_ID

POLL_SECONDS = 0.05
"""A page that is closed during the wait reports nothing; its websocket is gone by the next poll."""

MAX_REPORTS = 1000
"""Reports come from browsers: no more page ids than this are kept."""


class OpenPages:
    """Counts open pages by their event websockets: JupyterLab and Notebook 7 hold one each.

    A page in a hidden tab holds its websocket too, and one that was closed or has crashed does not.
    `logger` is the server's `EventLogger`, or None.
    """

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self._saved: dict[str, set[str]] = {}
        """By page: the paths that it could not save."""

    def saved(self, page: str, unsaved: Collection[str] = ()) -> None:
        """This page has saved its documents since the stop was announced, but for `unsaved`."""
        if len(self._saved) < MAX_REPORTS:
            self._saved[page] = {visible(each) for each in unsaved}

    @property
    def unsaved(self) -> set[str]:
        """Paths of documents that pages could not save. Their names come from browsers."""
        return set().union(*self._saved.values())

    async def until_saved(self) -> None:
        """Return when as many pages have saved as are open; at once where none is."""
        while len(self._saved) < self._open():
            await asyncio.sleep(POLL_SECONDS)

    def _open(self) -> int:
        # Jupyter Server and jupyter_events have no public way to list their subscribers.
        listeners = getattr(self._logger, "_modified_listeners", {}).get(SCHEMA_ID, ())
        return sum(
            isinstance(getattr(each, "__self__", None), WebSocketHandler) for each in listeners
        )
