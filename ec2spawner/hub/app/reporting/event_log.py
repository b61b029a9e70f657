"""Phases and refusals of starts, ends of servers, and sessions that sleep, as events in
JupyterHub's event log.

`c.EventLogger.handlers` are called synchronously: one event takes 0.12 ms with a file, and as long
as the disk or a log service takes if that hangs. So ours are written in a thread, and no start
waits for them. An event that cannot be written is logged and lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from jupyter_events import EventLogger

from ....daemon_threads import DaemonThreads
from ....provisioner.model.leases.events import (
    LeaseEnded,
    LeaseEvent,
    PhaseEnded,
    SessionEnded,
    SessionSlept,
    StartDenied,
    Subject,
)
from ....provisioner.model.sleeping_session import SleepingSession
from ....provisioner.runtime.supervise import Supervised
from ....provisioner.state.lease_events import LeaseEvents
from ....provisioner.state.user_accounts import UserAccounts

log = logging.getLogger(__name__)

SCHEMAS: Final = Path(__file__).parent / "event_schemas"

START_PHASE: Final = "https://events.ec2spawner.org/start-phase"
SERVER_STOP: Final = "https://events.ec2spawner.org/server-stop"
START_DENIED: Final = "https://events.ec2spawner.org/start-denied"
SESSION_SLEEP: Final = "https://events.ec2spawner.org/session-sleep"
SESSION_END: Final = "https://events.ec2spawner.org/session-end"

SLOW: Final = 30.0
"""Seconds after which a handler that has not returned is logged."""


class EventLog:
    """Writes what is reported of leases to a hub's `EventLogger`."""

    def __init__(
        self, logger: EventLogger, events: LeaseEvents, accounts: UserAccounts, contact: str
    ) -> None:
        """`contact` is the option: whom users ask to raise a limit."""
        self._logger = logger
        self._events = events
        self._accounts = accounts
        self._contact = contact
        self._emitting = Supervised("Writing an event")
        for schema in sorted(SCHEMAS.glob("*.yaml")):
            logger.register_event_schema(schema)

    async def run(self) -> None:
        """Write events in the order of their reports, until cancelled."""
        thread = DaemonThreads(1, "ec2spawner-events")
        try:
            while True:
                batch, dropped = await self._events.next_batch()
                if dropped:
                    log.error("%d events were dropped: c.EventLogger.handlers are slow", dropped)
                await self._wait(
                    asyncio.get_running_loop().run_in_executor(thread, self._emit, batch)
                )
        finally:
            thread.shutdown(wait=False, cancel_futures=True)

    async def _wait(self, writing: asyncio.Future[None]) -> None:
        waited = 0.0
        while not (await asyncio.wait([writing], timeout=SLOW))[0]:
            waited += SLOW
            log.error("A handler of c.EventLogger has not returned for %.0f s", waited)

    def _emit(self, batch: Iterable[LeaseEvent]) -> None:
        for event in batch:
            with self._emitting:
                schema_id, data, at = _content(event, self._contact)
                data["username"] = self._accounts.name(data["username"])
                data |= {x: self._accounts.scope(data[x]) for x in ("payer", "scope") if x in data}
                self._logger.emit(schema_id=schema_id, data=data, timestamp_override=at)


def _content(event: LeaseEvent, contact: str) -> tuple[str, dict[str, Any], datetime]:
    """Id of the schema, data, and when it happened."""
    match event:
        case PhaseEnded(subject, _, phase):
            of_phase = {
                "phase": phase.phase.value,
                "complete": phase.is_complete,
                "seconds": round(phase.seconds, 3),
            }
            return START_PHASE, {**_of(subject), **of_phase}, event.at
        case LeaseEnded(subject):
            of_end = {
                "reason": event.reason,
                "start": event.start.value,
                "ready_seconds": round(event.ready_seconds, 3),
                **{f"{purpose}_usd": usd for purpose, usd in event.usd.items()},
            }
            return SERVER_STOP, {**_of(subject), **of_end}, event.at
        case StartDenied(subject, at, scope, limit):
            denied = {"scope": scope, "limit": limit.value if limit else None, "contact": contact}
            return START_DENIED, {**_whose(subject), **denied}, at
        case SessionSlept(sleeping):
            session = sleeping.session
            of_session = {
                "trigger": session.trigger,
                "seconds": round(session.seconds, 3),
                "size_bytes": session.size_bytes,
                "kernels": session.kernel_count,
                "variables": sum(kernel.variables for kernel in session.kernels),
                "lost": sum(kernel.lost_count for kernel in session.kernels),
            }
            return SESSION_SLEEP, {**_of_session(sleeping), **of_session}, session.slept_at
        case SessionEnded(sleeping, at, outcome):
            slept = (at - sleeping.session.slept_at).total_seconds()
            ended = {"outcome": outcome.value, "slept_seconds": round(max(slept, 0.0), 3)}
            return SESSION_END, {**_of_session(sleeping), **ended}, at


def _of_session(sleeping: SleepingSession) -> Mapping[str, str]:
    """Without its profile and payer: the stop of the same lease has them."""
    return {
        "lease_id": sleeping.lease_id,
        "username": sleeping.user,
        "servername": sleeping.server,
    }


def _whose(subject: Subject) -> Mapping[str, str]:
    """With JupyterHub's own names for user and server; workers of a cluster are `lab/2`."""
    return {
        "lease_id": subject.lease_id,
        "username": subject.user,
        "servername": subject.server,
        "payer": subject.payer,
        "profile": subject.profile,
    }


def _of(subject: Subject) -> Mapping[str, str | None]:
    """The same, with its instance."""
    return {
        **_whose(subject),
        "market": subject.market.value if subject.market else None,
        "instance_type": subject.instance_type or None,
        "zone": subject.zone or None,
    }
