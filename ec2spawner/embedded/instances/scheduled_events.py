"""Scheduled events: AWS stops, reboots or maintains an instance, and says so in advance."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from ..api import pagination
from ..api.protocol import EC2Error
from ..runtime.scheduled_event import EventCode, ScheduledEvent
from .lifecycle import CODES, SCHEDULED_STOP, Lifecycle, Lifecycles

ACTION = "DescribeInstanceStatus"

OF_INSTANCES: Mapping[str, Callable[[Lifecycle], str]] = {
    "availability-zone": lambda life: life.instance.zone,
    "instance-state-code": lambda life: str(CODES[life.state]),
    "instance-state-name": lambda life: life.state,
}

OF_EVENTS: Mapping[str, Callable[[ScheduledEvent], str]] = {
    "event.code": lambda event: event.code,
    "event.description": lambda event: event.description,
    "event.instance-event-id": lambda event: event.event_id,
}
"""Filters of the action that are answered; EC2 has more."""

SHOWN_FOR = timedelta(days=7)
"""An event that is over is still described for up to a week."""

OK = {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]}


class ScheduledEvents:
    """Announces events, lets them happen, and describes them."""

    def __init__(self, lifecycles: Lifecycles) -> None:
        self._lifecycles = lifecycles
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """By event id, until it happens."""

    def schedule(
        self, life: Lifecycle, code: EventCode, in_seconds: float, lasts_seconds: float
    ) -> ScheduledEvent:
        """Announce an event that happens at its earliest time."""
        not_before = datetime.now(UTC) + timedelta(seconds=in_seconds)
        not_after = not_before + timedelta(seconds=lasts_seconds)
        event = ScheduledEvent(
            f"instance-event-0{secrets.token_hex(8)}", code, not_before, not_after
        )
        life.instance.events.append(event)
        self._timers[event.event_id] = asyncio.get_running_loop().call_later(
            in_seconds, self._happen, life, event
        )
        return event

    def cancel(self, life: Lifecycle) -> None:
        """AWS withdraws what it has announced for an instance."""
        for event in life.instance.events:
            if event.state == "active":
                self._end(event, "canceled")

    def close(self) -> None:
        """Let nothing happen any more."""
        for timer in self._timers.values():
            timer.cancel()

    def _end(self, event: ScheduledEvent, state: str) -> None:
        event.state = "completed" if state == "completed" else "canceled"
        if (timer := self._timers.pop(event.event_id, None)) is not None:
            timer.cancel()

    def _happen(self, life: Lifecycle, event: ScheduledEvent) -> None:
        if event.state != "active" or life.state != "running":
            return
        self._end(event, "completed")
        if event.code in ("instance-reboot", "system-reboot"):
            self._lifecycles.reboot(life)
        elif event.code in ("instance-stop", "instance-retirement"):
            # A one-time spot instance cannot be stopped.
            is_spot = life.offer.market == "spot"
            end = self._lifecycles.terminate if is_spot else self._lifecycles.stop
            end(life, SCHEDULED_STOP)

    async def describe(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """DescribeInstanceStatus: instances that run, or all of them."""
        ids: Sequence[str] = parameters.get("InstanceIds") or ()
        page = pagination.asked(ACTION, parameters)
        everything = str(parameters.get("IncludeAllInstances", "")).lower() == "true"
        found = self._lifecycles.get_all(ids) if ids else self._lifecycles.all()
        lives = [life for life in found if everything or life.state == "running"]
        for asked in parameters.get("Filters") or ():
            name, values = asked.get("Name", ""), asked.get("Values") or ()
            lives = [life for life in lives if _matches(life, name, values)]
        items, token = page.of([_status(life) for life in lives])
        answer: dict[str, Any] = {"InstanceStatuses": items}
        return answer if token is None else {**answer, "NextToken": token}


def _matches(life: Lifecycle, name: str, values: Sequence[str]) -> bool:
    if name in OF_INSTANCES:
        return OF_INSTANCES[name](life) in values
    if name in OF_EVENTS:
        return any(OF_EVENTS[name](event) in values for event in _shown(life))
    raise EC2Error("InvalidParameterValue", f"The filter '{name}' is invalid")


def _shown(life: Lifecycle) -> list[ScheduledEvent]:
    now = datetime.now(UTC)
    return [
        event
        for event in life.instance.events
        if event.state == "active" or now < event.not_after + SHOWN_FOR
    ]


def _status(life: Lifecycle) -> dict[str, Any]:
    known = OK if life.state == "running" else {"Status": "not-applicable"}
    return {
        "AvailabilityZone": life.instance.zone,
        "InstanceId": life.instance_id,
        "InstanceState": {"Code": CODES[life.state], "Name": life.state},
        "InstanceStatus": known,
        "SystemStatus": known,
        "Events": [event.in_status() for event in _shown(life)],
    }
