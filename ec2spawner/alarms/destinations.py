"""The destinations that the hub's options name."""

from __future__ import annotations

from ..aws.monitoring.topics import Topic
from ..config import Options
from ..config.entries.alarms import TOPIC, keep_quiet
from .apprise_destination import AppriseDestination
from .destination import Destination
from .topic_destination import TopicDestination


def destinations(options: Options) -> tuple[Destination, ...]:
    """In the order of the configuration, with the names of `AlarmsConfig.destinations`."""
    keep_quiet()
    hub = options.hub_name
    return tuple(
        TopicDestination(name, Topic(url, options.endpoint_url or None), hub)
        if TOPIC.fullmatch(url)
        else AppriseDestination(name, url, hub)
        for name, url in options.alarms.destinations().items()
    )
