"""Options that are valid alone, and impossible or without effect together. Pure.

`impossible` is what nobody could ever get: a hub with it does not start. `ineffective` is all else
that follows from the configuration, and `priced` what follows with prices: warnings of the check,
and lines of the hub's log. Nothing is reported that a default brings about, nor what is uncertain
because a function of the admin decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from itertools import chain

from ..options import Options
from ..problem import Problem
from .alarms import alarm_problems
from .beside import GroupOverride, JupyterHubOptions
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
    "GroupOverride",
    "JupyterHubOptions",
    "KnownPrices",
    "bundled_prices",
    "impossible",
    "ineffective",
    "priced",
]


def ineffective(options: Options, hub: JupyterHubOptions, now: datetime) -> tuple[Problem, ...]:
    """Every option that has no effect beside another one; `now` is UTC."""

    def judged(options: Options) -> Iterator[Problem]:
        return chain(
            start_problems(options, hub),
            profile_problems(options),
            home_problems(options, hub),
            idle_problems(options),
            purchase_problems(options, now),
            pool_entry_problems(options, hub),
            workload_problems(options),
            limit_findings(options),
            alarm_problems(options),
        )

    own = chain.from_iterable(each.problems for each in hub.group_overrides)
    return (*_for_all_groups(judged, options, hub.group_overrides), *own)


def priced(
    options: Options, hub: JupyterHubOptions, prices: KnownPrices, now: datetime
) -> tuple[Problem, ...]:
    """Limits, caps and discounts that no price fits; `now` is UTC."""

    def judged(options: Options) -> Iterator[Problem]:
        return priced_problems(options, prices, now)

    return tuple(_for_all_groups(judged, options, hub.group_overrides))


def _for_all_groups(
    judged: Callable[[Options], Iterable[Problem]],
    options: Options,
    overrides: Iterable[GroupOverride],
) -> Iterator[Problem]:
    """The problems of the hub's options, but for what has an effect for members of a group; and
    those of what groups override."""
    found = list(judged(options))
    of_groups = [(each, list(judged(each.options))) for each in overrides if each.options]
    for problem in found:
        if all(problem in others or _top(problem) in each.changed for each, others in of_groups):
            yield problem
    for each, others in of_groups:
        for problem in others:
            if problem not in found and _top(problem) in each.changed:
                below = problem.option.removeprefix("c.EC2Spawner.")
                yield replace(problem, option=f"{each.option}.{below}")


def _top(problem: Problem) -> str:
    """`profile_list` of `c.EC2Spawner.profile_list[0].sleep ("T4")`."""
    return problem.option.removeprefix("c.EC2Spawner.").partition(".")[0].partition("[")[0]
