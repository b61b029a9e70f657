"""Entries of the warm pool, beside each other and beside limits of servers."""

from __future__ import annotations

from collections.abc import Iterator

from ...wire import Market
from ..entries.warm_pool import WarmPoolConfig
from ..options import Options
from ..problem import Problem
from .beside import JupyterHubOptions


def pool_entry_problems(options: Options, hub: JupyterHubOptions) -> Iterator[Problem]:
    """Entries and caps without effect, and places that no server can take."""
    yield from _caps(options)
    yield from _repeated(options)
    yield from _more_than_servers(options, hub)


def _caps(options: Options) -> Iterator[Problem]:
    most = options.warm_pool_usd_per_hour
    for index, entry in enumerate(options.warm_pool):
        if most is not None and entry.usd_per_hour is not None and entry.usd_per_hour > most:
            yield Problem(
                f"c.EC2Spawner.warm_pool[{index}].usd_per_hour",
                f"USD {entry.usd_per_hour:g} is above c.EC2Spawner.warm_pool_usd_per_hour, "
                f"{most:g}, which is reached before",
                "lower it, or raise warm_pool_usd_per_hour",
            )


def _repeated(options: Options) -> Iterator[Problem]:
    """Find entries for the same profile and market, of which only the larger number counts."""
    for index, entry in enumerate(options.warm_pool):
        for other_index, other in enumerate(options.warm_pool):
            is_first = entry == other and index < other_index
            if index == other_index or is_first or not _covers(other, entry, options):
                continue
            yield Problem(
                f"c.EC2Spawner.warm_pool[{index}]",
                f"c.EC2Spawner.warm_pool[{other_index}] asks for as much or more of the same "
                "profile and market at all its hours, and the larger number counts",
                "remove it, or give the two different hours in `when`",
            )
            break


def _covers(other: WarmPoolConfig, entry: WarmPoolConfig, options: Options) -> bool:
    return (
        _market(other, options) == _market(entry, options) is not None
        and other.profile == entry.profile
        and other.when in ("", entry.when)
        and isinstance(other.running, int)
        and isinstance(entry.running, int)
        and other.running >= entry.running
        and other.stopped >= entry.stopped
        and other.attach_homes_ahead >= entry.attach_homes_ahead
        and other.usd_per_hour in (None, entry.usd_per_hour)
    )


def _market(entry: WarmPoolConfig, options: Options) -> Market | None:
    if entry.market:
        return Market(entry.market)
    return next((x.markets[0] for x in options.profiles if x.slug == entry.profile), None)


def _more_than_servers(options: Options, hub: JupyterHubOptions) -> Iterator[Problem]:
    bounds = [("c.EC2Spawner.limits.hub.servers", options.limits.hub.servers)]
    if not options.runs.at_once and not options.clusters.max_workers:
        bounds.append(("c.JupyterHub.active_server_limit", hub.max_servers or None))
    for index, entry in enumerate(options.warm_pool):
        for name, most in bounds:
            if most is not None and isinstance(entry.running, int) and entry.running > most:
                yield Problem(
                    f"c.EC2Spawner.warm_pool[{index}].running",
                    f"{entry.running} instances wait for at most {most} servers ({name}): the "
                    "others cost money and serve nobody",
                    f"write {most} or less, or raise {name}",
                )
                break
