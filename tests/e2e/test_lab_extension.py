"""The lab extension in a real browser, before a server whose status the test decides.

No hub and no agent: what is told here is how a status looks and reads in JupyterLab and
Notebook, and what a press of a button sends. Pictures go to `tests/output/`.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from chromium import CHROMIUM, CHROMIUM_FLAGS

from ec2spawner.wire import (
    Cost,
    GpuSample,
    Idleness,
    IdlePolicy,
    Market,
    NotebookStatus,
    Stop,
    Telemetry,
)

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "ec2spawner" / "labextension"
OUTPUT = ROOT / "tests" / "output"
STATUS_URL = re.compile(r"/ec2spawner/api/status\b")
START_SECONDS = 60
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
ITEM = ".ec2-StatusItem"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
    pytest.mark.skipif(not BUNDLE.exists(), reason="needs the built lab extension"),
]


def status(**changes: Any) -> NotebookStatus:
    """A10G on spot, busy; 1.37 USD so far."""
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "now": now,
        "managed": True,
        "can_control": True,
        "agent_connected": True,
        "cost": Cost(
            usd=1.37,
            usd_per_hour=0.42,
            as_of=now,
            since=now - timedelta(hours=3, minutes=16),
            market=Market.SPOT,
            on_demand_usd_per_hour=1.006,
        ),
        "profile": "A10G, 24 GB",
        "instance_type": "g5.xlarge",
        "idle_policy": IdlePolicy(),
        "idleness": Idleness(
            busy_because="train.ipynb is running",
            sentence="train.ipynb is running, so this server stays on.",
        ),
        "telemetry": Telemetry(
            at=now,
            gpu_source="nvml",
            gpus=[
                GpuSample(
                    index=0,
                    name="NVIDIA A10G",
                    use_percent=87,
                    memory_used_mib=13542,
                    memory_total_mib=22888,
                )
            ],
        ),
    }
    return NotebookStatus(**{**values, **changes})


def idle(stops_in: timedelta, since: timedelta, warn: timedelta) -> Idleness:
    now = datetime.now(UTC)
    stop_at = now + stops_in
    return Idleness(
        idle_since=now - since,
        stop_at=stop_at,
        warn_at=stop_at - warn,
        sentence="Nothing works here.",
    )


@dataclass
class Server:
    """A plain Jupyter server with the lab extension and the canned status."""

    url: str
    folder: Path
    settings: Path
    log: Path
    token: str = "canned"

    def says(self, answer: NotebookStatus | None) -> None:
        """What the status endpoint answers from now on; None takes the endpoint away."""
        file = self.folder / "status.json"
        if answer is None:
            file.unlink(missing_ok=True)
            return
        draft = file.with_suffix(".new")
        draft.write_text(answer.model_dump_json())
        draft.replace(file)

    def posts(self, action: str) -> list[dict[str, Any]]:
        file = self.folder / "posts.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [post for line in lines if (post := json.loads(line))["action"] == action]

    def forget_posts(self) -> None:
        (self.folder / "posts.jsonl").unlink(missing_ok=True)

    def choose_theme(self, theme: str) -> None:
        file = self.settings / "@jupyterlab/apputils-extension/themes.jupyterlab-settings"
        file.write_text(json.dumps({"theme": f"JupyterLab {theme}"}))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("home")
    extensions = home / "data" / "labextensions"
    extensions.mkdir(parents=True)
    (extensions / "ec2spawner-lab").symlink_to(BUNDLE)
    settings = home / "lab-settings"
    (settings / "@jupyterlab/apputils-extension").mkdir(parents=True)
    (settings / "@jupyterlab/apputils-extension/notification.jupyterlab-settings").write_text(
        json.dumps({"fetchNews": "false"})
    )
    (home / "work").mkdir()
    (home / "work" / "train.ipynb").write_text(
        json.dumps({"cells": [], "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5})
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    made = Server(f"http://127.0.0.1:{port}", home, settings, home / "server.log")
    extensions_on = {"canned_status": True, "jupyterlab": True, "notebook": True}
    extensions_on["ec2spawner.notebook"] = False
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ip=127.0.0.1", f"--port={port}", f"--IdentityProvider.token={made.token}"),
        f"--ServerApp.root_dir={home / 'work'}",
        f"--ServerApp.jpserver_extensions={extensions_on!r}",
        f"--LabApp.user_settings_dir={settings}",
        f"--LabApp.workspaces_dir={home / 'workspaces'}",
        "--LabApp.expose_app_in_browser=True",
    ]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")},
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        "PYTHONPATH": str(Path(__file__).parent),
        "CANNED_STATUS": str(home),
    }
    with made.log.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=home, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        until(lambda: answers(f"{made.url}/api"), START_SECONDS, made.log.read_text)
        yield made
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(server: Server, browser: Any) -> Iterator[Any]:
    server.says(status())
    server.forget_posts()
    server.choose_theme("Light")
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-GB")
    context.set_default_timeout(START_SECONDS * 1000)
    yield context.new_page()
    context.close()


def until(holds: Callable[[], bool], seconds: float, explain: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, explain()
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def open_lab(page: Any, server: Server) -> Any:
    """JupyterLab with a notebook open, its status item filled."""
    page.goto(f"{server.url}/lab/tree/train.ipynb?token={server.token}&reset")
    page.locator(".jp-Notebook").wait_for()
    return filled_item(page)


def open_notebook(page: Any, server: Server) -> Any:
    """Notebook 7 with a notebook open, its status item filled."""
    page.goto(f"{server.url}/notebooks/train.ipynb?token={server.token}")
    return filled_item(page)


def filled_item(page: Any) -> Any:
    item = page.locator(ITEM)
    expect(item).to_be_visible(timeout=START_SECONDS * 1000)
    expect(item).not_to_have_attribute("data-state", "loading", timeout=START_SECONDS * 1000)
    return item


def picture(page: Any, name: str) -> None:
    """For people: what slides in has arrived after a second."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    page.wait_for_timeout(1000)
    page.screenshot(path=OUTPUT / f"lab-{name}.png")


