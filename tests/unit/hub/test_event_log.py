"""Events of starts and stops reach the handlers of JupyterHub's event log, and delay nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
import yaml
from jupyter_events import EventLogger

from ec2spawner.core.ledger.cost_rows import Purpose
from ec2spawner.core.limits.bounds import Kind
from ec2spawner.core.sleep.session_end import SessionEnd
from ec2spawner.core.starts.outcome import Outcome
from ec2spawner.core.starts.phases import Phase, PhaseTime
from ec2spawner.hub.app.reporting import event_log
from ec2spawner.hub.app.reporting.event_log import (
    SCHEMAS,
    SERVER_STOP,
    SESSION_END,
    SESSION_SLEEP,
    START_DENIED,
    START_PHASE,
    EventLog,
)
from ec2spawner.provisioner.model.leases.events import (
    LeaseEnded,
    PhaseEnded,
    SessionEnded,
    SessionSlept,
    StartDenied,
    Subject,
)
from ec2spawner.provisioner.state.lease_events import LeaseEvents
from ec2spawner.wire import Market, Stop, Trigger
from tests.stored import sleeping
from tests.user_accounts import bare_accounts

AT = datetime(2026, 11, 23, 23, 59, 59, tzinfo=UTC)
ADA = Subject(
    "lease-1", "ada", "", "group:research", "t4", Market.SPOT, "g4dn.xlarge", "us-east-1a"
)
NOBODYS = Subject("lease-2", "bob", "gpu", "user:bob", "t4", None, "", "")
BOOT = PhaseEnded(ADA, AT, PhaseTime(Phase.BOOT, 4.0, 28.5))
COSTS = {Purpose.USED: 0.0, Purpose.IDLE: 0.0, Purpose.OVERHEAD: None}
FAILED = LeaseEnded(NOBODYS, AT, Outcome.SOLD_OUT, "capacity", 0.0, COSTS)
DENIED = StartDenied(NOBODYS, AT, "group:research", Kind.SERVERS)


class Lines(logging.Handler):
    """Collects the events; `gate` holds them back, `broken` refuses so many."""

    def __init__(self, broken: int = 0) -> None:
        super().__init__()
        self.events: list[Mapping[str, Any]] = []
        self.threads: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.broken = broken

    def emit(self, record: logging.LogRecord) -> None:
        self.threads.add(threading.current_thread().name)
        assert self.gate.wait(60)
        if self.broken:
            self.broken -= 1
            raise OSError("No space left on device")
        self.events.append(json.loads(self.format(record)))


@asynccontextmanager
async def writing(handler: Lines) -> AsyncIterator[LeaseEvents]:
    logger, events = EventLogger(), LeaseEvents()
    logger.register_handler(handler)
    task = asyncio.create_task(EventLog(logger, events, bare_accounts(), "ops@example.org").run())
    yield events
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def written(handler: Lines, number: int) -> list[Mapping[str, Any]]:
    async with asyncio.timeout(60):
        while len(handler.events) < number:
            await asyncio.sleep(0.001)
    return handler.events


async def test_phases_and_stops_are_written_in_order_with_their_own_times() -> None:
    handler = Lines()
    async with writing(handler) as events:
        events.add(BOOT)
        events.add(FAILED)
        boot, stop = await written(handler, 2)
    assert boot["__schema__"] == START_PHASE
    assert boot["__timestamp__"].startswith("2026-11-24T00:00:27.5")
    assert (boot["phase"], boot["seconds"], boot["complete"]) == ("boot", 24.5, True)
    assert (boot["username"], boot["servername"]) == ("ada", "")
    assert (boot["market"], boot["instance_type"]) == ("spot", "g4dn.xlarge")
    assert stop["__schema__"] == SERVER_STOP
    assert (stop["reason"], stop["start"]) == ("capacity", "sold-out")
    assert (stop["used_usd"], stop["idle_usd"], stop["overhead_usd"]) == (0, 0, None)
    assert (boot["payer"], stop["payer"]) == ("group:research", "user:bob")
    assert stop["market"] is stop["instance_type"] is stop["zone"] is None


async def test_a_refused_start_is_written_with_the_limit_and_who_can_raise_it() -> None:
    handler = Lines()
    async with writing(handler) as events:
        events.add(DENIED)
        events.add(replace(DENIED, scope="hub", limit=None))
        denied, unpriced = await written(handler, 2)
    assert denied["__schema__"] == START_DENIED
    assert denied["__timestamp__"].startswith("2026-11-23T23:59:59")
    assert fields_of(denied) == {
        "lease_id": "lease-2",
        "username": "bob",
        "servername": "gpu",
        "payer": "user:bob",
        "profile": "t4",
        "scope": "group:research",
        "limit": "servers",
        "contact": "ops@example.org",
    }
    assert (unpriced["scope"], unpriced["limit"]) == ("hub", None)


async def test_a_session_is_written_when_it_sleeps_and_when_that_ends() -> None:
    handler = Lines()
    session = sleeping("gpu")
    async with writing(handler) as events:
        events.add(SessionSlept(session))
        woken_at = session.session.slept_at + timedelta(hours=2)
        events.add(SessionEnded(session, woken_at, SessionEnd.WOKEN))
        slept, ended = await written(handler, 2)
    whose = {"lease_id": "lease-1", "username": "ada", "servername": "gpu"}
    assert slept["__schema__"] == SESSION_SLEEP
    numbers = {"kernels": 1, "variables": 14, "lost": 0, "size_bytes": 3 * 2**30, "seconds": 8.0}
    assert fields_of(slept) == {**whose, **numbers, "trigger": "idle"}
    assert ended["__schema__"] == SESSION_END
    assert fields_of(ended) == {**whose, "outcome": "woken", "slept_seconds": 7200.0}


def fields_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in event.items() if not name.startswith("__")}


async def test_a_handler_that_hangs_holds_up_neither_the_loop_nor_a_report(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_log, "SLOW", 0.01)
    handler = Lines()
    handler.gate.clear()
    async with writing(handler) as events:
        events.add(BOOT)
        async with asyncio.timeout(60):
            while "has not returned" not in caplog.text:
                await asyncio.sleep(0.001)
        events.add(FAILED)
        handler.gate.set()
        await written(handler, 2)
    assert "MainThread" not in handler.threads


async def test_a_handler_that_fails_loses_only_that_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler = Lines(broken=1)
    async with writing(handler) as events:
        events.add(BOOT)
        events.add(FAILED)
        [stop] = await written(handler, 1)
    assert stop["__schema__"] == SERVER_STOP
    assert "No space left" in caplog.text


def schema(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = yaml.safe_load((SCHEMAS / f"{name}.yaml").read_text("utf-8"))
    return found


def test_schemas_describe_every_field_and_name_personal_data() -> None:
    named = {
        "start-phase": START_PHASE,
        "server-stop": SERVER_STOP,
        "start-denied": START_DENIED,
        "session-sleep": SESSION_SLEEP,
        "session-end": SESSION_END,
    }
    assert {f"{name}.yaml" for name in named} == {each.name for each in SCHEMAS.iterdir()}
    for name, schema_id in named.items():
        found = schema(name)
        assert found["$id"] == schema_id
        assert found["version"] == ("2" if schema_id == START_PHASE else "1")
        assert found["personal-data"] is True
        assert set(found["required"]) == found["properties"].keys()
        for field, each in found["properties"].items():
            assert each["description"], field
        for field in ("username", "servername"):
            assert "Personal data" in found["properties"][field]["description"]


def test_schemas_know_every_phase_outcome_reason_and_limit() -> None:
    assert schema("session-sleep")["properties"]["trigger"]["enum"] == list(get_args(Trigger))
    assert schema("session-end")["properties"]["outcome"]["enum"] == list(SessionEnd)
    assert schema("start-denied")["properties"]["limit"]["enum"] == [*Kind, None]
    phases = schema("start-phase")["properties"]["phase"]["enum"]
    assert phases == list(Phase)
    stop = schema("server-stop")["properties"]
    assert set(stop["start"]["enum"]) == set(Outcome)
    for reason in get_args(Stop.model_fields["reason"].annotation):
        assert reason in stop["reason"]["description"]
