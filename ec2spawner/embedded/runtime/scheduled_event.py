"""One scheduled event of an instance, as its metadata and DescribeInstanceStatus show it.

"Scheduled events for Amazon EC2 instances" in the EC2 User Guide, and `InstanceStatusEvent` of the
API reference, read in November 2026.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

EventCode = Literal[
    "instance-reboot", "instance-retirement", "instance-stop", "system-maintenance", "system-reboot"
]

CODES: Final[tuple[str, ...]] = get_args(EventCode)

DESCRIPTIONS: Final = {
    "instance-reboot": "scheduled reboot",
    "instance-retirement": "The instance is running on degraded hardware",
    "instance-stop": "The instance is running on degraded hardware",
    "system-maintenance": "scheduled network maintenance",
    "system-reboot": "scheduled reboot",
}


@dataclass
class ScheduledEvent:
    """An event that is announced, over, or withdrawn."""

    event_id: str
    """Such as `instance-event-0d59937288b749b32`."""
    code: EventCode
    not_before: datetime
    not_after: datetime
    state: Literal["active", "completed", "canceled"] = "active"

    @property
    def description(self) -> str:
        """EC2's words, which begin with its state once it is over or withdrawn."""
        words = DESCRIPTIONS[self.code]
        return words if self.state == "active" else f"[{self.state.capitalize()}] {words}"

    def in_metadata(self) -> dict[str, str]:
        """An entry of `events/maintenance/scheduled` or `events/maintenance/history`."""
        return {
            "NotBefore": _in_metadata(self.not_before),
            "Code": self.code,
            "Description": self.description,
            "EventId": self.event_id,
            "NotAfter": _in_metadata(self.not_after),
            "State": self.state,
        }

    def in_status(self) -> dict[str, Any]:
        """An `InstanceStatusEvent`."""
        return {
            "InstanceEventId": self.event_id,
            "Code": self.code,
            "Description": self.description,
            "NotBefore": self.not_before,
            "NotAfter": self.not_after,
        }


MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def _in_metadata(at: datetime) -> str:
    """Such as `21 Jan 2019 09:00:43 GMT`, whatever the locale."""
    at = at.astimezone(UTC)
    return f"{at.day} {MONTHS[at.month - 1]} {at:%Y %H:%M:%S} GMT"
