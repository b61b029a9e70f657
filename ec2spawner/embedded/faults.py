"""Faults on order: the next calls of an action fail in a chosen way."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from .protocol import EC2Error

HTTP_500, HANG, CUT_BEFORE, CUT_AFTER = "http-500", "hang", "cut-before", "cut-after"
TRANSPORT_KINDS = frozenset({HTTP_500, HANG, CUT_BEFORE, CUT_AFTER})

HANG_LIMIT = 600.0
"""Seconds after which a call that hangs is cut: nobody waits for it any more."""


class ConnectionCutError(Exception):
    """The connection is to be closed without an answer."""


class PlainServerError(Exception):
    """An HTTP 500 that is no EC2 error, as a failing load balancer sends."""


@dataclass
class _Fault:
    action: str
    kind: str
    times: int


class Faults:
    def __init__(self) -> None:
        self._ordered: list[_Fault] = []

    def order(self, action: str, kind: str, times: int) -> None:
        """The next `times` calls of `action` (`*` for any) fail by `kind`."""
        self._ordered.append(_Fault(action, kind, times))

    def next_for(self, action: str) -> str | None:
        """The kind of fault that strikes this call, used up once; None mostly."""
        for fault in self._ordered:
            if fault.action in ("*", action):
                fault.times -= 1
                if fault.times <= 0:
                    self._ordered.remove(fault)
                return fault.kind
        return None


async def strike(kind: str, client_gone: asyncio.Event) -> None:
    """Let a fault other than `cut-after` happen: always raises."""
    if kind == HANG:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(client_gone.wait(), HANG_LIMIT)
    if kind in (HANG, CUT_BEFORE):
        raise ConnectionCutError
    if kind == HTTP_500:
        raise PlainServerError
    raise EC2Error(kind, f"Injected fault: {kind}.")
