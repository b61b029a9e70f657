"""Limits beside each other and beside the profiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ... import data
from ..entries.limits import BoundsConfig
from ..entries.profile import Profile
from ..options import Options
from ..problem import Problem

_AMOUNTS: Final = ("usd_per_month", "usd_per_window", "credit_usd", "gpu_hours_per_month")
"""Limits that `at_limit` applies to."""

_AT_ALL_TIMES: Final = ("usd_per_hour", "servers")
"""Limits that the hub's `at_limit` does not loosen."""


def limit_findings(options: Options) -> Iterator[Problem]:
    """Limits that are never reached, and those that leave nothing."""
    yield from _limits_above_the_hubs(options)
    yield from _ends_of_nothing(options)
    yield from _nothing_starts(options)
    yield from _hours_of_no_gpu(options)


def scopes(options: Options) -> Iterator[tuple[str, BoundsConfig]]:
    """Every scope with limits, by its place below `c.EC2Spawner.limits`."""
    limits = options.limits
    yield "user", limits.user
    for kind in ("users", "group", "project"):
        for name, words in getattr(limits, kind).items():
            yield f'{kind}["{name}"]', words
    yield "hub", limits.hub


def _limits_above_the_hubs(options: Options) -> Iterator[Problem]:
    """Find limits above the hub's, in which all counts, too: that is reached first."""
    hub = options.limits.hub
    names = [*_AT_ALL_TIMES, "max_run"]
    if (hub.at_limit or options.limits.at_limit) == "stop":
        names += ["usd_per_month", "gpu_hours_per_month", "usd_per_window"]
    for where, words in scopes(options):
        for name in names if where != "hub" else ():
            own, of_all = getattr(words, name), getattr(hub, name)
            is_other_window = name == "usd_per_window" and words.window_days != hub.window_days
            if own is None or of_all is None or own <= of_all or is_other_window:
                continue
            unit = " s" if name == "max_run" else ""
            yield Problem(
                f"c.EC2Spawner.limits.{where}.{name}",
                f"{own:g}{unit} is above c.EC2Spawner.limits.hub.{name}, {of_all:g}{unit}, which "
                "holds for all servers and is reached before",
                f"write {of_all:g}{unit} or less, or raise that of the hub",
            )


def _ends_of_nothing(options: Options) -> Iterator[Problem]:
    """`at_limit` where nothing is used up: users follow it by the limits of all users."""
    limits = options.limits
    every = dict(scopes(options))
    of_users = [words for where, words in every.items() if where.startswith("user")]
    for where, words in every.items():
        counted = of_users if where.startswith("user") else [words]
        if words.at_limit and not any(map(_has_amount, counted)):
            yield _no_amount(f"limits.{where}.at_limit")
    if limits.at_limit == "warn" and not any(map(_has_amount, every.values())):
        yield _no_amount("limits.at_limit")


def _has_amount(words: BoundsConfig) -> bool:
    return any(getattr(words, name) is not None for name in _AMOUNTS)


def _no_amount(option: str) -> Problem:
    return Problem(
        f"c.EC2Spawner.{option}",
        "is for limits of USD or GPU-hours that are used up, and there is none",
        'add one, such as "usd_per_month": 200, or leave it out',
    )


def _nothing_starts(options: Options) -> Iterator[Problem]:
    """0 for one user, group or project may be meant; 0 for all closes the hub."""
    limits = options.limits
    for where, words in (("user", limits.user), ("hub", limits.hub)):
        for name in ("servers", "usd_per_hour", "usd_per_month", "usd_per_window", "credit_usd"):
            is_raised = where == "user" and any(
                name in each.model_fields_set and getattr(each, name) != 0
                for each in limits.users.values()
            )
            if getattr(words, name) == 0 and not is_raised:
                yield Problem(
                    f"c.EC2Spawner.limits.{where}.{name}",
                    "is 0, so nobody can start a server of any profile of c.EC2Spawner."
                    "profile_list",
                    "raise it, or leave it out for no limit",
                )


def _hours_of_no_gpu(options: Options) -> Iterator[Problem]:
    if not options.profiles or any(map(_may_have_gpu, options.profiles)):
        return
    for where, words in scopes(options):
        if words.gpu_hours_per_month is not None:
            yield Problem(
                f"c.EC2Spawner.limits.{where}.gpu_hours_per_month",
                "limits GPU-hours, and no profile of c.EC2Spawner.profile_list has a GPU",
                'write another limit, such as "usd_per_month": 200, or a profile with a "gpu"',
            )


def _may_have_gpu(profile: Profile) -> bool:
    """Types that are not bundled may have one."""
    kinds = [data.instance_types().get(name) for name in profile.instance_types]
    return bool(profile.gpu) or any(kind is None or kind.gpu for kind in kinds)
