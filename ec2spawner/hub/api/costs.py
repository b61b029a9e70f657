"""Sums of costs over any range of days, and what idle rules saved.

The models are the contract, described field by field in `docs/reference/http.md`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from pydantic import AwareDatetime
from tornado.web import HTTPError

from ...core.ledger import exact
from ...core.ledger.cost_lines import AMOUNTS, amounts, cost_lines, dearest_first
from ...core.ledger.cost_rows import CostSum, Dimension, Filter, with_names
from ...core.ledger.idle_savings import Savings
from ...core.ledger.local_days import askable, is_askable
from ...core.text.delimited import delimited
from ...provisioner.store.store import StoreError
from ...provisioner.usage import Usage
from ..app.call_limits import DEAR_CALL
from .user_call import Model, UserCall, require_instances_scope, running, store_failed, whose

MAX_DAYS = 400
"""Days in one range: a year, and the month that it is compared with."""

MAX_DIMENSIONS = 3

EMPTY_SUMS = "[]}"
"""How the JSON of `Costs` without sums ends."""

MICROSECONDS = 3600 * 1e6
"""Of an hour."""


class SumModel(Model):
    """The costs that agree in the dimensions of `Costs.by`."""

    key: tuple[str, ...]
    """Their values, in the order of `by`; days as `2026-11-23`."""
    usd: float
    """An estimate: list prices or configured discounts. As far as prices are known."""
    unknown: int
    """Parts whose price is unknown: with any, `usd` is a lower bound."""
    saved_usd: float
    """What the same time on demand would have cost more; negative if it would have cost less."""
    hours: float
    """Of instances."""
    gpu_hours: float
    gpu_measured_hours: float
    """GPU-hours in which the use of GPUs was measured: while a server is ready."""
    gpu_busy_hours: float
    """Those in which the GPUs worked."""


class Costs(Model):
    """`GET costs` and `GET usage/costs`."""

    first_day: date
    last_day: date
    """Included."""
    today: date
    month_ends: AwareDatetime
    """When this month ends in the hub's time zone."""
    time_zone: str
    """In which days begin: the option `time_zone`."""
    by: tuple[Dimension, ...]
    sums: tuple[SumModel, ...]


class ReplayModel(Model):
    """The same sessions under one idle limit."""

    limit_seconds: float
    idle_usd: float
    """What idle time would have cost."""
    saved_usd: float
    stops: int
    """Idle periods that were longer: each would have been a stop."""


class IdleSavings(Model):
    """`GET idle-savings`: all USD are estimates."""

    first_day: date
    last_day: date
    sessions: int
    """That ended on these days, at known prices. A start that never became ready is none."""
    unknown: int
    """Those that had idle time, or an idle stop, at an unknown price: left out."""
    idle_usd: float
    """What idle time did cost."""
    idle_stops: int
    stops_saved_usd: float
    """What the idle stops saved: until the server's next start, at most 12 hours each."""
    replays: tuple[ReplayModel, ...]
    hub_limit_seconds: float
    """The hub's own limit, which profiles, groups and users may change; 0 if it has none."""


class CostsHandler(UserCall):
    """Costs of all users, and overhead."""

    async def get(self) -> None:
        """`GET costs?from=&to=&by=`: 400 for a wrong argument, 403 without the scope."""
        require_instances_scope(self)
        await answer_costs(self, None)


class UsageCostsHandler(UserCall):
    """Costs of the caller; with the scope of admins also those of another user."""

    CALL_TOKENS = DEAR_CALL

    async def get(self) -> None:
        """`GET usage/costs?from=&to=&by=`: 403 for another user's without the scope."""
        await answer_costs(self, {Dimension.USER: [whose(self)]})


class IdleSavingsHandler(UserCall):
    """What idle rules saved, and what others would have saved."""

    async def get(self) -> None:
        """`GET idle-savings?from=&to=`: 403 without the scope."""
        require_instances_scope(self)
        service, provisioner = running()
        first, last = _days(self, provisioner.usage)
        limit = timedelta(seconds=service.options.idle.server)
        try:
            found = await provisioner.usage.idle_savings(first, last, limit)
        except StoreError as error:
            raise store_failed(self, error) from error
        self.set_header("Cache-Control", "no-store")
        self.finish(_savings(found, first, last, limit).model_dump_json())


