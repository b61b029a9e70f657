"""Requests wait for their tokens, in their order, and EC2 refuses none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from ec2spawner.aws.calls.request_tokens import CONCURRENT, RequestTokens, TurnTooLateError
from ec2spawner.embedded.gateway.throttle import Throttle
from tests.virtual_time import VirtualTimeLoop, in_virtual_time

ATTACH = "AttachVolume"
"""A bucket of 50 that refills by 5 a second; ours has `OURS`."""

OURS = 45

FAR = 1e9


def now() -> float:
    return asyncio.get_running_loop().time()


class Hub:
    """Sends requests, and records when each went."""

    def __init__(self) -> None:
        self.tokens = RequestTokens()
        self.sent: list[tuple[Any, float]] = []

    async def send(
        self,
        name: Any,
        action: str = ATTACH,
        answer: Callable[[], Awaitable[None]] | None = None,
        latest: float = FAR,
        **parameters: Any,
    ) -> None:
        async with self.tokens.turn(action, parameters, latest):
            self.sent.append((name, now()))
            if answer is not None:
                await answer()

    def begin(self, *names: Any, **more: Any) -> list[asyncio.Task[None]]:
        return [asyncio.ensure_future(self.send(name, **more)) for name in names]


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.0, 0.01, 0.5]), st.floats(0, 1)), min_size=90),
    st.sampled_from([ATTACH, "CreateTags", "DescribeImages", "DescribeVolumes"]),
)
@settings(max_examples=40, deadline=None)
def test_ec2_never_refuses_what_arrives_within_a_second(
    requests: list[tuple[float, float]], action: str
) -> None:
    async def run() -> None:
        hub, ec2 = Hub(), Throttle(asyncio.get_running_loop().time)

        async def arrive(delay: float) -> None:
            await asyncio.sleep(delay)
            ec2.take(action, {})

        sending = []
        for pause, delay in requests:
            await asyncio.sleep(pause)
            sending += hub.begin(delay, action=action, answer=lambda delay=delay: arrive(delay))
        await asyncio.gather(*sending)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(run())


@in_virtual_time
async def test_a_burst_goes_at_once_and_the_rest_by_the_refill_in_its_order() -> None:
    hub = Hub()
    await asyncio.gather(*hub.begin(*range(60)))
    assert [name for name, _ in hub.sent] == list(range(60))
    assert [at for _, at in hub.sent[:OURS]] == [0.0] * OURS
    assert hub.sent[OURS][1] == pytest.approx(0.2)
    assert hub.sent[59][1] == pytest.approx((60 - OURS) / 5)


@in_virtual_time
async def test_cancelled_waiters_leave_no_hole() -> None:
    hub = Hub()
    await asyncio.gather(*hub.begin(*range(OURS)))
    waiting = hub.begin(*range(OURS, OURS + 20))
    await asyncio.sleep(0.01)
    for task in (*waiting[:5], *waiting[10:]):
        task.cancel()
    await asyncio.sleep(0)
    await hub.send("after them", latest=1.3)
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [name for name, _ in hub.sent[OURS:]] == [*range(OURS + 5, OURS + 10), "after them"]
    assert hub.sent[-1][1] == pytest.approx(1.2), "six tokens later, not 21"


@in_virtual_time
async def test_cancelled_at_the_moment_of_its_turn_a_request_returns_its_token() -> None:
    hub, free = Hub(), asyncio.Event()
    sending = hub.begin(*range(CONCURRENT - 1), answer=free.wait)
    async with hub.tokens.turn(ATTACH, {}, FAR):
        (waiting,) = hub.begin("late")
        await asyncio.sleep(0.01)
    waiting.cancel()
    free.set()
    await asyncio.gather(*sending, waiting, return_exceptions=True)
    await asyncio.gather(*hub.begin(*range(OURS - CONCURRENT)))
    assert "late" not in dict(hub.sent)
    assert hub.sent[-1][1] == pytest.approx(0.01), "it found the token that was returned"


@in_virtual_time
async def test_after_a_throttle_a_bucket_is_empty_and_recovers_by_its_refill() -> None:
    hub = Hub()
    await hub.send("first")
    hub.tokens.throttled(ATTACH, {})
    await asyncio.gather(*hub.begin("second", "third"), *hub.begin("tag", action="CreateTags"))
    assert {name: pytest.approx(at) for name, at in hub.sent} == {
        "first": 0.0,
        "tag": 0.0,
        "second": 0.2,
        "third": 0.4,
    }


@in_virtual_time
async def test_a_turn_that_would_come_too_late_is_refused_at_once() -> None:
    hub = Hub()
    waiting = hub.begin(*range(OURS + 10))
    await asyncio.sleep(0)
    await hub.send("in time", latest=2.3)
    late = hub.begin(*range(100, 110), latest=2.3)
    with pytest.raises(TurnTooLateError, match="AttachVolume") as refused:
        await late[0]
    assert now() == pytest.approx(2.2), "the waiting ones kept their places"
    assert (refused.value.code, refused.value.retryable) == ("RequestLimitExceeded", True)
    await asyncio.gather(*waiting, *late, return_exceptions=True)
    assert len(hub.sent) == OURS + 11


@in_virtual_time
async def test_a_late_turn_says_how_many_calls_wait_before_it() -> None:
    hub = Hub()
    hub.tokens.throttled(ATTACH, {})
    with pytest.raises(TurnTooLateError) as refused:
        await hub.send("late", latest=0.1)
    assert "calls wait" not in refused.value.message
    waiting = hub.begin("first", "second")
    await asyncio.sleep(0)
    with pytest.raises(TurnTooLateError, match="2 earlier calls wait"):
        await hub.send("late", latest=0.1)
    await asyncio.gather(*waiting)


@in_virtual_time
async def test_few_requests_of_one_action_are_under_way_at_a_time() -> None:
    hub, free = Hub(), asyncio.Event()
    tags = hub.begin(*range(30), action="CreateTags", answer=free.wait)
    await asyncio.sleep(0.01)
    await hub.send("launch", action="CreateFleet")
    assert len(hub.sent) == CONCURRENT + 1
    free.set()
    await asyncio.gather(*tags)
    assert len(hub.sent) == 31


@in_virtual_time
async def test_instances_are_taken_from_their_own_bucket() -> None:
    hub, many = Hub(), [f"i-{number}" for number in range(500)]
    for name in ("first", "second"):
        await hub.send(name, action="TerminateInstances", InstanceIds=many)
    assert hub.sent[1][1] == pytest.approx(5.0), "100 more than ours has, at 20 a second"


@in_virtual_time
async def test_a_request_for_more_than_a_bucket_holds_goes_when_it_is_full() -> None:
    hub, many = Hub(), [f"i-{number}" for number in range(2000)]
    await hub.send("all", action="TerminateInstances", InstanceIds=many)
    assert hub.sent == [("all", 0.0)]


@in_virtual_time
async def test_the_seconds_waited_are_counted_by_action() -> None:
    def counted() -> float:
        labels = {"action": "ModifyVolume"}
        return REGISTRY.get_sample_value("ec2spawner_aws_queued_seconds_total", labels) or 0.0

    hub, before = Hub(), counted()
    await asyncio.gather(*hub.begin(*range(OURS + 2), action="ModifyVolume"))
    assert counted() - before == pytest.approx(0.2 + 0.4)
