"""jupyter-scheduler's dialog in a real browser: its jobs are runs on what was chosen there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ec2spawner.wire import HardwareChoice, HardwareChoices
from tests.e2e.canned_server import (
    BROWSER_MARKS,
    KERNEL,
    ROOT,
    Server,
    open_lab,
    picture,
    running_server,
    until,
)
from tests.unit.runs.agent_socket import agent
from tests.unit.runs.job_hub import NOTEBOOK, JobHub

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [*BROWSER_MARKS, pytest.mark.slow(seconds=40)]

SCHEDULER = ROOT / ".venv" / "scheduler"
"""Beside the environment: in it, every notebook server would load it."""

CONFIG = {
    "ServerApp": {"jpserver_extensions": {"jupyter_scheduler": True}},
    "SchedulerApp": {
        "scheduler_class": "ec2spawner.runs.scheduler.RunScheduler",
        "environment_manager_class": "ec2spawner.runs.scheduler.ProfileEnvironments",
    },
}

HARDWARE = HardwareChoices(
    choices=[HardwareChoice(profile="a100", name="A100", usd_per_hour=4, is_available=True)],
    own=HardwareChoice(profile="t4", name="T4, 16 GB", usd_per_hour=0.2, is_available=True),
)


@pytest.fixture(scope="module")
def hub() -> JobHub:
    return JobHub()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, hub: JobHub) -> Iterator[Server]:
    """A notebook server with jupyter-scheduler, before an agent behind which `hub` answers."""
    home = tmp_path_factory.mktemp("home")
    (home / "config").mkdir()
    (home / "config" / "jupyter_server_config.json").write_text(json.dumps(CONFIG))
    with pytest.MonkeyPatch.context() as patch, agent(home, patch, hub, HARDWARE):
        lab_extensions = {"JUPYTER_PATH": str(SCHEDULER / "share" / "jupyter")}
        with running_server(home, [SCHEDULER], lab_extensions) as made:
            notebook = {**NOTEBOOK, "metadata": KERNEL}
            (made.folder / "work" / "train.ipynb").write_text(json.dumps(notebook))
            yield made


@pytest.mark.nightly(
    guard="tests/unit/runs/test_create_job.py::test_a_job_runs_on_the_profile_that_was_chosen"
)
def test_a_job_runs_on_the_profile_that_was_chosen(page: Any, server: Server, hub: JobHub) -> None:
    open_lab(page, server)
    page.locator(".jp-DirListing-item", has_text="train.ipynb").click(button="right")
    page.get_by_role("menuitem", name="Create Job").click()
    form = page.locator(".jp-notebook-jobs-panel")
    chosen = form.locator("[aria-haspopup=listbox]").first
    expect(chosen).to_have_text("t4")
    chosen.click()
    options = page.get_by_role("option")
    expect(options).to_have_text(["t4", "a100"])
    assert "4.0000 USD per hour" in (options.last.get_attribute("title") or "")
    picture(page, "job-profiles")
    options.last.click()
    expect(form.get_by_label("Notebook", exact=True)).to_be_checked()
    form.get_by_role("button", name="Create", exact=True).click()

    until(lambda: "result" in hub.actions())
    submission = hub.submitted()
    assert submission.profile == "a100"

    form.get_by_text("train", exact=True).click()
    until(lambda: _is_completed(form))
    expect(form).to_contain_text("run-12")
    expect(form.get_by_role("alert")).to_have_count(0)
    picture(page, "job")


def _is_completed(form: Any) -> bool:
    form.get_by_role("button", name="Reload Job").click()
    return form.get_by_text("Completed", exact=True).count() > 0
