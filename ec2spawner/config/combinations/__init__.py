"""Options that are valid alone, and impossible or without effect together. Pure.

`impossible` is what nobody could ever get: a hub with it does not start. `ineffective` is all else
that follows from the configuration, and `priced` what follows with prices: warnings of the check,
and lines of the hub's log. Nothing is reported that a default brings about, nor what is uncertain
because a function of the admin decides.
"""

from __future__ import annotations

from datetime import datetime

from ..options import Options
from ..problem import Problem
from .alarms import alarm_problems
from .beside import JupyterHubOptions
from .contradictions import impossible
from .homes import home_problems
from .idle import idle_problems
from .limits import limit_findings
from .pool import pool_entry_problems
from .prices import KnownPrices, bundled_prices, priced_problems
from .profiles import profile_problems
from .purchases import purchase_problems
from .starts import start_problems
from .workloads import workload_problems

__all__ = [
    "JupyterHubOptions",
    "KnownPrices",
    "bundled_prices",
    "impossible",
    "ineffective",
    "priced",
]


def ineffective(options: Options, hub: JupyterHubOptions, now: datetime) -> tuple[Problem, ...]:
    """Every option that has no effect beside another one; `now` is UTC."""
    return (
        *start_problems(options, hub),
        *profile_problems(options),
        *home_problems(options, hub),
        *idle_problems(options),
        *purchase_problems(options, now),
        *pool_entry_problems(options, hub),
        *workload_problems(options),
        *limit_findings(options),
        *alarm_problems(options),
    )


def priced(options: Options, prices: KnownPrices, now: datetime) -> tuple[Problem, ...]:
    """Limits, caps and discounts that no price fits; `now` is UTC."""
    return tuple(priced_problems(options, prices, now))
