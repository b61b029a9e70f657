"""Alarms about limits: nearly used up, used up, and starts that one refused. Pure."""

from __future__ import annotations

from datetime import date, datetime

from ..limits.admission import Refusal
from ..limits.bounds import AtLimit, Bounds
from ..limits.bounds import Kind as LimitKind
from ..limits.standing import COUNTED, Standing
from ..limits.words import amount_words, day_words, limit_words, scope_words, short_refusal
from ..text.untrusted import visible
from .alarm import Alarm, AlarmRules, Kind


def limit_alarm(
    standing: Standing, bounds: Bounds, today: date, rules: AlarmRules, now: datetime
) -> Alarm | None:
    """The alarm of a limit that is used up, or nearly, or that more runs than it allows.

    Of a month each once in the month, of a window or a credit once a week, of what runs together
    once a day.
    """
    if standing.kind not in COUNTED:
        return _limit_exceeded(standing, bounds, today, now) if standing.is_exceeded else None
    if standing.percent >= rules.limit_used or standing.is_reached:
        return _limit_used(standing, bounds, today, now)
    return None


def _limit_exceeded(standing: Standing, bounds: Bounds, today: date, now: datetime) -> Alarm:
    kind, whose = standing.kind, visible(scope_words(standing.scope))
    limit = visible(limit_words(standing.scope, kind, standing.limit, bounds))
    runs = amount_words(kind, standing.used)
    runs = f"at least {runs}" if standing.at_least else runs
    runs = f"{runs} per hour" if kind is LimitKind.RATE else runs
    return Alarm(
        Kind.LIMIT,
        f"{standing.scope}/{kind}/exceeded",
        today.isoformat(),
        f"More runs than the limit of {whose} allows",
        f"What runs now is {runs}; the limit is {limit}. A price has risen, or the limit is a new "
        "one. It stops no server, and none start until less runs.",
        now,
    )


def _limit_used(standing: Standing, bounds: Bounds, today: date, now: datetime) -> Alarm:
    kind, whose = standing.kind, visible(scope_words(standing.scope))
    is_monthly = kind in {LimitKind.MONTH, LimitKind.GPU_HOURS}
    limit = visible(limit_words(standing.scope, kind, standing.limit, bounds))
    used = amount_words(kind, standing.used)
    used = f"At least {used}" if standing.at_least else used
    body = f"{used} of {limit} are used, by prices (estimate)."
    if bounds.at_limit is AtLimit.STOP:
        body += " At the limit its servers are stopped, with their work saved, and none start."
    else:
        body += " At the limit its servers run on, with a warning, and none start."
    if standing.renews:
        body += f" More is available on {day_words(standing.renews)}."
    return Alarm(
        Kind.LIMIT,
        f"{standing.scope}/{kind}/{'reached' if standing.is_reached else 'near'}",
        f"{today:%Y-%m}" if is_monthly else f"{today:%G-W%V}",
        f"The limit of {whose} is used up"
        if standing.is_reached
        else f"{standing.percent} % of the limit of {whose} are used",
        body,
        now,
    )


def denied_start(user: str, profile: str, refusal: Refusal, today: date, now: datetime) -> Alarm:
    """A start that a limit refused; once a day for each user and limit."""
    name = visible(user)
    return Alarm(
        Kind.DENIED_START,
        f"{user}/{refusal.scope}/{refusal.kind or refusal.obstacle}",
        today.isoformat(),
        f"A limit kept {name} from starting a server",
        f"{name} asked for “{visible(profile)}”. {visible(short_refusal(refusal))}. "
        "Limits are in `c.EC2Spawner.limits`.",
        now,
        user,
    )
