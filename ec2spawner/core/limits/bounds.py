"""The limits of one scope, and those of all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

NANO: Final = 1_000_000_000
"""1e-9 USD in a USD: amounts are whole numbers of them, so that no rounding passes a limit."""

GPU_HOUR: Final = 3_600_000_000
"""Microseconds of one GPU in a GPU-hour."""

HOUR: Final = 3_600_000_000
"""Microseconds in an hour."""

MAX_DAYS: Final = 400
"""Days of spending that limits may look back, besides what is missing from a credit."""


class Kind(StrEnum):
    """What a limit bounds. The values are the names of the options."""

    MONTH = "usd_per_month"
    WINDOW = "usd_per_window"
    CREDIT = "credit_usd"
    GPU_HOURS = "gpu_hours_per_month"
    RATE = "usd_per_hour"
    SERVERS = "servers"

    @property
    def is_money(self) -> bool:
        """Whether a price must be known to judge it."""
        return self not in {Kind.GPU_HOURS, Kind.SERVERS}


class AtLimit(StrEnum):
    """What happens to running servers at 100 % of a limit."""

    STOP = "stop"
    WARN = "warn"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one scope; None is no limit."""

    usd_per_month: float | None = None
    usd_per_window: float | None = None
    window_days: int | None = None
    credit_usd: float | None = None
    credit_usd_per_day: float | None = None
    """None or 0 refills nothing."""
    gpu_hours_per_month: float | None = None
    usd_per_hour: float | None = None
    servers: int | None = None
    max_run_seconds: float | None = None
    at_limit: AtLimit = AtLimit.STOP

    def limit(self, kind: Kind) -> int | None:
        """The limit in 1e-9 USD, microseconds of one GPU, or servers; None is no limit."""
        match kind:
            case Kind.MONTH:
                return _nano(self.usd_per_month)
            case Kind.WINDOW:
                return _nano(self.usd_per_window)
            case Kind.CREDIT:
                return _nano(self.credit_usd)
            case Kind.RATE:
                return _nano(self.usd_per_hour)
            case Kind.GPU_HOURS:
                hours = self.gpu_hours_per_month
                return None if hours is None else round(hours * GPU_HOUR)
            case Kind.SERVERS:
                return self.servers

    @property
    def refill(self) -> int:
        """What a credit gains each day, in 1e-9 USD."""
        return _nano(self.credit_usd_per_day) or 0

    @property
    def limits_starts(self) -> bool:
        """Whether any of them can refuse a start."""
        return any(self.limit(kind) is not None for kind in Kind)

    @property
    def days(self) -> int:
        """Days of spending that these limits look back, today included; 0 for none.

        A credit looks back further, by what is missing from it on the first of these days.
        """
        found = [0]
        if self.usd_per_month is not None or self.gpu_hours_per_month is not None:
            found.append(31)
        if self.window_days:
            found.append(self.window_days)
        if self.credit_usd is not None:
            found.append(1)
        return min(max(found), MAX_DAYS)


def _nano(usd: float | None) -> int | None:
    return None if usd is None else round(usd * NANO)


@dataclass(frozen=True, slots=True)
class Limits:
    """All limits of a hub."""

    user: Bounds = field(default_factory=Bounds)
    """Of each user without bounds of their own in `scopes`."""
    scopes: Mapping[str, Bounds] = field(default_factory=dict)
    """Scope -> its bounds; those of a user include what `user` has and they do not replace."""
    grace_seconds: float = 120.0
    """How long a server runs at least after its stop was announced, also if its limit is used up
    already, as after a restart with lower limits."""

    def of(self, scope: str) -> Bounds:
        """The bounds of a scope."""
        return self.scopes.get(scope) or (self.user if scope.startswith("user:") else NONE)

    def has_credit(self, scope: str) -> bool:
        """Whether what a scope has spent long ago still counts."""
        return self.of(scope).credit_usd is not None

    def credit_scopes(self) -> frozenset[str] | None:
        """The scopes with a credit; None if those of all users are among them."""
        if self.user.credit_usd is not None:
            return None
        return frozenset(scope for scope in self.scopes if self.has_credit(scope))

    @property
    def days(self) -> int:
        """Days of spending that the limits look back, today included; 0 without any."""
        return max(each.days for each in self._all())

    @property
    def window_days(self) -> int:
        """The longest window; 0 without any."""
        return min(max(each.window_days or 0 for each in self._all()), MAX_DAYS)

    @property
    def bind(self) -> bool:
        """Whether any limit can refuse a start, or end a server by what it spends."""
        return any(each.limits_starts for each in self._all())

    def max_run_seconds(self, scopes: Iterable[str]) -> float | None:
        """The longest that a lease of these scopes may run; None is no limit."""
        found = [self.of(scope).max_run_seconds for scope in scopes]
        return min((each for each in found if each is not None), default=None)

    def _all(self) -> Iterator[Bounds]:
        yield self.user
        yield from self.scopes.values()


NONE: Final = Bounds()
"""No limits."""
