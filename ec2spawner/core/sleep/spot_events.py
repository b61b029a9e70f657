"""Spot events of EventBridge, and what they mean beside the agent's own word. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Literal

NOTICE: Final = timedelta(minutes=2)
"""Between the event and the end of the instance: "Spot Instance interruption notices" in the EC2
User Guide."""

OVERDUE: Final = timedelta(seconds=90)
"""An instance that still calls so long after its announced end was not interrupted."""

WARNING: Final = "EC2 Spot Instance Interruption Warning"
RECOMMENDATION: Final = "EC2 Instance Rebalance Recommendation"

_INSTANCE: Final = re.compile(r"i-[0-9a-f]{8,32}")

_MALFORMED: Final = (
    AttributeError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a message raises that has another form, a date too late or too many brackets."""


class UnknownEvent(ValueError):
    """The message is no event of spot instances; its text says what it is, in few words."""


@dataclass(frozen=True, slots=True)
class SpotEvent:
    """What EventBridge reports of one instance."""

    kind: Literal["interruption", "rebalance"]
    instance_id: str
    at: datetime
    """When the event happened. UTC."""

    @property
    def ends_at(self) -> datetime:
        """When an interrupted instance ends."""
        return self.at + NOTICE


def parse(body: str) -> SpotEvent:
    """The event in a message of the queue. Raises `UnknownEvent`."""
    try:
        event = json.loads(body)
        if not isinstance(event, dict) or event.get("source") != "aws.ec2":
            raise UnknownEvent("no event of EC2")
        kind, action = event.get("detail-type"), event["detail"].get("instance-action")
        instance_id = event["detail"]["instance-id"]
        at = datetime.fromisoformat(event["time"])
        _ = at + NOTICE + OVERDUE  # the end has to be a date, too
    except UnknownEvent:
        raise
    except _MALFORMED as error:
        raise UnknownEvent("not of the form of an event") from error
    if not isinstance(instance_id, str) or not _INSTANCE.fullmatch(instance_id) or not at.tzinfo:
        raise UnknownEvent("not of the form of an event")
    if kind == RECOMMENDATION:
        return SpotEvent("rebalance", instance_id, at)
    if kind == WARNING and action in (None, "terminate", "stop", "hibernate"):
        return SpotEvent("interruption", instance_id, at)
    raise UnknownEvent("another event of EC2")


@dataclass(frozen=True, slots=True)
class Notices:
    """The interruption of one instance, as its agent and EventBridge report it: one event.

    The agent reads it from the instance, which also withdraws it. What the agent has seen counts,
    and EventBridge's word only until then. An announcement that the agent never sees ends by
    itself.
    """

    by_agent: datetime | None = None
    announced: datetime | None = None
    withdrawn: datetime | None = None
    """The end that was announced last, and withdrawn."""

    def heard(self, by_agent: datetime | None) -> Notices:
        """After a heartbeat."""
        if by_agent is None and self.by_agent is not None:
            return Notices(withdrawn=max(self.by_agent, self.announced or self.by_agent))
        return replace(self, by_agent=by_agent)

    def happened(self, event: SpotEvent) -> Notices:
        """After EventBridge's event; one that came before a withdrawal changes nothing."""
        if self.withdrawn is not None and event.ends_at <= self.withdrawn:
            return self
        return replace(self, announced=event.ends_at)

    def ends_at(self, now: datetime) -> datetime | None:
        """When the instance ends; None where nothing says so."""
        if self.by_agent is not None or self.announced is None:
            return self.by_agent
        return None if now > self.announced + OVERDUE else self.announced
