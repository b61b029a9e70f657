"""What is asked of `ec2spawner report`, checked before anything is read. Pure."""

from __future__ import annotations

import argparse
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from ..aws.billing.cost_explorer import KEPT
from ..core.bills.reconciliation import Period
from ..core.ledger.local_days import askable, is_askable
from .contents import DIMENSIONS, Scope

MAX_DAYS: Final = 3660
"""Ten years: a longer period is a slip."""


class WrongRequest(Exception):
    """The request cannot be answered; the message says why, and what to do."""


def scope_of(arguments: argparse.Namespace, hub: str, time_zone: str, today: date) -> Scope:
    """The scope of a report: by default this month until today. Raises `WrongRequest`.

    Against Cost Explorer, it begins by default no earlier than that knows single instances.
    """
    if arguments.profile:
        raise WrongRequest("--profile is for --starts. Fix: add --starts, or use --by=profile")
    until = _day("--to", arguments.until, today) or today
    since = _day("--from", arguments.since, today) or min(today, until).replace(day=1)
    is_cut = False
    if arguments.reconcile and not arguments.bill:
        # Days of Cost Explorer are UTC's: that before may have begun earlier than it knows.
        oldest = today - KEPT + timedelta(days=1)
        if until < oldest:
            raise _forgotten("--to", until, oldest)
        if since < oldest and arguments.since:
            raise _forgotten("--from", since, oldest)
        since, is_cut = max(since, oldest), since < oldest
    _check_period(since, until)
    by = [name.strip() for name in arguments.by.split(",") if name.strip()]
    for name in by:
        if name not in DIMENSIONS:
            raise WrongRequest(
                f'"{name}" is nothing to group by. Fix: --by with some of {",".join(DIMENSIONS)}'
            )
    if arguments.user and arguments.reconcile:
        raise WrongRequest(
            "the bill does not know users, so --reconcile compares everything. Fix: leave out "
            "--user"
        )
    if arguments.bill and not arguments.reconcile:
        raise WrongRequest("--bill is for --reconcile. Fix: add --reconcile")
    if arguments.reconcile and (arguments.csv or arguments.focus):
        raise WrongRequest(
            "--csv and --focus have no place for a comparison. Fix: --json, --html or the table"
        )
    return Scope(hub, since, until, time_zone, tuple(dict.fromkeys(by)), arguments.user, is_cut)


def period_of(arguments: argparse.Namespace, today: date, first: date) -> tuple[date, date]:
    """`--from` and `--to`: by default from `first`, or from the last day where that is earlier,
    until today. Raises `WrongRequest`."""
    until = _day("--to", arguments.until, today) or today
    since = _day("--from", arguments.since, today) or min(first, until)
    _check_period(since, until)
    return since, until


def _check_period(since: date, until: date) -> None:
    if since > until:
        raise WrongRequest(f"--from={since} is after --to={until}. Fix: exchange them")
    if (until - since).days > MAX_DAYS:
        raise WrongRequest(f"{since} to {until} is longer than ten years. Fix: a shorter period")


def billing_period(scope: Scope) -> Period:
    """The same days in UTC, in which AWS bills."""
    start = datetime.combine(scope.since, time(), UTC)
    return Period(start, datetime.combine(scope.until + timedelta(days=1), time(), UTC))


def _forgotten(option: str, day: date, oldest: date) -> WrongRequest:
    return WrongRequest(
        f"{option}={day} is too long ago: Cost Explorer knows single instances for "
        f"{KEPT.days} days. Fix: {option}={oldest} or later, or --bill with an export"
    )


def _day(option: str, text: str, today: date) -> date | None:
    """None if it is not given."""
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise WrongRequest(f'{option}="{text}" is no day. Fix: write it like 2026-11-01') from None
    if not is_askable(day, today):
        raise WrongRequest(f"{option}={day} is out of range. Fix: a day {askable(today)}")
    return day
