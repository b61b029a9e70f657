"""The hub's tests that need a provisioner run in virtual time, marked `virtual_time`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path

import pytest

from ec2spawner.config import Profile, validate_options
from tests.unit.provisioner.world import World
from tests.virtual_time import add_seed, draw_the_same, seeded_loop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """All other tests run on a real loop."""
    if item.get_closest_marker("virtual_time"):
        return {"virtual": seeded_loop}
    return {"real": asyncio.new_event_loop}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test in virtual time names its seed."""
    report = yield
    if item.get_closest_marker("virtual_time"):
        add_seed(item, report)
    return report


@pytest.fixture(autouse=True)
def _same_draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("virtual_time"):
        draw_the_same(monkeypatch)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    await made.start()
    yield made
    await made.kill()


@pytest.fixture
def profile() -> Profile:
    written = {
        "region": "us-east-1",
        "subnets": ["subnet-1"],
        "profile_list": [{"display_name": "T4", "slug": "t4", "vcpus": 2, "memory_gib": 4}],
    }
    [found] = validate_options(written, cleanup_servers=False).profiles
    return found
