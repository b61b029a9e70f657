"""EC2's notice that it reclaims an instance: as the agent reads it, and what it does by itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.agent.hub.client import HubClient
from ec2spawner.agent.lease_run import End, LeaseRun
from ec2spawner.agent.lease_status import LeaseStatus
from ec2spawner.agent.metadata.identity import Identity
from ec2spawner.agent.metadata.interruption import NoNoticeError, parse_notice
from ec2spawner.agent.notebook_server.process import NotebookProcess
from ec2spawner.agent.settings import NotebookUser, Settings
from ec2spawner.core.sleep.step_budgets import LATEST_SAVE_SECONDS
from ec2spawner.telemetry import Processes, Sampler, find_gpus
from ec2spawner.wire import Cost, HeartbeatResponse, HomeMount, IdlePolicy, Stop
from tests.unit.agent.lease_grant import lease_grant


@pytest.mark.parametrize(
    "text",
    [
        '{"action": "terminate", "time": "2026-11-20T12:02:00Z"}',
        '{"action":"hibernate","time":"2026-11-20T12:02:00Z","new":["field"]}\n',
        '{"time": "2026-11-20T13:02:00+01:00"}',
        '{"action": "stop", "time": "2026-11-20T12:02:00"}',
    ],
    ids=["as AWS writes it", "with more in it", "in another zone", "without a zone"],
)
def test_a_notice_has_the_time_of_the_interruption(text: str) -> None:
    at = parse_notice(text)
    assert at == datetime(2026, 11, 20, 12, 2, tzinfo=UTC)
    assert at.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"2026-11-20T12:02:00Z"',
        "{}",
        '{"time": null}',
        '{"time": 1795176120}',
        '{"time": "soon"}',
        '{"time": "0001-01-01T00:00:00+23:59"}',
        "[" * 16_000,
        "<html>" * 1000,
    ],
)
def test_a_malformed_notice_is_an_error_in_short(text: str) -> None:
    with pytest.raises(NoNoticeError) as raised:
        parse_notice(text)
    assert len(str(raised.value)) < 600


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text()


@given(st.text() | st.fixed_dictionaries({"time": VALUES | st.lists(VALUES)}).map(json.dumps))
def test_arbitrary_responses_do_no_harm(text: str) -> None:
    with contextlib.suppress(NoNoticeError):
        assert parse_notice(text).tzinfo is UTC


# --- a notice that no hub acts on ---

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
GRANT = lease_grant(IdlePolicy()).model_copy(update={"home": HomeMount(kind="ebs")})


def answer(**fields: Any) -> HeartbeatResponse:
    cost = Cost(usd=0, usd_per_hour=1, as_of=NOW, since=NOW)
    return HeartbeatResponse(state=1, cost=cost, idle=GRANT.idle, **fields)


def status(**changed: Any) -> LeaseStatus:
    grant = GRANT.model_copy(update=changed)
    sampler = Sampler(find_gpus(), Processes(os.getpid()))
    return LeaseStatus(grant, "g4dn.xlarge", sampler, now=lambda: NOW)


def test_the_session_is_saved_without_a_hub_just_before_the_instance_is_reclaimed() -> None:
    agent = status()
    agent.interruption_at = NOW + timedelta(seconds=LATEST_SAVE_SECONDS)
    assert agent.stop_for_reclaim() is None, "no notebook listens yet"
    agent.begin()
    agent.interruption_at = NOW + timedelta(seconds=LATEST_SAVE_SECONDS + 1)
    assert agent.stop_for_reclaim() is None, "the hub has still time to act"
    agent.interruption_at = NOW + timedelta(seconds=LATEST_SAVE_SECONDS)
    own = agent.stop_for_reclaim()
    assert own is not None
    assert (own.reason, own.sleep, own.save_seconds) == (
        "interruption",
        "interruption",
        LATEST_SAVE_SECONDS,
    )
    assert agent.stop_for_reclaim() is None, "once"
    agent.learn(answer())
    assert agent.state().stop == own, "a hub that knows of no stop does not revoke it"


@pytest.mark.parametrize(
    "changed", [{"home": HomeMount(kind="none")}, {"is_worker": True}], ids=["no home", "a worker"]
)
def test_where_there_is_no_session_the_agent_stops_nothing_by_itself(
    changed: dict[str, Any],
) -> None:
    agent = status(**changed)
    agent.begin()
    agent.interruption_at = NOW
    assert agent.stop_for_reclaim() is None
    assert agent.state().stop is None


def test_the_stop_of_the_hub_counts() -> None:
    agent = status()
    agent.begin()
    agent.learn(answer(stop=Stop(reason="user")))
    agent.interruption_at = NOW
    assert agent.stop_for_reclaim() is None
    assert agent.state().stop == Stop(reason="user")


async def test_the_lease_ends_when_the_agent_stops_it_by_itself(tmp_path: Path) -> None:
    user = NotebookUser("me", os.getuid(), os.getgid(), (), tmp_path, "/bin/sh")
    settings = Settings(
        "http://hub", "", False, tmp_path, tmp_path, tmp_path, user, tmp_path, ("true",), None
    )
    sampler = Sampler(find_gpus(), Processes(os.getpid()))
    identity = Identity("{}", "", "i-0", "g4dn.xlarge", "127.0.0.1")
    notebook = NotebookProcess(user, tmp_path / "log", {})
    async with aiohttp.ClientSession() as http:
        run = LeaseRun(
            settings, identity, GRANT, notebook, sampler, HubClient("http://hub", http), http
        )
        run._status.begin()
        run._status.interruption_at = datetime.now(UTC) + timedelta(seconds=10)
        ticking = asyncio.create_task(run._tick())
        async with asyncio.timeout(60):
            end = await run._end
        ticking.cancel()
    assert end == End("stopped", "AWS is reclaiming this instance.")