def texts(item: Any) -> list[str]:
    """The parts of the item, with every kind of space as one."""
    return [re.sub(r"\s+", " ", text) for text in item.locator("span").all_inner_texts()]


def test_shows_as_much_as_there_is_room_for(page: Any, server: Server) -> None:
    item = open_lab(page, server)
    expect(item).to_have_attribute("data-form", "wide")
    assert texts(item) == ["A10G 87 % · 14.2/24 GB", "$1.37 · $0.42/h spot", "in use"]
    picture(page, "wide")
    for width, form, shorter in (
        (1000, "medium", ["GPU 87 %", "$1.37", "in use"]),
        (620, "narrow", ["$1.37"]),
    ):
        page.set_viewport_size({"width": width, "height": 800})
        expect(item).to_have_attribute("data-form", form)
        assert texts(item) == shorter
        picture(page, form)
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(item).to_have_attribute("data-form", "wide")


def test_says_everything_to_a_screen_reader(page: Any, server: Server) -> None:
    item = open_lab(page, server)
    label = item.get_attribute("aria-label")
    assert "Estimate: this server has cost 1.37 USD since " in label
    assert "It costs 0.42 USD an hour now, spot." in label
    assert "On demand it would be 1.006 USD an hour." in label
    assert "GPU NVIDIA A10G: 87 % in use. GPU memory: 14.2 of 24 GB." in label
    assert "train.ipynb is running, so this server stays on." in label
    assert item.get_attribute("title") == label
    item.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Estimate: this server has cost 1.37 USD")
    picture(page, "details")
    dialog.get_by_role("button", name="Keep for 1 hour").click()
    until(lambda: server.posts("extend") != [], 10)


def test_cost_goes_on_between_answers(page: Any, server: Server) -> None:
    now = datetime.now(UTC)
    cost = Cost(usd=10, usd_per_hour=36, as_of=now, since=now, market=Market.ON_DEMAND)
    server.says(status(cost=cost))
    item = open_lab(page, server)

    def shown() -> float:
        return float(texts(item)[1].split()[0].lstrip("$"))

    first = shown()
    until(lambda: shown() > first, 5)
    due = 10 + (datetime.now(UTC) - now).total_seconds() / 100
    assert shown() == pytest.approx(due, abs=0.05)


def test_nothing_moves_when_digits_change(page: Any, server: Server) -> None:
    item = open_lab(page, server)
    widths = set()
    for percent in (7, 42, 100):
        sample = GpuSample(
            index=0,
            name="NVIDIA A10G",
            use_percent=percent,
            memory_used_mib=95 * percent,
            memory_total_mib=22888,
        )
        telemetry = Telemetry(at=datetime.now(UTC), gpu_source="nvml", gpus=[sample])
        server.says(status(telemetry=telemetry))
        expect(item).to_contain_text(f"{percent}\u00a0%", timeout=10_000)
        widths.add(round(item.bounding_box()["width"]))
    assert len(widths) == 1


def test_unknown_cost_is_unknown_and_a_simulated_gpu_says_so(page: Any, server: Server) -> None:
    now = datetime.now(UTC)
    telemetry = status().telemetry
    assert telemetry is not None
    server.says(
        status(
            cost=Cost(usd=None, usd_per_hour=None, as_of=now, since=now),
            telemetry=telemetry.model_copy(update={"gpu_source": "simulated"}),
        )
    )
    item = open_lab(page, server)
    assert texts(item) == ["A10G simulated 87 % · 14.2/24 GB", "cost unknown", "in use"]
    label = item.get_attribute("aria-label")
    assert "What this server has cost is not known yet." in label
    assert "These GPU numbers are simulated." in label
    assert "$0" not in label
    picture(page, "unknown")


def test_without_an_agent_no_cost_is_shown(page: Any, server: Server) -> None:
    server.says(status(managed=False, agent_connected=False, cost=None))
    item = open_lab(page, server)
    assert texts(item) == ["A10G 87 % · 14.2/24 GB", "in use"]
    assert "cost" not in item.get_attribute("aria-label")


