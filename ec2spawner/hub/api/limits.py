"""Limits as the pages about usage show them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from pydantic import AwareDatetime

from ...core.ledger import exact
from ...core.limits.admission import gpu_hours
from ...core.limits.bounds import Kind
from ...core.limits.words import limit_words
from ...provisioner.overview import LimitNow
from .user_call import Model


class LimitModel(Model):
    """One limit, and how much of it is used. `limit`, `used` and `left` are in its unit."""

    scope: str
    """Whom it binds: `user:ann`, `group:research`, `project:nlp` or `hub`."""
    kind: Kind
    """The option: `usd_per_month`, `usd_per_window`, `credit_usd`, `gpu_hours_per_month`,
    `usd_per_hour` or `servers`."""
    words: str
    """Such as `$200 per month of ann`."""
    limit: float
    used: float
    """Costs are estimates."""
    at_least: bool
    """Not all that is used has a known price: `used` is a lower bound and `left` an upper one."""
    left: float
    percent: int
    """Used, rounded down."""
    renews: date | None
    """The first day on which more is left; null for never, and for what binds only what runs."""
    reached_at: AwareDatetime | None
    """When nothing is left at the present rate; null if it renews before, and for what binds only
    what runs."""


def limit_models(limits: Iterable[LimitNow]) -> tuple[LimitModel, ...]:
    """The limits as users and programs get them."""
    return tuple(map(_model, limits))


def _model(found: LimitNow) -> LimitModel:
    standing = found.standing
    kind = standing.kind
    return LimitModel(
        scope=standing.scope,
        kind=kind,
        words=limit_words(standing.scope, kind, standing.limit, found.bounds),
        limit=_in_unit(kind, standing.limit),
        used=_in_unit(kind, standing.used),
        at_least=standing.at_least,
        left=_in_unit(kind, standing.left),
        percent=standing.percent,
        renews=standing.renews,
        reached_at=found.reached_at,
    )


def _in_unit(kind: Kind, amount: int) -> float:
    match kind:
        case Kind.SERVERS:
            return float(amount)
        case Kind.GPU_HOURS:
            return gpu_hours(amount)
        case _:
            return exact.usd(amount)
