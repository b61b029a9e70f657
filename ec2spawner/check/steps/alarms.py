"""Whether each destination of alarms accepts a message: only by sending it one."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

from ...alarms.delivery import TIMEOUT, reason
from ...alarms.destination import Destination
from ...alarms.destinations import destinations
from ...config import Options
from ...core.alarms.alarm import Alarm, Kind
from ..finding import Finding, failed, ok, unproved
from ..topics import Topic

HOW: Final = "ec2spawner check --test-alarms sends a message to each of them"

FIX: Final = (
    "compare it with Apprise's documentation of that service, or let the hub's role publish to the "
    "topic; until then alarms do not arrive there"
)


def untested_alarms(options: Options) -> list[Finding]:
    """What can be said without a message; nothing where no destination is configured."""
    names = options.alarms.destinations()
    if not names:
        return []
    return [unproved(Topic.ALARMS, f"nothing was sent to {', '.join(names)}", HOW)]


async def check_alarms(options: Options, now: datetime) -> list[Finding]:
    """One finding for each destination, after a test message; all are sent at the same time."""
    found = destinations(options)
    if not found:
        return [ok(Topic.ALARMS, "no destination is configured: c.EC2Spawner.alarms is empty")]
    alarm = Alarm(
        Kind.SUMMARY,
        "test",
        now.isoformat(),
        "Test of the alarms",
        "ec2spawner check --test-alarms sent this. Nothing is wrong.",
        now,
    )
    return list(await asyncio.gather(*(_sent(each, alarm) for each in found)))


async def _sent(destination: Destination, alarm: Alarm) -> Finding:
    name = f"alarms to {destination.name}"
    try:
        async with asyncio.timeout(TIMEOUT):
            await destination.send(alarm)
    except Exception as error:  # of any library that Apprise uses
        return failed(Topic.ALARMS, f"not accepted: {reason(error)}", FIX, name=name)
    return ok(Topic.ALARMS, "accepted a test message", name=name)
