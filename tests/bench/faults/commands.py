"""What an operator types while AWS fails: `ec2spawner check` and `ec2spawner prices`."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ec2spawner.check.finding import Finding, State
from ec2spawner.check.hub_config import HubConfig, load
from ec2spawner.check.run import check
from ec2spawner.prices.region import read_regions
from tests.bench.faults.cells import Cell, Ended, unclear
from tests.bench.faults.site import HERE, USUAL, Site, timed
from tests.bench.faults.timeout import HURRIED
from tests.harness import OF_EACH_HUB, free_ports

NAME = "notebooks"
"""Of the instance profile and the key pair."""


FOR_A_CHECK = frozenset({"GetCallerIdentity"})
"""Without an answer to these nothing else is looked at."""


class Commands:
    """In this process: what a command prints is what these functions return."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._config: HubConfig | None = None

    async def prepare(self) -> None:
        """Make what the configuration names, and read it."""
        await asyncio.to_thread(self._prepare)

    async def check(self) -> list[Finding]:
        assert self._config is not None
        found = await check(self._config, now=datetime.now(UTC))
        return [each for each in found if each.state is not State.OK]

    async def prices(self) -> str:
        """Why the region could not be read; empty where it could."""
        assert self._config is not None
        options = self._config.options
        [region] = await read_regions(
            [options.region],
            options.profiles,
            architecture=options.architecture,
            volumes_of=options.volumes_of,
            endpoint_url=options.endpoint_url,
            measure_latency=False,
            now=datetime.now(UTC),
        )
        return region.error

    def _prepare(self) -> None:
        described = self._site.embedded.described
        os.environ.update(self._site.embedded.credentials)
        ec2 = self._site.embedded.client()
        ec2.create_key_pair(KeyName=NAME)
        self._site.embedded.client("iam").create_instance_profile(InstanceProfileName=NAME)
        hub, api, proxy = free_ports(3)
        os.environ["EC2SPAWNER_DEMO"] = json.dumps(
            described
            | {
                "hub_url": f"http://127.0.0.1:{hub}",
                "hub_api_bind_url": f"http://127.0.0.1:{api}",
                "proxy_api_url": f"http://127.0.0.1:{proxy}",
                "data_dir": str(self._site.hub.directory),
            }
            | OF_EACH_HUB
        )
        self._config = load(
            HERE / "hub_config.py",
            [
                f"--EC2Spawner.instance_profile={NAME}",
                f"--EC2Spawner.key_name={NAME}",
            ],
        )


async def play_prices(site: Site, commands: Commands, cell: Cell) -> Ended:
    await site.order([cell])
    ended = await timed(cell, _bounded(commands.prices()))
    ended = replace(ended, struck=await site.struck(cell))
    await site.clear()
    return ended


async def play_checks(site: Site, commands: Commands, cells: Sequence[Cell]) -> list[Ended]:
    """Cells of one kind and mode. What does not hide anything else fails in one and the same
    check: each has a finding of its own, in order."""
    usual = {finding.name for finding in await commands.check()}
    separate = [[cell] for cell in cells if _hides_others(cell)]
    together = [cell for cell in cells if not _hides_others(cell)]
    return [
        ended
        for each in (*separate, together)
        if each
        for ended in await _checked(site, commands, each, usual)
    ]


def _hides_others(cell: Cell) -> bool:
    """Also by taking all the time that a check has."""
    return cell.row.action.name in FOR_A_CHECK or cell.kind == "hang"


async def _checked(
    site: Site, commands: Commands, cells: Sequence[Cell], usual: Collection[str]
) -> list[Ended]:
    async def said() -> str:
        new = [finding for finding in await commands.check() if finding.name not in usual]
        findings = [f"{f.name}: {f.said.rstrip('.')}. Fix: {f.fix}" for f in new]
        vague = (each for each in findings if unclear(each))
        return next(vague, "; ".join(findings))

    await site.order(cells)
    ended = await timed(cells[0], _bounded(said()))
    struck = [await site.struck(cell) for cell in cells]
    await site.clear()
    return [replace(ended, cell=c, struck=s) for c, s in zip(cells, struck, strict=True)]


async def _bounded(command: Awaitable[str]) -> str:
    async with asyncio.timeout(HURRIED.command + USUAL):
        return await command
