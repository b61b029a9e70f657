"""Fault injection: the next calls of an action fail in a chosen way.

CreateFleet reports the failure of a single offer as an entry in its response's `Errors`, with HTTP
200 and with instances of other offers: a fault of kind `entry:<Code>` does the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from .api.protocol import EC2Error
from .market.capacity import Offer

HTTP_500, HANG, CUT_BEFORE, CUT_AFTER = "http-500", "hang", "cut-before", "cut-after"
TRANSPORT_KINDS = frozenset({HTTP_500, HANG, CUT_BEFORE, CUT_AFTER})

ENTRY = "entry:"
"""Prefix of kinds that affect single offers of a CreateFleet."""

TERMINATE = "terminate:"
"""Prefix of kinds that end the instances of a CreateFleet at once, with this StateReason."""

HANG_LIMIT = 600.0
"""Seconds after which a hanging call is closed: every client has timed out by then."""


class ConnectionCutError(Exception):
    """The connection must be closed without a response."""


class PlainServerError(Exception):
    """An HTTP 500 that is no EC2 error, as a failing load balancer sends."""


@dataclass
class Fault:
    """A fault, with the number of calls that it still affects."""

    action: str
    """`*` for any."""
    kind: str
    times: int
    zones: frozenset[str] = frozenset()
    """For `entry:`: only offers in these zones; empty is all."""
    instance_types: frozenset[str] = frozenset()
    """For `entry:`: only offers of these types; empty is all."""

    @property
    def is_entry(self) -> bool:
        """Whether it affects offers of a fleet instead of the whole call."""
        return self.kind.startswith(ENTRY)

    @property
    def is_termination(self) -> bool:
        """Whether it ends what the call launches."""
        return self.kind.startswith(TERMINATE)

    def affects(self, offer: Offer) -> bool:
        """Whether an `entry:` fault affects this offer."""
        return (not self.zones or offer.zone in self.zones) and (
            not self.instance_types or offer.instance_type in self.instance_types
        )

    def entry(self) -> EC2Error:
        """The entry in the response for an offer that it affects."""
        code = self.kind.removeprefix(ENTRY)
        return EC2Error(code, f"Injected fault: {code}.")


class Faults:
    """The faults still to be injected, oldest first."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Add a fault; earlier ones are injected first."""
        self._faults.append(fault)

    def next_for(self, action: str) -> str | None:
        """The kind of fault for this whole call, counted as injected; None for no fault."""
        fault = self._use(action, lambda each: not each.is_entry and not each.is_termination)
        return fault.kind if fault is not None else None

    def next_entry_for(self, action: str) -> Fault | None:
        """The fault for offers of this call, counted as injected; None for no fault."""
        return self._use(action, lambda each: each.is_entry)

    def next_termination_for(self, action: str) -> str:
        """The StateReason with which the instances of this call end at once, counted as injected;
        empty for none."""
        fault = self._use(action, lambda each: each.is_termination)
        return fault.kind.removeprefix(TERMINATE) if fault is not None else ""

    def clear(self) -> None:
        """Cancel all faults."""
        self._faults.clear()

    def _use(self, action: str, fits: Callable[[Fault], bool]) -> Fault | None:
        for fault in self._faults:
            if fault.action in ("*", action) and fits(fault):
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
                return fault
        return None


async def inject(kind: str, client_gone: asyncio.Event) -> None:
    """Inject a fault other than `cut-after`: always raises."""
    if kind == HANG:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(client_gone.wait(), HANG_LIMIT)
    if kind in (HANG, CUT_BEFORE):
        raise ConnectionCutError
    if kind == HTTP_500:
        raise PlainServerError
    raise EC2Error(kind, f"Injected fault: {kind}.")
