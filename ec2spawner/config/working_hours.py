"""Hours of the week as an admin writes them: `"Mon-Fri 08:00-18:00 Europe/Berlin"`."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field

from ..core.hours_of_week import DAYS, Hours, zone
from ..wire import WorkingHours
from .values import Duration, Words, shown, suggest, wrong

EXAMPLE = "Mon-Fri 08:00-18:00 Europe/Berlin"

_HOURS = re.compile(r"(?P<days>\S+) +(?P<begin>\S+?)-(?P<end>\S+)( +(?P<zone>\S+))?")
_CLOCK = re.compile(r"([01]?\d|2[0-4]):([0-5]\d)")


def hours(text: str, default_zone: str = "") -> Hours:
    """The hours that a text means; without a default, it must name a time zone. Refuses by
    `wrong`."""
    parts = _HOURS.fullmatch(text.strip())
    place = (parts and parts["zone"]) or default_zone
    if parts is None or not place:
        wrong(f"{shown(text)} are no hours", f'write days, times and a time zone: "{EXAMPLE}"')
    begin, end = _minute(parts["begin"]), _minute(parts["end"])
    if begin == end or begin == 1440:
        wrong(f"{shown(text)} begins where it ends", 'a whole day is "00:00-24:00"')
    return Hours(_days(parts["days"]), begin, end, time_zone(place))


def _days(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = _day(first), _day(last or first)
        # Fri-Mon goes over the weekend.
        found += [(begin + step) % 7 for step in range((end - begin) % 7 + 1)]
    return tuple(sorted(set(found)))


def _day(name: str) -> int:
    known = {day.casefold(): number for number, day in enumerate(DAYS)}
    if name.casefold() not in known:
        days = ", ".join(DAYS)
        wrong(f"{shown(name)} is no day", f'write {days}, as in "Mon-Fri" or "Mon,Wed,Fri"')
    return known[name.casefold()]


def _minute(text: str) -> int:
    clock = _CLOCK.fullmatch(text)
    if clock is None or (minute := int(clock[1]) * 60 + int(clock[2])) > 1440:
        wrong(f"{shown(text)} is no time of day", 'write hours and minutes, such as "08:00"')
    return minute


def time_zone(name: str) -> str:
    """The name of a time zone, if it is one. Refuses by `wrong`."""
    if zone(name) is None:
        wrong(f"{shown(name)} is no time zone", suggest(name, _zones(), all_known=False))
    return name


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def time_of_week(text: str) -> tuple[int, int]:
    """Weekday (0 is Monday) and minute of `"Mon 08:00"`. Refuses by `wrong`."""
    day, _, clock = text.strip().partition(" ")
    minute = _minute(clock.strip())
    if minute == 1440:
        wrong(f"{shown(text)} is the next day", 'write "00:00" of that day')
    return _day(day), minute


def _are_hours(text: str) -> str:
    hours(text)
    return text


class WorkingHoursConfig(Words):
    """Hours of the week in which another idle time counts."""

    when: Annotated[str, AfterValidator(_are_hours)] = Field(
        description="Days, times and a time zone. Times that end before they begin cross midnight, "
        "and belong to the day on which they begin.",
        examples=[EXAMPLE],
    )
    server: Duration = Field(
        description="Replaces `server` within these hours; 0 is never.", examples=["3h"]
    )

    def hours(self) -> WorkingHours:
        """The hours as instances get them, with the limit in seconds."""
        found = hours(self.when)
        return WorkingHours(
            days=list(found.days),
            from_minute=found.from_minute,
            to_minute=found.to_minute,
            timezone=found.timezone,
            server_seconds=self.server,
        )
