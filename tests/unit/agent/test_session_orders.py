"""The order to save the session, and how long the agent waits for the notebook to carry it out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest

from ec2spawner.agent.termination.session_orders import (
    ACCEPT_SECONDS,
    POLL_SECONDS,
    SLACK_SECONDS,
    SessionOrders,
)
from ec2spawner.wire import SavedSession, SessionSaved, SleepOrder, SleepProgress, Trigger
from tests.virtual_time import in_virtual_time

NOW = datetime(2026, 11, 3, 14, tzinfo=UTC)


def saved(order_id: str) -> SessionSaved:
    session = SavedSession(
        id=order_id, slept_at=NOW, trigger="user", seconds=1, size_bytes=1, kernels=[]
    )
    return SessionSaved(id=order_id, session=session)


class Extension:
    """A notebook extension: `says` is its answer to the first order."""

    def __init__(
        self, says: Callable[[SleepOrder], list[SleepProgress | SessionSaved]] = lambda _: []
    ) -> None:
        self.orders: list[SleepOrder] = []
        self.agent = SessionOrders(self._receive, now=lambda: NOW)
        self._says = says

    def _receive(self, order: SleepOrder) -> None:
        self.orders.append(order)
        if len(self.orders) == 1:
            for each in self._says(order):
                self.agent.hear(each)

    async def saves(
        self, left: Callable[[], float], trigger: Trigger = "user"
    ) -> SavedSession | None:
        async with asyncio.timeout(300):
            return await self.agent.save(trigger, 1000, left)


def progress(order: SleepOrder) -> list[SleepProgress | SessionSaved]:
    return [SleepProgress(id=order.id)]


@in_virtual_time
async def test_a_notice_that_comes_meanwhile_sends_the_same_order_with_a_nearer_end() -> None:
    extension = Extension(progress)
    left = 120.0

    def seconds_left() -> float:
        nonlocal left
        if len(extension.orders) == 2:
            extension.agent.hear(saved(extension.orders[0].id))
        elif extension.orders:
            left = 5.0
        return left

    session = await extension.saves(seconds_left)
    first, second = extension.orders
    assert (first.until - NOW, second.until - NOW) == (timedelta(seconds=120), timedelta(seconds=5))
    assert second == first.model_copy(update={"until": second.until})
    assert session is not None
    assert session.id == first.id


@pytest.mark.parametrize(
    ("says", "waited"),
    [
        pytest.param(lambda order: [], ACCEPT_SECONDS, id="knows no sleep"),
        pytest.param(progress, 60 + SLACK_SECONDS, id="accepts, then says nothing"),
        pytest.param(
            lambda order: [*progress(order), saved("another")],
            60 + SLACK_SECONDS,
            id="accepts, then answers another order",
        ),
        pytest.param(
            lambda order: [saved("another")], ACCEPT_SECONDS, id="answers another order only"
        ),
    ],
)
@in_virtual_time
async def test_who_does_not_save_is_waited_for_as_long_as_agreed(
    says: Callable[[SleepOrder], list[SleepProgress | SessionSaved]], waited: float
) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await Extension(says).saves(lambda: began + 60 - loop.time()) is None
    assert waited < loop.time() - began <= waited + 2 * POLL_SECONDS


@pytest.mark.parametrize("trigger", get_args(Trigger))
@in_virtual_time
async def test_only_a_session_that_nobody_uses_has_nothing_to_interrupt(trigger: Trigger) -> None:
    extension = Extension(lambda order: [saved(order.id)])
    session = await extension.saves(lambda: 60.0, trigger)
    assert session is not None
    assert session.trigger == trigger
    [order] = extension.orders
    assert (order.trigger, order.interrupt_busy) == (trigger, trigger != "idle")
