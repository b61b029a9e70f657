"""Runs and clusters beside payers and limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..options import Options
from ..problem import Problem
from .places import numbered, of_profile


def workload_problems(options: Options) -> Iterator[Problem]:
    """Find options of runs and clusters that payers or limits leave without effect."""
    yield from _runs(options)
    yield from _clusters(options)


def _runs(options: Options) -> Iterator[Problem]:
    runs, where = options.runs, "c.EC2Spawner.runs"
    own = runs.at_once_per_user
    if not runs.at_once:
        for name in ("at_once_per_user", "priorities"):
            if getattr(runs, name):
                what = 'is for runs, and "at_once" is 0, which allows none'
                yield Problem(f"{where}.{name}", what, 'add "at_once": 20, or leave it out')
        return
    if own is not None and own > runs.at_once:
        yield Problem(
            f"{where}.at_once_per_user",
            f'{own} is above "at_once", {runs.at_once}, which holds for all users together',
            f'write {runs.at_once} or less, or raise "at_once"',
        )
    for number, name, limit, bound in (
        (runs.at_once, "at_once", "hub", options.limits.hub.servers),
        (own, "at_once_per_user", "user", _most_servers_of_a_user(options)),
    ):
        if number is not None and bound is not None and number > bound:
            yield Problem(
                f"{where}.{name}",
                f'{number} is above "servers" of c.EC2Spawner.limits.{limit}, {bound}, which '
                "counts each run as a server",
                f"write {bound} or less, or raise c.EC2Spawner.limits.{limit}.servers",
            )
    yield from _priorities(options)


def _priorities(options: Options) -> Iterator[Problem]:
    payers = options.payers
    paying: Mapping[str, object] = {"group": payers.group, "project": payers.project}
    for payer in options.runs.priorities:
        kind, _, name = payer.partition(":")
        if payers.user if kind == "user" else name in paying[kind]:  # type: ignore[operator]
            continue
        pays = {
            "user": 'add "user": True there',
            "group": f'add "group": ["{name}"] there',
            "project": f'add "project": {{"{name}": {{"users": [...]}}}} there',
        }[kind]
        yield Problem(
            f'c.EC2Spawner.runs.priorities["{payer}"]',
            f"no run is ever charged to this {kind}: by c.EC2Spawner.payers it pays for nobody",
            f"{pays}, or name one that pays",
        )


def _most_servers_of_a_user(options: Options) -> int | None:
    """The highest `servers` that any user has; None where somebody has no limit."""
    found = [options.limits.user.servers]
    found += [x.servers for x in options.limits.users.values() if "servers" in x.model_fields_set]
    known = [each for each in found if each is not None]
    return max(known) if len(known) == len(found) else None


def _clusters(options: Options) -> Iterator[Problem]:
    workers = options.clusters.max_workers
    for limit, bound in (
        ("hub", options.limits.hub.servers),
        ("user", _most_servers_of_a_user(options)),
    ):
        if workers and bound is not None and workers + 1 > bound:
            yield Problem(
                "c.EC2Spawner.clusters.max_workers",
                f'{workers} workers and their server are more than "servers" of '
                f"c.EC2Spawner.limits.{limit}, {bound}, which counts each worker as a server",
                f"write {max(bound - 1, 0)} or less, or raise c.EC2Spawner.limits.{limit}.servers",
            )
    for index, profile in numbered(options):
        if profile.placement_group and not workers:
            yield Problem(
                of_profile(index, profile, "placement_group"),
                "is for workers of clusters, and c.EC2Spawner.clusters allows none",
                'c.EC2Spawner.clusters = {"max_workers": 8}, or leave it out',
            )
