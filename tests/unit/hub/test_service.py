"""Waiting for the provisioner of a hub that is starting."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ec2spawner.hub.app import service
from tests.virtual_time import in_virtual_time

PROVISIONER: Any = object()


@pytest.fixture(autouse=True)
def _no_hub_is_left() -> Iterator[None]:
    service.publish(None)
    yield
    service.publish(None)


def hub_service() -> service.HubService:
    nothing: Any = None
    return service.HubService(options=nothing, seal=nothing, verifier=nothing, accounts=nothing)


@in_virtual_time
async def test_all_waiters_get_the_provisioner_at_once() -> None:
    waiting = [asyncio.create_task(service.wait_for_provisioner(10)) for _ in range(3)]
    await asyncio.sleep(1)
    running = hub_service()
    service.publish(running)
    await asyncio.sleep(1.01)
    assert not any(task.done() for task in waiting), "it has not started yet"
    running.started(PROVISIONER)
    began = asyncio.get_running_loop().time()
    assert await asyncio.gather(*waiting) == [PROVISIONER] * 3
    assert asyncio.get_running_loop().time() == began, "no polling interval"
    assert await service.wait_for_provisioner(10) is PROVISIONER


@in_virtual_time
async def test_a_provisioner_that_starts_too_late_is_none() -> None:
    service.publish(hub_service())
    began = asyncio.get_running_loop().time()
    assert await service.wait_for_provisioner(0.2) is None
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.2)
