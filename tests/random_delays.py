"""Random delays between the steps of a pass, in the store's thread and before EC2's answers.

A pytest plugin that shows which tests, and which code, depend on their order:
`pytest -p tests.random_delays --delays 7 tests/unit/provisioner`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeVar

import pytest

from ec2spawner.provisioner.reconciler import Reconciler
from ec2spawner.provisioner.store.databases.database_thread import DatabaseThread
from tests.simulated_cloud import Fault, SimulatedCloud

LONGEST: Final = 0.012
"""Seconds: longer than the pause between two listings of the tests (`world.SETTINGS`)."""

SHARE: Final = 0.7
"""Of the steps that are delayed."""

T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--delays", type=int, default=1, metavar="SEED", help="seed of the delays")


@pytest.fixture(scope="session", autouse=True)
def _random_delays(request: pytest.FixtureRequest) -> Iterator[None]:
    drawn = random.Random(request.config.getoption("--delays"))
    reconcile = Reconciler.reconcile
    run_in_thread, receive = DatabaseThread._in_thread, SimulatedCloud._receive

    def delay() -> float:
        return drawn.random() * LONGEST if drawn.random() < SHARE else 0.0

    class Delay:
        async def reconcile(self, _now: datetime) -> None:
            await asyncio.sleep(delay())

    async def late_reconcile(reconciler: Reconciler) -> None:
        steps = [step for each in reconciler.controllers for step in (Delay(), each)]
        await reconcile(replace(reconciler, controllers=steps))

    async def late_in_thread(thread: DatabaseThread, work: Callable[[], T]) -> T:
        def late() -> T:
            time.sleep(delay())
            return work()

        return await run_in_thread(thread, late)

    async def late_receive(cloud: SimulatedCloud, name: str, *arguments: Any) -> Fault | None:
        await asyncio.sleep(delay())
        return await receive(cloud, name, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Reconciler, "reconcile", late_reconcile)
        patch.setattr(DatabaseThread, "_in_thread", late_in_thread)
        patch.setattr(SimulatedCloud, "_receive", late_receive)
        yield
