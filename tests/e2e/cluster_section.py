"""The section of a cluster in the panel: its workers, their number and its end."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from ec2spawner.wire import ClusterStatus, IdlePolicy, WorkersCost
from tests.e2e import panel_scenes as scenes
from tests.e2e.accessibility import violations
from tests.e2e.canned_server import ITEM, PANEL, TOAST, picture, picture_of
from tests.e2e.panel_lab import WIDTHS, Lab, lines, warned, working
from tests.e2e.panel_layout import sticks_out

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect


def lists_the_workers(lab: Lab, theme: str) -> None:
    """The section lists them at each width of the panel."""
    section = lab.shows_cluster(scenes.cluster())
    expect(section).to_contain_text("3 of 5 joined")
    expect(section).to_contain_text("$1.24/h estimate")
    expect(section).to_contain_text("EC2 has no g5.xlarge in us-east-1b now.")
    states = ["busy", "idle", "being reclaimed", "ending", "joining", "looking for a machine"]
    expect(section.locator(".ec2-ClusterWorker-state")).to_have_text(states)
    try:
        for width in WIDTHS[:2]:
            lab.widen(width)
            assert sticks_out(lab.panel) == []
            section.scroll_into_view_if_needed()
            picture_of(section, f"cluster-{theme.lower()}-{width}")
        assert violations(lab.page, PANEL) == []
    finally:
        lab.widen(WIDTHS[0])


def counts_with_its_server(lab: Lab) -> None:
    """What it costs is part of what the server costs, and it ends with it; sleep comes first."""
    now = datetime.now(UTC)
    workers = WorkersCost(count=3, running=2, usd=3.4, usd_per_hour=1.06, as_of=now)
    cost = scenes.cost().model_copy(update={"workers": workers})
    end = {"can_sleep": True, "idleness": warned(), "idle_policy": IdlePolicy(then="sleep")}
    panel = lab.shows(working(cost=cost, **end))
    expect(panel.locator(".ec2-Cost-amount")).to_have_text("$4.77")
    expect(panel.get_by_text("server $1.37 + workers $3.40")).to_be_visible()
    said = lines(panel)
    assert (said["Now"], said["+ 2 workers"]) == ("$0.42/h, spot", "$1.06/h")
    expect(lab.page.locator(ITEM)).to_contain_text("with 2 workers")
    ends = panel.locator(".ec2-Stop .ec2-Buttons button:visible")
    expect(ends).to_have_text([re.compile("^Sleep now, save"), "Continue on…", "Stop now…"])
    assert sticks_out(lab.panel) == []
    toast = lab.page.locator(TOAST).filter(has_text="This session sleeps in")
    expect(toast).to_contain_text("3 workers end, too.")
    buttons = toast.get_by_role("button").filter(has_text=re.compile("now|until"))
    expect(buttons).to_have_text([re.compile("^Keep until"), "Sleep now"])
    picture(lab.page, "cluster-ends")
    ends.last.press("Enter")
    dialog = lab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("The 3 workers of its cluster end, too")
    expect(dialog.get_by_role("button", name="Sleep now")).to_be_focused()
    picture(lab.page, "cluster-stop")
    lab.page.keyboard.press("Escape")


def is_scaled_and_stopped(lab: Lab) -> None:
    """Both happen after the section says what it costs or ends."""
    ready = [scenes.worker(number) for number in (1, 2, 3)]
    section = lab.shows_cluster(scenes.cluster(wanted=3, workers=ready, problem=""))
    said = section.get_by_role("status")
    section.get_by_role("button", name="One worker more").press("Enter")
    expect(said).to_have_text("4 workers: about $1.24/h, at most $3.72/h (estimate).")
    expect(section.get_by_role("button", name="Change to 4")).to_be_enabled()
    number = section.get_by_role("spinbutton", name="Workers")
    number.fill("7")
    expect(said).to_have_text("The hub refused: this hub allows at most 5 workers.")
    expect(section.get_by_role("button", name="Change to 7")).to_be_disabled()
    number.fill("0")
    expect(said).to_contain_text("Choose 1 to 64 workers")
    expect(section.get_by_role("button", name="Change to")).to_have_count(0)
    number.fill("2")
    expect(said).to_contain_text("At least 1 busy worker ends, with what runs on it.")
    assert {each["body_action"] for each in cluster_posts(lab)} == {"price"}
    number.press("Enter")
    expect(section).to_contain_text("3 of 2 joined")
    assert cluster_posts(lab)[-1] == {"body_action": "scale", "workers": 2}
    section.get_by_role("button", name="Stop cluster…").press("Enter")
    dialog = lab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("This server stays on")
    assert violations(lab.page, ".jp-Dialog-content") == []
    dialog.get_by_role("button", name="Stop cluster").click()
    expect(section).to_contain_text("The cluster is being stopped.")
    assert cluster_posts(lab)[-1] == {"body_action": "stop"}
    expect(section.get_by_role("button")).to_have_count(0)


def cannot_be_changed_by_a_guest(lab: Lab) -> None:
    section = lab.shows_cluster(scenes.cluster())
    lab.shows(working(can_control=False))
    expect(section).to_contain_text("3 of 5 joined")
    expect(section.get_by_role("button")).to_have_count(0)


def can_be_started_again(lab: Lab) -> None:
    """The section shows the call that starts it again."""
    lab.shows(working())
    shape = {"last_workers": 4, "last_profile": "a10g-24-gb", "last_profile_name": "A10G, 24 GB"}
    last = ClusterStatus(**shape, last_engine="ray")
    section = lab.shows_cluster(last)
    expect(section).to_contain_text("had 4 workers (A10G, 24 GB) before its last stop")
    expect(section.locator("code")).to_have_text('ec2spawner.cluster(4, "a10g-24-gb")')
    assert violations(lab.page, PANEL) == []
    picture_of(section, "cluster-before")
    lab.shows_cluster(ClusterStatus())
    expect(section).to_have_count(0)


def cluster_posts(lab: Lab) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in post.items() if key != "action" and key != "profile"}
        for post in lab.server.posts("cluster")
    ]
