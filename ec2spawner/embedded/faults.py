"""Faults on order: the next calls of an action fail in a chosen way.

CreateFleet reports the failure of a single offer as an entry in its answer's `Errors`, with HTTP
200 and instances of other offers beside it: a fault of kind `entry:<Code>` does the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from .api.protocol import EC2Error
from .market.capacity import Offer

HTTP_500, HANG, CUT_BEFORE, CUT_AFTER = "http-500", "hang", "cut-before", "cut-after"
TRANSPORT_KINDS = frozenset({HTTP_500, HANG, CUT_BEFORE, CUT_AFTER})

ENTRY = "entry:"
"""What a kind begins with that strikes single offers of a CreateFleet."""

HANG_LIMIT = 600.0
"""Seconds after which a hanging call is closed: every client has timed out by then."""


class ConnectionCutError(Exception):
    """The connection is to be closed without an answer."""


class PlainServerError(Exception):
    """An HTTP 500 that is no EC2 error, as a failing load balancer sends."""


@dataclass
class Fault:
    """An order, as far as it is not used up."""

    action: str
    """`*` for any."""
    kind: str
    times: int
    zones: frozenset[str] = frozenset()
    """Of an entry: only offers in these; none is all."""
    instance_types: frozenset[str] = frozenset()
    """Of an entry: only offers of these; none is all."""

    @property
    def is_entry(self) -> bool:
        """Whether it affects offers of a fleet instead of the call."""
        return self.kind.startswith(ENTRY)

    def strikes(self, offer: Offer) -> bool:
        """Whether an entry's fault is for this offer."""
        return (not self.zones or offer.zone in self.zones) and (
            not self.instance_types or offer.instance_type in self.instance_types
        )

    def entry(self) -> EC2Error:
        """What stands in the answer for an offer that is struck."""
        code = self.kind.removeprefix(ENTRY)
        return EC2Error(code, f"Injected fault: {code}.")


class Faults:
    """What is still to strike, in the order in which it was ordered."""

    def __init__(self) -> None:
        self._ordered: list[Fault] = []

    def order(self, fault: Fault) -> None:
        """Add a fault; those ordered first strike first."""
        self._ordered.append(fault)

    def next_for(self, action: str) -> str | None:
        """The kind of fault that strikes this whole call, used up once; None mostly."""
        fault = self._use(action, entries=False)
        return fault.kind if fault is not None else None

    def next_entry_for(self, action: str) -> Fault | None:
        """The fault that strikes offers of this call, used up once; None mostly."""
        return self._use(action, entries=True)

    def clear(self) -> None:
        """Nothing that was ordered strikes any more."""
        self._ordered.clear()

    def _use(self, action: str, entries: bool) -> Fault | None:
        for fault in self._ordered:
            if fault.action in ("*", action) and fault.is_entry == entries:
                fault.times -= 1
                if fault.times <= 0:
                    self._ordered.remove(fault)
                return fault
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
