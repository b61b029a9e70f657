"""`after_stop` as an admin writes it, and as its users read it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ec2spawner.config import Options
from ec2spawner.core.instances.retention_rules import AfterStop
from ec2spawner.hub.pages.spawn_page.retention_text import after_stop_text

MACHINE = {"display_name": "T4", "slug": "t4", "gpu": "T4"}


def options(hubs: object, **profile: object) -> Options:
    written: dict[str, Any] = {
        "region": "us-east-1",
        "subnets": ["subnet-a"],
        "after_stop": hubs,
        "profile_list": [{**MACHINE, **profile}],
    }
    return Options.model_validate(written)


def rule(hubs: object, **profile: object) -> AfterStop:
    checked = options(hubs, **profile)
    return checked.after_stop_of(checked.profiles[0])


def test_accepted_retention_settings() -> None:
    assert rule("terminate") == AfterStop()
    assert rule("linger") == rule({"linger": "10m"}) == AfterStop("linger", 600.0)
    assert rule("stop") == rule({"stop": "7d"}) == AfterStop("stop", 7 * 86400.0, 3)
    assert rule({"stop": "1d", "per_user": 1}) == AfterStop("stop", 86400.0, 1)


def test_a_profiles_setting_overrides_the_hubs() -> None:
    assert rule("stop", after_stop="terminate") == AfterStop()
    assert rule("terminate", after_stop={"linger": "5m"}) == AfterStop("linger", 300.0)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("hibernate", "hibernate"),
        ({"linger": "10m", "stop": "7d"}, "both linger and stop"),
        ({"linger": "2h"}, "long for a machine that nobody uses"),
        ({"linger": 0}, "longer than 0"),
    ],
)
def test_refused_retention_settings_have_a_reason(wrong: object, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        options(wrong)


def test_a_card_describes_retention_and_that_spot_keeps_no_disk() -> None:
    linger, stop = AfterStop("linger", 600.0), AfterStop("stop", 7 * 86400.0, 3)
    assert after_stop_text(AfterStop(), ["on-demand"]) == ""
    assert "10 min" in after_stop_text(linger, ["spot-first"])
    assert "spot" not in after_stop_text(stop, ["on-demand"])
    assert "not that of a spot machine" in after_stop_text(stop, ["spot-first"])
    assert "AWS keeps no disk" in after_stop_text(stop, ["spot-only"])
