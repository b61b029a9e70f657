"""A short command in a process of its own, which finds most of its imports made."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import nursery
from tests.nursery import ForkedProcess

TIMEOUT = 300.0
"""Seconds for a command, on a busy machine with two cores."""


@dataclass(frozen=True, slots=True)
class Ended:
    status: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        return json.loads(self.output)


async def run_command(
    program: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    on_start: Callable[[ForkedProcess], None] = lambda process: None,
) -> Ended:
    """What `python -c program` does beside a hub, to its end."""
    assert nursery.shared is not None
    forks = nursery.shared.of("jupyterhub")
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = forks.fork(arguments, environment, directory, output, errors, program)
        on_start(process)
        status = await asyncio.wait_for(process.wait(), TIMEOUT)
        return Ended(status, output.read_text(), errors.read_text())
