"""The owner of a running server asks for other hardware in the notebook: through its agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config
from tests.integration.hub.agent_by_hand import AgentByHand, server_by_hand, silence_agents

pytestmark = [pytest.mark.slow(seconds=30), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("hardware")
    embedded = await Embedded(folder / "embedded").start()
    silence_agents(embedded)
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config"))
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(120))


async def asked(agent: AgentByHand, call: str, **body: Any) -> dict[str, Any]:
    reply = await agent.say(call, body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def test_the_owner_chooses_other_hardware_through_the_agent(hub: Hub) -> None:
    async with server_by_hand(hub, "ann") as agent:
        choices = (await asked(agent, "hardware"))["choices"]
        own = agent.grant["profile"]
        assert choices, "the demo has several profiles"
        assert own not in {each["name"] for each in choices}
        assert await asked(agent, "continue") == {
            "state": "none",
            "profile_name": "",
            "message": "",
        }
        refused = await agent.say("continue", {"profile": "no-such-profile"})
        assert (refused.status_code, "no-such-profile" in refused.text) == (409, True)
        wanted = next(each for each in choices if each["is_available"] and not each["refusal"])
        move = await asked(agent, "continue", profile=wanted["profile"])
        assert move["profile_name"] == wanted["name"]
        assert move["state"] == "looking"
        again = await agent.say("continue", {"profile": wanted["profile"]})
        assert again.status_code == 409
        assert (await agent.heartbeat()).json()["stop"] is None, "the server runs on meanwhile"