async def answer_costs(handler: APIHandler, only: Filter | None) -> None:
    """Answer the sums that the request's arguments ask for, of these costs only."""
    _, provisioner = running()
    usage = provisioner.usage
    first, last = _days(handler, usage)
    by, is_csv = _dimensions(handler), _is_csv(handler)
    needed = tuple(dict.fromkeys([*by, Dimension.PURPOSE])) if is_csv else by
    try:
        sums = await usage.costs(first, last, needed, only)
    except StoreError as error:
        raise store_failed(handler, error) from error
    sums = with_names(sums, needed, provisioner.accounts.renamed())
    handler.set_header("Cache-Control", "no-store")
    if is_csv:
        handler.set_header("Content-Type", "text/csv; charset=utf-8")
        handler.finish(await asyncio.to_thread(_csv, sums, needed, by))
        return
    calendar = usage.today(), usage.month_ends(), str(usage.time_zone)
    # Thousands of sums, such as of each day, user and profile, take hundreds of milliseconds.
    handler.finish(await asyncio.to_thread(costs_json, (first, last), calendar, by, sums))


def costs_json(
    days: tuple[date, date],
    calendar: tuple[date, datetime, str],
    by: Sequence[Dimension],
    sums: Sequence[CostSum],
) -> str:
    """The answer: the first and the last of `days` are included; `calendar` is today, when this
    month ends, and the time zone of the days."""
    first, last = days
    today, month_ends, time_zone = calendar
    without_sums = Costs(
        first_day=first,
        last_day=last,
        today=today,
        month_ends=month_ends,
        time_zone=time_zone,
        by=tuple(by),
        sums=(),
    ).model_dump_json()
    # Each by itself: pydantic lets no other thread run while it writes one model.
    written = ",".join(_sum(each).model_dump_json() for each in sums)
    return f"{without_sums.removesuffix(EMPTY_SUMS)}[{written}]}}"


def _days(handler: APIHandler, usage: Usage) -> tuple[date, date]:
    """The range; this month up to today unless it is given. Raises `HTTPError` (400)."""
    today = usage.today()
    last = _day(handler, "to", today) or today
    first = _day(handler, "from", today) or last.replace(day=1)
    if not timedelta() <= last - first < timedelta(days=MAX_DAYS):
        raise HTTPError(400, f"send `from` before `to`, with at most {MAX_DAYS} days between them")
    return first, last


def _day(handler: APIHandler, name: str, today: date) -> date | None:
    """None if it is not given. Raises `HTTPError` (400)."""
    text = handler.get_query_argument(name, "")
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise HTTPError(400, f"`{name}` is a day: send it like 2026-11-23") from error
    if not is_askable(day, today):
        raise HTTPError(400, f"`{name}` is out of range: send a day {askable(today)}")
    return day


def _dimensions(handler: APIHandler) -> tuple[Dimension, ...]:
    names = [name for name in handler.get_query_argument("by", "").split(",") if name]
    try:
        by = tuple(dict.fromkeys(Dimension(name) for name in names))
    except ValueError as error:
        known = ", ".join(Dimension)
        raise HTTPError(400, f"`by` is up to {MAX_DIMENSIONS} of {known}") from error
    if len(by) > MAX_DIMENSIONS:
        raise HTTPError(400, f"`by` has at most {MAX_DIMENSIONS} dimensions")
    return by


def _is_csv(handler: APIHandler) -> bool:
    form: str = handler.get_query_argument("format", "json")
    if form not in {"json", "csv"}:
        raise HTTPError(400, "`format` is json or csv")
    return form == "csv"


def _csv(sums: Sequence[CostSum], dimensions: Sequence[Dimension], by: Sequence[Dimension]) -> str:
    """The same as `ec2spawner report --csv`."""
    lines = dearest_first(cost_lines(sums, dimensions, by), by)
    return delimited([*by, *AMOUNTS], ([*line.key, *amounts(line)] for line in lines))


def _sum(found: CostSum) -> SumModel:
    return SumModel(
        key=found.key,
        usd=exact.usd(found.nano_usd),
        unknown=found.unknown,
        saved_usd=exact.usd(found.on_demand_nano_usd - found.comparable_nano_usd),
        hours=found.microseconds / MICROSECONDS,
        gpu_hours=found.gpu_microseconds / MICROSECONDS,
        gpu_measured_hours=found.gpu_measured / MICROSECONDS,
        gpu_busy_hours=found.gpu_busy / MICROSECONDS,
    )


def _savings(found: Savings, first: date, last: date, limit: timedelta) -> IdleSavings:
    return IdleSavings(
        first_day=first,
        last_day=last,
        sessions=found.sessions,
        unknown=found.unknown,
        idle_usd=found.idle_usd,
        idle_stops=found.idle_stops,
        stops_saved_usd=found.stops_saved_usd,
        replays=tuple(
            ReplayModel(
                limit_seconds=each.limit.total_seconds(),
                idle_usd=each.idle_usd,
                saved_usd=each.saved_usd,
                stops=each.stops,
            )
            for each in found.replays
        ),
        hub_limit_seconds=limit.total_seconds(),
    )


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/costs", CostsHandler),
    (r"/api/ec2/usage/costs", UsageCostsHandler),
    (r"/api/ec2/idle-savings", IdleSavingsHandler),
]
