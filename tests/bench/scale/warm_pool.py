"""Clicks on a warm pool: from the click to a ready server whose instance runs already."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ec2spawner.spawner import EC2Spawner
from tests.bench.figures import Figure, median, p95
from tests.bench.scale.rig.canned_site import CannedSite
from tests.bench.scale.starts import BOOT_SECONDS, show_stalls
from tests.harness import until

OPTION = "warm_pool"

POOL = 20

SINGLE_CLICKS = 5
"""Clicks one after the other on a full pool, for a median."""

FILL_SECONDS = 120.0

PROFILE = "t4-16-gb"
COLD_PROFILE = "a10g-24-gb"
"""A profile that has no pool: its start is the cold one beside the warm ones."""

NONE: dict[str, Figure] = dict.fromkeys(
    ("warm20_p95_s", "warm20_max_s", "warm1_median_s", "cold_beside_warm_s")
)


async def warm_pool(directory: Path, console: Console) -> dict[str, Figure]:
    """Single clicks, then as many at once as there are warm instances, and a cold start."""
    if OPTION not in EC2Spawner.class_trait_names():
        console.print(f"skipped: this version has no option c.EC2Spawner.{OPTION}")
        return NONE
    rule = {"profile": PROFILE, "running": POOL}
    async with CannedSite(directory, BOOT_SECONDS, {OPTION: [rule]}) as site:
        people = [f"student-{number:03}" for number in range(POOL)]
        single = [f"early-{number}" for number in range(SINGLE_CLICKS)]
        await site.add_users([*people, *single, "cold"])
        await site.add_tokens([*people, *single, "cold"])
        await _full(site)
        singly = []
        for user in single:
            singly.append(await site.start(user, {"profile": PROFILE}))
            await _full(site)
        began = time.time()
        cold, *warm = await asyncio.gather(
            site.start("cold", {"profile": COLD_PROFILE}),
            *(site.start(user, {"profile": PROFILE}) for user in people),
        )
        turns = site.hub.turns(began, time.time())
    table = Table("warm pool", "clicks", "median s", "p95 s", "max s")
    for name, values in (("one", singly), ("at once", warm), ("cold beside them", [cold])):
        figures = (median(values), p95(values), max(values))
        table.add_row(name, str(len(values)), *(f"{figure:.2f}" for figure in figures))
    console.print(table)
    show_stalls("warm starts", turns, console)
    return {
        "warm20_p95_s": p95(warm),
        "warm20_max_s": max(warm),
        "warm1_median_s": median(singly),
        "cold_beside_warm_s": cold,
    }


async def _full(site: CannedSite) -> None:
    """Wait until as many agents as the pool has places wait for a lease."""

    async def is_full() -> bool:
        return site.agents.waiting >= POOL

    await until(is_full, FILL_SECONDS, f"{POOL} warm instances")
    await asyncio.sleep(1)  # the pass that counts them
