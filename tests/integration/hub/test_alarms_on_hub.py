"""A hub with alarms: from its configuration to a webhook."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.alarms.services import webhook


async def test_a_hub_sends_what_its_configuration_asks_for(
    embedded: Embedded, tmp_path: Path
) -> None:
    ends = (datetime.now(UTC) + timedelta(days=3)).date()
    discount = {"instance_type": "g5.xlarge", "usd_per_hour": 0.6, "count": 2, "until": f"{ends}"}
    with webhook() as hook:
        config = demo_config(
            tmp_path,
            f"c.EC2Spawner.alarms = [{hook.url!r}]",
            f"c.EC2Spawner.discounts = [{discount!r}]",
        )
        hub = Hub(tmp_path / "hub", embedded, config=config)

        async def called() -> bool:
            return bool(hook.calls)

        try:
            await hub.start()
            await until(called, 30, "the alarm")
        finally:
            await hub.stop()
    [call] = hook.calls
    assert "g5.xlarge expires" in call["title"]
    log = hub.tail(2000)
    assert "Alarm (discount)" in log
    assert "No alarms of quotas" not in log, "its role may read them"
    assert "Hunter2" not in log
    assert "t0ken" not in log
