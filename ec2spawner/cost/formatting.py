"""Money and time as people read them. Plain ASCII: it goes to any terminal and any log."""

from __future__ import annotations

from datetime import datetime
from math import floor, log10
from typing import Final

MIN: Final = 1e-6
"""USD; a smaller amount is shown as less than this."""


def money(usd: float) -> str:
    """`$0.00021`, `$0.013`, `$0.19`, `$24.48`, `$1130`: at least two significant
    digits, and no cents from $1000. Only zero is shown as `$0`."""
    if usd == 0:
        return "$0"
    if usd < MIN:
        return f"less than ${MIN:.6f}"
    places = max(2, 1 - floor(log10(usd)))
    return f"${usd:.0f}" if usd >= 1000 else f"${usd:.{places}f}"


def kind_of_amounts(is_estimate: bool) -> str:
    """Currency and accuracy of all amounts in a line."""
    return "estimate in USD" if is_estimate else "in USD"


def counted_workers(number: int) -> str:
    """`1 worker`, `2 workers`."""
    return f"{number} {'worker' if number == 1 else 'workers'}"


def lasted(seconds: float) -> str:
    """`3 ms`, `0.42 s`, `12.3 s`, `1 min 23 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def when(instant: datetime, now: datetime) -> str:
    """`14:32 UTC`, with the day if it is not that of `now`."""
    day = "" if instant.date() == now.date() else f"{instant:%d %b} "
    return f"{day}{instant:%H:%M} UTC"
