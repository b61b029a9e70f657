"""Scheduled events of a server's instance: shown by the hub, and a reboot is no alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import browser

pytestmark = [
    pytest.mark.slow(seconds=40),
    pytest.mark.nightly(
        guard="tests/unit/provisioner/lifecycle/test_scheduled_events.py::"
        "test_a_reboot_by_aws_is_no_second_key"
    ),
]

WORDS = "AWS reboots the machine of this server"


async def test_a_hub_shows_an_event_and_a_reboot_while_it_is_down_is_no_alarm(
    tmp_path: Path,
) -> None:
    embedded = await Embedded(tmp_path / "embedded").start()
    hub = Hub(tmp_path / "hub", embedded, config=demo_config(tmp_path / "config", ""))
    try:
        await hub.start()
        await hub.start_server("ann")
        [instance] = await embedded.instances()
        instance_id = instance["instance_id"]
        event = f"scheduled-event/{instance_id}"
        await embedded.control(event, {"code": "system-reboot", "in_seconds": 9 * 86400})
        await hub.kill()  # it would read events within five minutes
        await hub.start()
        await hub.wait_ready("ann")

        async def shown() -> bool:
            async with browser(hub, "ann") as page:
                return WORDS in (await page.get("/hub/home")).text

        await until(shown, 30, "the event on the home page")

        await hub.kill()
        await embedded.control(event, {"code": None})
        await embedded.control(event, {"code": "system-reboot", "in_seconds": 0})

        await hub.start()
        await until(lambda: said(hub, "AWS has rebooted"), 90, "its agent's claim")
        assert "ALARM" not in hub.log.read_text()
    finally:
        await hub.stop()
        await embedded.stop()
        print(hub.tail(300))


async def said(hub: Hub, words: str) -> bool:
    return words in hub.log.read_text()
