"""A stop or a spot notice puts the session to sleep, in its time, whatever the notebook does."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.agent.termination.session_orders import ACCEPT_SECONDS
from ec2spawner.wire import HomeMount, LeaseGrant, SavedSession, SleepOrder, Stop
from tests.integration.agent.lease_on_instance import SMALL_SERVER, Machine, StubHub, until

pytestmark = pytest.mark.slow(seconds=25)

VOLUME = "vol-0a1b2c3d4e5f60718"

EXTENSION = SMALL_SERVER.replace(
    "HTTPServer((url",
    """
import json, pathlib, socket, sys, threading

behaviour = os.environ["BEHAVIOUR"]
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["EC2SPAWNER_AGENT_SOCKET"])

def say(**message):
    line.sendall(json.dumps(message).encode() + b"\\n")

def session(order, name):
    lost = [{"name": name, "code": "timed-out", "detail": name}] * 10
    kernel = {"path": "a.ipynb", "kernel_name": "python3", "variables": 3, "size_bytes": 5,
        "lost": lost, "lost_count": 10}
    return {"id": order["id"], "slept_at": "2026-11-03T14:00:00Z", "trigger": order["trigger"],
        "seconds": 1, "size_bytes": 5, "kernels": [kernel] * 20, "kernel_count": 20}

def carry_out(order):
    if behaviour == "old":
        return
    say(type="sleep-progress", id=order["id"], kernels=1)
    if behaviour == "dies":
        os._exit(3)
    if behaviour == "lies":
        say(type="session-saved", id="another", session=session(order, "x"))
        say(type="session-saved", id=order["id"], session=session(order, "\\U0001f600" * 40))
    if behaviour == "full":
        say(type="session-saved", id=order["id"], why_not="The session was not saved. " * 10)
    if behaviour == "saves":
        hook = {"step": "hook", "outcome": "failed", "seconds": 1, "detail": "exit status 1"}
        say(type="session-saved", id=order["id"], session=session(order, "x"), steps=[hook])

def listen():
    say(type="observation", at="2026-11-03T14:00:00Z")
    stopping, ordered = False, None
    for text in line.makefile():
        state = json.loads(text)
        if state["stop"] and not stopping:
            stopping = True
            unsaved = "Not saved: a.ipynb." if behaviour == "full" else ""
            say(type="saved", unsaved=unsaved)
        order = state["sleep"]
        if order and order != ordered:
            with open("orders.jsonl", "a") as file:
                file.write(json.dumps(order) + "\\n")
            if ordered is None:
                carry_out(order)
            ordered = order

