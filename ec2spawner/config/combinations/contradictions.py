"""Options that together leave nobody what one of them offers: the hub does not start."""

from __future__ import annotations

from collections.abc import Iterator

from ..options import Options
from ..problem import Problem


def impossible(options: Options) -> Iterator[Problem]:
    """Find what an option offers and nobody could ever get on this hub."""
    yield from _nobody_pays(options)
    yield from _nothing_beside_containers(options)
    yield from _no_home_beside_root(options)


def _nobody_pays(options: Options) -> Iterator[Problem]:
    payers = options.payers
    if not payers.user and not payers.group and not payers.project:
        yield Problem(
            "c.EC2Spawner.payers",
            '"user" is False, and no "group" or "project" may pay, so nobody can start anything',
            'leave out "user", or add a payer, such as "group": ["research"]',
        )


def _nothing_beside_containers(options: Options) -> Iterator[Problem]:
    if not options.image.container:
        return
    why = 'needs servers without containers, and c.EC2Spawner.image has a "container"'
    if options.runs.at_once:
        yield Problem(
            "c.EC2Spawner.runs.at_once",
            f"{why}: each run would be refused",
            'leave out c.EC2Spawner.runs, or "container" of c.EC2Spawner.image',
        )
    if options.clusters.max_workers:
        yield Problem(
            "c.EC2Spawner.clusters.max_workers",
            f"{why}: each cluster would be refused",
            'leave out c.EC2Spawner.clusters, or "container" of c.EC2Spawner.image',
        )


def _no_home_beside_root(options: Options) -> Iterator[Problem]:
    """Homes on EFS with AWS's image, whose user has `sudo`: `agent/mounts/root_access.py`."""
    if options.home.kind == "efs" and options.image.is_stock:
        yield Problem(
            "c.EC2Spawner.home.kind",
            '"efs" lets root on an instance read and change all homes, so agents do not mount it '
            "where the notebook user can become root, as that of c.EC2Spawner.image can, which is "
            "AWS's: each start would fail",
            'use "kind": "ebs", or an image as in "Homes on EFS" of docs/how-to/homes.md',
        )
