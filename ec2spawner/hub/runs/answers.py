"""Runs as JSON, without holding up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from ...provisioner.model.leases.run import Run
from ...provisioner.provisioner import Provisioner
from ...wire import RunSummary
from ..app.call_limits import CallLimits

FEW: Final = 50
"""Runs that take a millisecond or two."""

RUNS_PER_TOKEN: Final = 100
"""A call whose answer has so many more runs takes one more token of its user's."""


def tokens_of(runs: int) -> int:
    """What an answer with so many runs takes, besides the token of its call."""
    return runs // RUNS_PER_TOKEN


async def runs_json(
    limits: CallLimits,
    provisioner: Provisioner,
    user: str,
    runs: Sequence[Run],
    others: Mapping[str, str],
) -> str:
    """An object with `runs`, and the other fields, which are JSON. Raises `TooManyAtOnce`."""
    if len(runs) <= FEW:
        return _json(await provisioner.runs.summaries(runs), others)
    async with limits.lists.turn(user):
        shown = await provisioner.runs.summaries(runs)
        return await asyncio.to_thread(_json, shown, others)


def _json(runs: Sequence[RunSummary], others: Mapping[str, str]) -> str:
    # Each by itself: pydantic lets no other thread run while it writes one model.
    written = ",".join(run.model_dump_json() for run in runs)
    fields = [f'"{name}":{value}' for name, value in others.items()]
    return "{" + ",".join([*fields, f'"runs":[{written}]']) + "}"