threading.Thread(target=listen, daemon=True).start()
HTTPServer((url""",
)
"""Speaks to the agent as the notebook extension does, and behaves as the lease says."""


def sleeping_lease(machine: Machine, behaviour: str, **changes: Any) -> LeaseGrant:
    machine.volume(VOLUME)
    lease = machine.lease(
        home=HomeMount(kind="ebs", volume_id=VOLUME), command=machine.small_server(EXTENSION)
    )
    environment = lease.environment | {"BEHAVIOUR": behaviour} | changes
    return lease.model_copy(update={"environment": environment})


async def begin(machine: Machine, hub: StubHub, behaviour: str, **changes: Any) -> None:
    await machine.boot()
    hub.give(sleeping_lease(machine, behaviour, **changes))
    await until(lambda: hub.event("ready"), 60, what="ready")
    # The extension has connected, so that the agent waits for it.
    await until(lambda: hub.heartbeats, what="a heartbeat")
    await asyncio.sleep(0.3)


def stop(hub: StubHub, **changes: Any) -> float:
    given: dict[str, Any] = {"reason": "idle", "sleep": "idle", "save_seconds": 20.0}
    hub.stop = Stop(**given | changes)
    hub.notify_changed()
    return time.monotonic()


def notice(machine: Machine, seconds: float) -> None:
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    machine.spot_notice = json.dumps({"action": "terminate", "time": at.isoformat()})


async def stopped(hub: StubHub) -> tuple[float, SavedSession | None, str]:
    """When, what sleeps, and the words."""
    await until(lambda: hub.event("stopped"), 60, what="stopped")
    [(at, event)] = [(at, event) for at, event in hub.events if event.step == "stopped"]
    return at, event.session, event.message


def orders(machine: Machine) -> list[SleepOrder]:
    file = machine.root / "volumes" / VOLUME / "orders.jsonl"
    lines = file.read_text().splitlines() if file.exists() else []
    return [SleepOrder.model_validate_json(line) for line in lines]


async def test_a_stop_with_sleep_reports_what_sleeps_and_how_each_step_went(
    machine: Machine, hub: StubHub
) -> None:
    await begin(machine, hub, "saves", EC2SPAWNER_SLEEP_MAX_BYTES="1000")
    began = stop(hub)
    at, session, message = await stopped(hub)
    assert at - began < 15
    [order] = orders(machine)
    assert session is not None
    assert (session.id, session.trigger, session.kernel_count) == (order.id, "idle", 20)
    assert (order.trigger, order.interrupt_busy, order.max_bytes) == ("idle", False, 1000)
    assert "documents done" in message
    assert "session done" in message
    assert "hook failed after 1.0 s (exit status 1)" in message


async def test_a_stop_says_what_the_notebook_could_not_save(machine: Machine, hub: StubHub) -> None:
    await begin(machine, hub, "full")
    stop(hub)
    _, session, message = await stopped(hub)
    assert session is None
    assert "Not saved: a.ipynb. The session was not saved. The session" in message
    assert "documents failed after" in message
    assert "session failed after" in message, "what the user's process says has a bound"


async def test_a_save_under_way_ends_where_its_user_wants_it_no_more(
    machine: Machine, hub: StubHub
) -> None:
    await begin(machine, hub, "accepts")
    stop(hub, save_seconds=500.0)
    await until(lambda: orders(machine), 60, "the order")
    stop(hub, sleep=None, save_seconds=0.0)
    _, session, message = await stopped(hub)  # waits for 60 s
    assert session is None
    assert len(orders(machine)) == 1
    assert "session" not in message, "its user knows"


async def test_a_stop_without_sleep_orders_none(machine: Machine, hub: StubHub) -> None:
    await begin(machine, hub, "saves")
    stop(hub, sleep=None)
    _, session, _ = await stopped(hub)
    assert session is None
    assert orders(machine) == []


WAITED_FOR = pytest.mark.nightly(
    guard="tests/unit/agent/test_session_orders.py::"
    "test_who_does_not_save_is_waited_for_as_long_as_agreed"
)


@pytest.mark.parametrize(
    ("behaviour", "limit"),
    [
        pytest.param("accepts", 2.0 + 1.0, id="accepts, then says nothing", marks=WAITED_FOR),
        pytest.param("old", ACCEPT_SECONDS, id="knows no sleep", marks=WAITED_FOR),
        pytest.param("dies", 1.0, id="dies in the middle"),
    ],
)
async def test_a_session_that_is_not_saved_delays_the_stop_by_its_budget_only(
    machine: Machine, hub: StubHub, behaviour: str, limit: float
) -> None:
    await begin(machine, hub, behaviour)
    began = stop(hub, save_seconds=2.0 if behaviour == "accepts" else 60.0)
    at, session, _ = await stopped(hub)
    assert session is None
    # Far from the 60 s of a save: the processes end late on a busy machine.
    assert at - began < limit + 40


async def test_a_lying_notebook_gets_a_report_that_the_hub_accepts(
    machine: Machine, hub: StubHub
) -> None:
    await begin(machine, hub, "lies")
    stop(hub)
    _, session, _ = await stopped(hub)
    assert session is not None
    assert session.id == orders(machine)[0].id
    assert len(session.model_dump_json().encode()) < 48 * 1024


async def test_without_the_hub_the_agent_saves_in_time_and_reports_when_it_is_back(
    machine: Machine, hub: StubHub
) -> None:
    await begin(machine, hub, "saves")
    port = int(hub.url.split(":")[2].split("/")[0])
    await hub.close()
    notice(machine, 30)
    await until(lambda: "end: session done" in machine.log(), 30, "the session to be saved")
    await until(lambda: "the home was flushed" in machine.log(), 20, "the home to be released")
    [flushed] = [each for each in machine.log().splitlines() if "the home was flushed" in each]
    assert " INFO " in flushed, "as fast as it has to be"
    await hub.start(port)
    _, session, message = await stopped(hub)
    assert session is not None
    assert session.trigger == "interruption"
    assert message.startswith("AWS is reclaiming this instance.")
    [order] = orders(machine)
    assert order.interrupt_busy
    reclaimed_at = datetime.fromisoformat(json.loads(machine.spot_notice)["time"])
    assert order.until < reclaimed_at - timedelta(seconds=9)
    event = hub.event("stopped")
    assert event is not None
    assert event.interruption_at == reclaimed_at, "for a hub that has heard of no notice"


@pytest.mark.nightly(
    guard="tests/unit/agent/test_session_orders.py::"
    "test_a_notice_that_comes_meanwhile_sends_the_same_order_with_a_nearer_end"
)
async def test_a_notice_shortens_a_save_under_way(machine: Machine, hub: StubHub) -> None:
    await begin(machine, hub, "accepts")
    stop(hub, save_seconds=120.0)
    await until(lambda: orders(machine), 60, "the order")
    noticed = time.monotonic()
    notice(machine, 24)
    at, session, _ = await stopped(hub)
    assert at - noticed < 24
    assert session is None
    first, last = orders(machine)[0], orders(machine)[-1]
    assert first.id == last.id
    assert first.until - last.until > timedelta(seconds=60)


async def test_a_notice_that_is_far_or_withdrawn_ends_nothing(
    machine: Machine, hub: StubHub
) -> None:
    await begin(machine, hub, "saves")
    notice(machine, 55)

    def knows() -> bool:
        return hub.heartbeats[-1][1].interruption_at is not None

    await until(knows, 20, "the hub to know of the notice")
    machine.spot_notice = ""
    await until(lambda: not knows(), 20, "the hub to know that it is withdrawn")
    await asyncio.sleep(2 * 1.0)  # two assessments
    assert hub.event("stopped") is None
    assert orders(machine) == []


async def test_a_rebalance_recommendation_reaches_the_hub_and_ends_nothing(
    machine: Machine, hub: StubHub
) -> None:
    machine.rebalance_notice = '{"noticeTime": "2026-11-20T11:50:00Z"}'
    await begin(machine, hub, "saves")
    at = datetime(2026, 11, 20, 11, 50, tzinfo=UTC)
    await until(lambda: hub.heartbeats[-1][1].rebalance_at == at, 20, "the recommendation")
    assert hub.event("stopped") is None
