"""What is asked of `ec2spawner report`, checked before anything is read. Pure."""

from __future__ import annotations

import argparse
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from ..core.ledger.reconciliation import Period
from .contents import DIMENSIONS, Scope

MAX_DAYS: Final = 3660
"""Ten years: a longer period is a slip."""


class WrongRequest(Exception):
    """The request cannot be answered; the message says why, and what to do."""


def scope_of(arguments: argparse.Namespace, hub: str, time_zone: str, today: date) -> Scope:
    """The scope of a report: by default this month until today. Raises `WrongRequest`."""
    until = _day("--to", arguments.until) if arguments.until else today
    since = _day("--from", arguments.since) if arguments.since else min(today, until).replace(day=1)
    if since > until:
        raise WrongRequest(f"--from={since} is after --to={until}. Fix: exchange them")
    if (until - since).days > MAX_DAYS:
        raise WrongRequest(f"{since} to {until} is longer than ten years. Fix: a shorter period")
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
    return Scope(hub, since, until, time_zone, tuple(dict.fromkeys(by)), arguments.user)


def billing_period(scope: Scope) -> Period:
    """The same days in UTC, in which AWS bills."""
    start = datetime.combine(scope.since, time(), UTC)
    return Period(start, datetime.combine(scope.until + timedelta(days=1), time(), UTC))


def _day(option: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise WrongRequest(f'{option}="{text}" is no day. Fix: write it like 2026-11-01') from None