def test_trouble_is_told(page: Any, server: Server) -> None:
    server.says(status(hub_reachable=False))
    item = open_lab(page, server)
    assert texts(item)[-1] == "hub not reached"
    server.says(status(agent_connected=False))
    expect(item).to_contain_text("agent silent", timeout=10_000)
    assert "The instance agent does not answer" in item.get_attribute("aria-label")


def test_a_server_that_does_not_answer_is_said_to(page: Any, server: Server) -> None:
    item = open_lab(page, server)
    page.route(STATUS_URL, lambda route: route.abort())
    expect(item).to_have_text("no answer", timeout=30_000)
    page.unroute(STATUS_URL)
    # A person who comes back to the tab does not wait for the next turn.
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(item).to_contain_text("in use", timeout=10_000)


def test_without_the_server_extension_nothing_is_shown(page: Any, server: Server) -> None:
    server.says(None)
    with page.expect_response(STATUS_URL) as answer:
        page.goto(f"{server.url}/lab?token={server.token}&reset")
    assert answer.value.status == 404
    page.locator("#jp-main-statusbar").wait_for()
    expect(page.locator(ITEM)).to_be_hidden()


@pytest.mark.parametrize("theme", ["Light", "Dark"])
@pytest.mark.parametrize("where", [open_lab, open_notebook])
def test_warns_before_the_stop_and_extends(
    page: Any, server: Server, where: Callable[[Any, Server], Any], theme: str
) -> None:
    minutes = timedelta(minutes=1)
    server.choose_theme(theme)
    server.says(status(idleness=idle(9.7 * minutes, 50 * minutes, 10 * minutes)))
    item = where(page, server)
    toast = page.locator(".Toastify__toast")
    expect(toast).to_contain_text(re.compile(r"This server stops in \d+ minutes"))
    expect(toast).to_contain_text("Nothing has worked here for 50 minutes.")
    expect(toast).to_contain_text("Files are kept; what kernels hold in memory is not.")
    expect(item).to_contain_text(re.compile(r"stops in 9:\d\d"))
    keep = toast.get_by_role("button", name="Keep for 1 hour")
    keep.focus()
    server.says(status(idleness=idle(5.7 * minutes, 50 * minutes, 10 * minutes)))
    expect(toast).to_contain_text("This server stops in 6 minutes", timeout=10_000)
    expect(keep).to_be_focused()
    picture(page, f"warning-{where.__name__}-{theme}".lower())

    keep.press("Enter")
    until(lambda: server.posts("extend") != [], 10)
    assert server.posts("extend") == [{"action": "extend", "seconds": 3600}]
    server.says(status(idleness=idle(60 * minutes, 50 * minutes, 10 * minutes)))
    expect(item).to_contain_text("stops in 1 h", timeout=10_000)
    expect(page.get_by_text("This server stops in")).to_have_count(0, timeout=10_000)
    picture(page, f"extended-{where.__name__}-{theme}".lower())


def test_a_dismissed_warning_stays_away(page: Any, server: Server) -> None:
    minutes = timedelta(minutes=1)
    server.says(status(idleness=idle(5 * minutes, 55 * minutes, 10 * minutes)))
    item = open_lab(page, server)
    toast = page.locator(".Toastify__toast")
    toast.get_by_title("Hide notification").click()
    expect(toast).to_have_count(0)
    server.says(status(idleness=idle(3 * minutes, 55 * minutes, 10 * minutes)))
    expect(item).to_contain_text("stops in 2:", timeout=10_000)
    expect(toast).to_have_count(0)


def test_stop_asks_first_and_says_what_is_lost(page: Any, server: Server) -> None:
    minutes = timedelta(minutes=1)
    server.says(status(idleness=idle(5 * minutes, 55 * minutes, 10 * minutes)))
    open_lab(page, server)
    toast = page.locator(".Toastify__toast")
    toast.get_by_role("button", name="Stop now").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("your files are kept")
    expect(dialog).to_contain_text("what they hold in memory is lost")
    dialog.get_by_role("button", name="Cancel").click()
    expect(toast).to_have_count(1)
    expect(toast).to_contain_text("This server stops in")
    assert server.posts("stop") == []

    toast.get_by_role("button", name="Stop now").click()
    picture(page, "stop")
    dialog.get_by_role("button", name="Stop now").click()
    until(lambda: server.posts("stop") != [], 15)
    server.says(status(stop=Stop(reason="user", message="You pressed Stop now.")))
    expect(toast).to_contain_text(
        "This server is being stopped: You pressed Stop now.", timeout=10_000
    )
    expect(page.get_by_text("This server stops in")).to_have_count(0)


def test_reports_a_person_at_work_but_not_an_open_tab(page: Any, server: Server) -> None:
    open_lab(page, server)
    page.evaluate("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'a'}))")
    assert server.posts("input") == []
    page.keyboard.press("Shift")
    until(lambda: server.posts("input") != [], 10)
    page.keyboard.press("Shift")
    page.mouse.click(640, 400)
    with page.expect_response(STATUS_URL):
        pass
    assert len(server.posts("input")) == 1
