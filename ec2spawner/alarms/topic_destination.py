"""Alarms to an SNS topic, with the credentials that the hub has anyway."""

from __future__ import annotations

from ..aws.monitoring.topics import Topic
from ..core.alarms.alarm import Alarm
from ..provisioner.model.cloud.cloud import CloudError
from .destination import NotDelivered
from .neutral_text import MAX_BODY, MAX_TITLE, bounded


class TopicDestination:
    """One topic; its subscribers are AWS's matter."""

    def __init__(self, name: str, topic: Topic, hub: str) -> None:
        """`hub` is the hub's name, in each message: a topic may serve several hubs."""
        self.name = name
        self._topic = topic
        self._hub = hub

    async def send(self, alarm: Alarm) -> None:
        """Publish. Raises `NotDelivered`."""
        # The hub's name makes ids of two hubs distinct on one topic.
        message_id = f"{self._hub}/{alarm.alarm_id}"
        title, body = bounded(alarm.title, MAX_TITLE), bounded(alarm.body, MAX_BODY)
        subject, body = f"[{self._hub}] {title}", f"{title}\n\n{body}"
        try:
            await self._topic.publish(message_id, subject, body)
        except CloudError as error:
            raise NotDelivered(str(error)) from error

    def forget(self, alarm: Alarm) -> None:
        """Nothing is remembered of an alarm."""
