"""The session in the panel: it sleeps, continues elsewhere, and wakes.

Each function is a part of a test, after the part before it.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest

from ec2spawner.wire import IdlePolicy, LostVariable, Wake, WokenKernel
from tests.e2e.accessibility import violations
from tests.e2e.canned_server import ITEM, PANEL, picture_of, until
from tests.e2e.panel_lab import MINUTE, Lab, warned, working

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

SLEEPS = IdlePolicy(then="sleep")


def wake(phase: Any, **train: Any) -> Wake:
    """A session of three notebooks; `train` changes the first."""
    loader = LostVariable(name="loader", code="not-storable", detail="a generator")
    trained: dict[str, Any] = {
        "state": "done",
        "variables": 10,
        "later": 2,
        "expected": 12,
        "lost": [loader, LostVariable(name="<b>conn</b>", code="a-later-code")],
        "lost_count": 4,
    }
    kernels = [
        WokenKernel(path="train.ipynb", kernel_name="python3", **trained | train),
        WokenKernel(path="", kernel_name="python3", state="done", variables=2, expected=2),
        WokenKernel(path="x" * 60, kernel_name="r", state="failed", code="kernel-spec-gone"),
    ]
    slept_at = datetime.now(UTC) - 60 * MINUTE
    return Wake(
        id="s",
        slept_at=slept_at,
        trigger="idle",
        state=phase,
        kernels=kernels if phase == "done" else kernels[:2],
        kernel_count=3,
    )


def announces_its_sleep(lab: Lab, theme: str) -> None:
    panel = lab.shows(working(idleness=warned(), idle_policy=SLEEPS, can_sleep=True))
    expect(panel.get_by_role("region", name="When it sleeps")).to_contain_text(
        "Files and variables are kept"
    )
    expect(lab.page.locator(ITEM)).to_contain_text(re.compile(r"sleeps in \d:\d\d"))
    picture_of(panel, f"panel-sleeps-{theme}")


def continues_on_other_hardware(lab: Lab, theme: str) -> None:
    """As far as EC2 has it; the server stays as it is otherwise."""
    lab.panel.get_by_role("button", name="Continue on…").press("Enter")
    dialog = lab.page.get_by_role("dialog")
    expect(dialog.get_by_role("radio", name="A10G, 24 GB")).to_be_focused()
    expect(dialog.get_by_role("radio", name="H100")).to_be_disabled()
    expect(dialog).to_contain_text("No GPU: what is on the GPU comes back in main memory.")
    assert violations(lab.page, ".jp-Dialog-content") == []
    picture_of(lab.page.locator(".jp-Dialog-content"), f"dialog-continues-{theme}")
    lab.page.keyboard.press("ArrowDown")
    dialog.get_by_role("button", name="Continue there").click()
    toast = lab.page.locator(".Toastify__toast", has_text="Your server stays as it is")
    expect(toast).to_contain_text("EC2 has none")
    assert lab.server.posts("continue") == [{"action": "continue", "profile": "cpu"}]
    toast.get_by_title("Hide notification").click()


def sleeps_on_request(lab: Lab, theme: str) -> None:
    lab.panel.get_by_role("button", name=re.compile("^Sleep now")).press("Enter")
    dialog = lab.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Documents and variables are saved in your home")
    picture_of(lab.page.locator(".jp-Dialog-content"), f"dialog-sleeps-{theme}")
    dialog.get_by_role("button", name="Sleep now").click()
    until(lambda: lab.server.posts("sleep") != [])


def wakes_and_lists_what_came_back(lab: Lab, theme: str) -> None:
    panel = lab.panel
    restoring = wake("waking", state="restoring", variables=8, later=1, lost=[], lost_count=0)
    lab.shows(working(idle_policy=SLEEPS, wake=restoring))
    session = panel.get_by_role("region", name="Your session")
    expect(session).to_contain_text("Waking train.ipynb: 9 of 12 variables")
    expect(session.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "79")
    picture_of(panel, f"panel-wakes-{theme}")
    lab.shows(working(idle_policy=SLEEPS, wake=wake("done")))
    expect(session).to_contain_text("Your session is back: 14 variables. 4 did not come back.")
    expect(session.get_by_role("progressbar")).to_have_count(0)
    session.get_by_text("What came back").click()
    expect(session).to_contain_text("loader: a generator cannot be saved")
    expect(session).to_contain_text("<b>conn</b>: it could not be saved")
    expect(session).to_contain_text("Its kernel is not installed on this machine.")
    assert violations(lab.page, PANEL) == []
    picture_of(panel, f"panel-is-back-{theme}")
    session.get_by_text("What came back").click()
