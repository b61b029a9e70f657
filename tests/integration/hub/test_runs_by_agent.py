"""Runs as the agent of a server asks for them on behalf of its owner."""

from __future__ import annotations

import asyncio
import base64
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Embedded, Hub, demo_config
from tests.integration.hub.agent_by_hand import (
    AgentByHand,
    agent_of_new_instance,
    end_by_hand,
    server_by_hand,
    silence_agents,
)

pytestmark = pytest.mark.slow(seconds=15)

DOCUMENT = base64.b64encode(zlib.compress(b"print('x')")).decode()


async def ask(agent: AgentByHand, action: str, **more: Any) -> list[dict[str, Any]]:
    """The runs of the answer."""
    reply = await agent.say("runs", {"action": action, **more})
    assert reply.status_code == 200, reply.text
    found: list[dict[str, Any]] = reply.json()["runs"]
    return found


@pytest.mark.nightly(
    guard="tests/integration/hub/test_runs_on_hub.py::"
    "test_a_repeated_submission_is_answered_whatever_would_refuse_it_by_now"
)
async def test_the_id_of_a_submission_names_its_runs(embedded: Embedded, tmp_path: Path) -> None:
    silence_agents(embedded)
    config = demo_config(tmp_path / "config", "c.EC2Spawner.runs = {'at_once': 1}")
    hub = Hub(tmp_path / "hub", embedded, config=config)
    try:
        await hub.start()
        starting = asyncio.create_task(hub.request_server("ann", options={"profile": "cpu"}))
        ann = await agent_of_new_instance(hub, set())
        await ann.obtain_lease()
        wanted: dict[str, Any] = {
            "request_id": "job-1",
            "path": "x.py",
            "document": DOCUMENT,
            "profile": "cpu",
            "parameters": [{"seed": 1}, {"seed": 2}],
            "max_spot_usd_per_hour": 0.0001,  # none is so cheap: they wait
        }
        assert await ask(ann, "list", request_id="job-1") == []
        made = await ask(ann, "submit", submission=wanted)
        assert [run["number"] for run in made] == [1, 2], "also while the server is starting"
        await ann.serve()
        assert (await ann.event("ready", port=ann.grant["port"])).status_code == 204
        assert (await starting).is_success

        is_over = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
        again = await ask(ann, "submit", submission=wanted | {"deadline": is_over})
        listed = await ask(ann, "list", request_id="job-1")
        assert [run["number"] for run in again] == [run["number"] for run in listed] == [1, 2]
        async with server_by_hand(hub, "bob", options={"profile": "cpu"}) as bob:
            for action in ("list", "cancel"):
                assert await ask(bob, action, request_id="job-1") == []
            over = {"action": "submit", "submission": wanted | {"deadline": is_over}}
            assert (await bob.say("runs", over)).status_code == 409
        cancelled = await ask(ann, "cancel", request_id="job-1")
        assert [run["outcome"] for run in cancelled] == ["cancelled", "cancelled"]
        assert (await ann.say("runs", {"action": "cancel"})).status_code == 400
        await end_by_hand(ann, "ann")
    finally:
        await hub.stop()
        print(hub.tail(80))
