"""Alarms to any service that Apprise knows: mail, Slack, webhooks and a hundred more.

Apprise is imported when the first alarm is sent, and it works in a thread: neither its import nor a
slow mail server delays the hub. Its URLs hold passwords and tokens, and its messages parts of them,
so a reason is logged without anything that the URL consists of.
"""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import Future
from typing import Final
from urllib.parse import unquote_plus

from ..core.alarms.alarm import Alarm
from ..core.text.untrusted import visible
from ..daemon_threads import DaemonThreads
from .destination import NotDelivered
from .neutral_text import MAX_BODY, MAX_TITLE, bounded, neutral

HIDDEN: Final = "***"
MIN_HIDDEN: Final = 3
"""Characters: shorter parts of a URL are no secret, and their removal would garble the reason."""

MAX_REASON: Final = 300
"""Characters of a reason in the log."""


class AppriseDestination:
    """One Apprise URL."""

    def __init__(self, name: str, url: str, hub: str) -> None:
        """`hub` is the hub's name, in each message."""
        self.name = name
        self._url = url
        self._hub = hub
        self._sending: dict[str, Future[str | None]] = {}
        """By alarm id, the calls that nobody waits for: what the thread is doing, and has done."""
        # One thread each: a service that never answers blocks its own messages only.
        self._thread = DaemonThreads(1, f"ec2spawner-alarms-{name.partition(' ')[0]}")

    async def send(self, alarm: Alarm) -> None:
        """Send. Raises `NotDelivered`.

        A cancelled call that has begun continues in its thread: the next call for the alarm waits
        for that one and sends nothing, unless it has failed by then. One that waits behind another
        call is never made.
        """
        call = self._sending.pop(alarm.alarm_id, None)
        if call is None or (call.done() and call.result() is not None):
            call = self._thread.submit(self._send, alarm)
        try:
            failure = await asyncio.shield(asyncio.wrap_future(call))
        except asyncio.CancelledError:
            if not call.cancel():
                self._sending[alarm.alarm_id] = call
            raise
        if failure is not None:
            raise NotDelivered(without_parts_of(self._url, failure))

    def forget(self, alarm: Alarm) -> None:
        """Forget the call that continues in its thread, if there is one."""
        self._sending.pop(alarm.alarm_id, None)

    def _send(self, alarm: Alarm) -> str | None:
        """Why it was not accepted; None if it was."""
        try:
            from apprise import Apprise, AppriseAsset

            # Without a timeout of Apprise's own, for which it would start threads that delay the
            # end of the process: its connections have timeouts of seconds.
            asset = AppriseAsset(
                app_id="ec2spawner", async_mode=False, service_timeout=0, storage_mode="memory"
            )
            service = Apprise(asset=asset)
            if not service.add(self._url):
                return "Apprise does not accept the URL"
            result = service.notify(
                title=neutral(self._url, bounded(f"[{self._hub}] {alarm.title}", MAX_TITLE)),
                body=neutral(self._url, bounded(alarm.body, MAX_BODY)),
                notify_type=alarm.severity.value,
                body_format="text",
            )
            if result:
                return None
            reasons = [entry.message for entry in result.logs()] if result is not None else []
        except Exception as error:  # of a plugin, or of an incomplete installation
            return f"{type(error).__name__}: {error}"
        return reasons[-1] if reasons else "the service did not accept it"


def without_parts_of(url: str, text: str) -> str:
    """The text, short and printable, without anything that the URL consists of.

    Which part of an Apprise URL is a secret depends on the service: for Slack it is the host.
    """
    _, _, rest = url.partition("://")
    parts = {part for raw in (rest, unquote_plus(rest)) for part in re.split(r"[/?&=:@,;#+]", raw)}
    for part in sorted(parts, key=len, reverse=True):
        if len(part) >= MIN_HIDDEN:
            text = re.sub(re.escape(part), HIDDEN, text, flags=re.IGNORECASE)
    return visible(text)[:MAX_REASON]
