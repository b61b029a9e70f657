"""When users arrive. Pure."""

from __future__ import annotations

from dataclasses import dataclass


class ArrivalRefused(Exception):
    """The arrivals that were asked for make no sense; the message names the option."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """So many users, so many of them a second."""

    users: int
    per_second: float

    @property
    def seconds(self) -> float:
        """From the first arrival to the last: locust starts the users of a second together."""
        return max(0.0, (self.users - 1) / self.per_second)


def arrival(
    users: int, max_users: int, per_second: float, over: float | None, at_once: bool
) -> Arrival:
    """All at once, evenly over so many seconds, or at a steady rate. Raises `ArrivalRefused`."""
    if users < 1:
        raise ArrivalRefused("--users must be 1 or more")
    if users > max_users:
        raise ArrivalRefused(
            f"--users={users} is more than --max-users={max_users}: each user starts a server. "
            f"If you mean it, add --max-users={users}"
        )
    if at_once:
        return Arrival(users, float(users))
    if over is not None:
        if over <= 0:
            raise ArrivalRefused("--over must be more than 0 seconds; --at-once is all at once")
        return Arrival(users, users / over)
    if per_second <= 0:
        raise ArrivalRefused("--spawn-rate must be more than 0 users a second")
    return Arrival(users, per_second)
