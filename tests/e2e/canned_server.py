"""A plain Jupyter server whose status the test decides, and a browser before it: the fixtures.

No hub and no agent: what is tested here is how a status looks and reads in JupyterLab and
Notebook, and what a press of a button sends. Pictures go to `tests/output/`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.core.idle.extension import keep_choices
from ec2spawner.notebook.status.notices import notices
from ec2spawner.wire import (
    ClusterStatus,
    Cost,
    GpuSample,
    History,
    Idleness,
    IdlePolicy,
    Market,
    NotebookStatus,
    Notice,
    ServerEnd,
    Telemetry,
    sentence,
)
from tests import polling
from tests.e2e.chromium import CHROMIUM, CHROMIUM_FLAGS
from tests.harness import free_ports

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "ec2spawner" / "labextension"
BROWSER_MARKS = [
    pytest.mark.e2e,
    pytest.mark.skipif(not BUNDLE.exists(), reason="needs the built lab extension"),
]
"""Of tests with this server; `conftest.py` says what all e2e tests need."""
OUTPUT = ROOT / "tests" / "output"
FOR_THE_DOCS = bool(os.environ.get("EC2SPAWNER_SCREENSHOTS"))
TAKES_PICTURES = FOR_THE_DOCS or "nightly" not in os.environ.get("EC2SPAWNER_LEFT_OUT", "")
"""Not in `make test`: each waits for what slides in."""
STATUS_URL = re.compile(r"/ec2spawner/api/status\b")
START_SECONDS = 180
TIMEOUT_SECONDS = 120
"""Other tests may keep all cores busy meanwhile."""
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
WHERE_THE_READER_IS = timezone(timedelta(hours=5, minutes=30))
"""Not where the server is."""
WINDOW: Any = {"width": 1280, "height": 800}
ITEM = ".ec2-StatusItem"
PANEL = "#ec2spawner-panel"
NOTEBOOK_KNOWS_ITS_KERNEL = """async () => {
  const context = [...(window.jupyterapp?.shell.widgets('main') ?? [])]
    .map(each => each.context).find(each => each?.sessionContext);
  await context?.ready;
  const kernel = context?.sessionContext.session?.kernel;
  if (!kernel) return false;
  const [{ language_info }, { display_name }] = await Promise.all([kernel.info, kernel.spec]);
  const written = name => context.model.getMetadata(name) ?? {};
  return written('language_info').version === language_info.version
    && written('kernelspec').display_name === display_name;
}"""
TOAST = ".Toastify__toast:not([class*=slide-exit])"
"""A notification, without one that slides out: another may have taken its place."""


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
        "end_url": "/hub/end",
        "instance_type": "g5.xlarge",
        "idle_policy": IdlePolicy(),
        "idleness": Idleness(
            busy=sentence("kernel-running", name="train.ipynb"),
            busy_because="train.ipynb is running",
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
    found = NotebookStatus(**{**values, **changes})
    if "keep" in changes or found.idle_policy is None or found.idleness is None:
        return found
    since, extended = found.idleness.idle_since, found.extended_until
    started_at = now - timedelta(hours=3)
    choices = keep_choices(found.idle_policy, started_at, since, extended, now)
    return found.model_copy(update={"keep": choices})


def idle(stops_in: timedelta, since: timedelta, warn: timedelta) -> Idleness:
    now = datetime.now(UTC)
    stop_at = now + stops_in
    return Idleness(
        idle_since=now - since,
        stop_at=stop_at,
        warn_at=stop_at - warn,
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
        """What the status endpoint answers from now on, with the notices that follow from it;
        None takes the endpoint away."""
        if answer is None:
            self._status.unlink(missing_ok=True)
            return
        answer = answer.model_copy(update={"notices": [*answer.notices, *notices(answer)]})
        self._answer(answer.model_dump(mode="json"))

    def remembers(self, history: History | None) -> None:
        """What the history endpoint knows from now on; None takes the endpoint away."""
        file = self.folder / "history.json"
        if history is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(history.model_dump_json())

    def has_notebook(self, name: str, source: str, *tags: str) -> Path:
        """Write a notebook of one cell that has not run yet."""
        cell = {
            "cell_type": "code",
            "id": "a",
            "source": source,
            "metadata": {"tags": tags},
            "outputs": [],
            "execution_count": None,
        }
        content = {"cells": [cell], "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
        file = self.folder / "work" / name
        file.write_text(json.dumps(content))
        return file

    def has_cluster(self, cluster: ClusterStatus | None) -> None:
        """What workers this server has from now on; None for none."""
        file = self.folder / "cluster.json"
        if cluster is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(cluster.model_dump_json())

    def offers(self, *, reports_ends: bool) -> None:
        """Whether anybody is notified of the end of a run from now on."""
        more = {"reports_ends": reports_ends}
        (self.folder / "hardware.json").write_text(json.dumps(more))

    def ends(self, end: ServerEnd | None) -> None:
        """What the hub says of this server from now on; None where it knows no such server."""
        file = self.folder / "end.json"
        if end is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(end.model_dump_json())

    def emits(self, *notices: Notice, ago: timedelta = timedelta(0)) -> None:
        """These notices on the event websocket, by a clock that is so much behind.

        Each status from now on has them too, as those of a real server do, whose events and
        statuses have one source. Otherwise a status that a page asked for before could be answered
        after, and be newer than the event.
        """
        listed = [notice.model_dump(mode="json") for notice in notices]
        self._answer(json.loads(self._status.read_text()) | {"notices": listed})
        event = {"seconds_ago": ago.total_seconds(), "notices": listed}
        request = urllib.request.Request(
            f"{self.url}/ec2spawner/api/emit",
            data=json.dumps(event).encode(),
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 200

    @property
    def _status(self) -> Path:
        return self.folder / "status.json"

    def _answer(self, status: dict[str, Any]) -> None:
        draft = self._status.with_suffix(".new")
        draft.write_text(json.dumps(status))
        draft.replace(self._status)

    def posts(self, action: str) -> list[dict[str, Any]]:
        file = self.folder / "posts.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [post for line in lines if (post := json.loads(line))["action"] == action]

    def forget(self) -> None:
        """What an earlier test said, or chose."""
        self.says(status())
        self.remembers(None)
        self.ends(None)
        self.has_cluster(None)
        self.offers(reports_ends=False)
        self.forget_posts()
        self.choose_theme("Light")
        self.choose_settings(None)

    def forget_posts(self) -> None:
        (self.folder / "posts.jsonl").unlink(missing_ok=True)

    def choose_theme(self, theme: str) -> None:
        file = self.settings / "@jupyterlab/apputils-extension/themes.jupyterlab-settings"
        file.write_text(json.dumps({"theme": f"JupyterLab {theme}"}))

    def choose_settings(self, text: str | None) -> None:
        """What the settings of the lab extension are from now on; None for the defaults."""
        file = self.settings / "ec2spawner-lab/plugin.jupyterlab-settings"
        file.parent.mkdir(exist_ok=True)
        if text is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(text)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("home")) as made:
        yield made


@contextmanager
def running_server(
    home: Path, python_path: Sequence[Path] = (), variables: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """With modules of these folders, and these in its environment; until the block ends."""
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
    [port] = free_ports(1)
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
        "--JupyterNotebookApp.expose_app_in_browser=True",
    ]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")},
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        # The bundle of this checkout, whichever one the environment has.
        "JUPYTER_PREFER_ENV_PATH": "0",
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(settings),
        # Without node, which JupyterLab would run twice for each page that loads.
        "PATH": str(Path(sys.executable).parent),
        # The package of this checkout, too.
        "PYTHONPATH": os.pathsep.join(map(str, (Path(__file__).parent, ROOT, *python_path))),
        "CANNED_STATUS": str(home),
        **(variables or {}),
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
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    playwright.expect.set_options(timeout=TIMEOUT_SECONDS * 1000)
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Any]:
    """One for a module: where it has been loaded before, JupyterLab takes half of the CPU time."""
    context = browser.new_context(viewport=WINDOW, locale="en-GB", timezone_id="Asia/Kolkata")
    context.set_default_timeout(START_SECONDS * 1000)
    yield context.new_page()
    context.close()


@pytest.fixture
def page(server: Server, tab: Any) -> Iterator[Any]:
    """The tab, with nothing left in it by an earlier test."""
    server.forget()
    if has_jupyterlab(tab, server):
        leave(tab, server)
    yield tab
    tab.unroute_all()
    leave(tab, server)
    tab.set_viewport_size(WINDOW)


def has_jupyterlab(tab: Any, server: Server) -> bool:
    return bool(tab.url.startswith(f"{server.url}/lab/"))


def leave(tab: Any, server: Server) -> None:
    tab.goto(f"{server.url}/api")  # of the same origin: another would be loaded by another process
    tab.evaluate("localStorage.clear(); sessionStorage.clear()")
    tab.context.clear_cookies()


@pytest.fixture
def lab_page(server: Server, tab: Any) -> Any:
    """The tab with JupyterLab as the last such test left it, for those that change its status
    only: to load it takes three seconds of a core. `shows` is for their statuses."""
    server.forget()
    tab.unroute_all()
    tab.set_viewport_size(WINDOW)
    if not has_jupyterlab(tab, server):
        open_lab(tab, server)
    return tab


@pytest.fixture
def new_page(page: Any) -> Iterator[Any]:
    """A tab of the test's own, for what cannot be taken back: scripts that run before a page's."""
    new = page.context.new_page()
    yield new
    new.close()


def until(
    holds: Callable[[], bool],
    seconds: float = TIMEOUT_SECONDS,
    explain: Callable[[], str] = str,
) -> None:
    begun = time.monotonic()
    while not holds():
        waited = time.monotonic() - begun
        assert waited < seconds, explain()
        time.sleep(polling.pause(waited))


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


def shows(lab_page: Any, server: Server, answer: NotebookStatus) -> Any:
    """The status item of an open JupyterLab, which asks for this status at once.

    It may still have the one before.
    """
    server.says(answer)
    with lab_page.expect_response(STATUS_URL):
        lab_page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    return lab_page.locator(ITEM)


def open_notebook(page: Any, server: Server) -> Any:
    """Notebook 7 with a notebook open, its status item filled."""
    page.goto(f"{server.url}/notebooks/train.ipynb?token={server.token}")
    return filled_item(page)


def filled_item(page: Any) -> Any:
    from playwright.sync_api import expect

    item = page.locator(ITEM)
    expect(item).to_be_visible(timeout=START_SECONDS * 1000)
    expect(item).not_to_have_attribute("data-state", "loading", timeout=START_SECONDS * 1000)
    return item


def wait_for_kernel(page: Any) -> None:
    """Wait until the open notebook is loaded and JupyterLab has written its kernel's name and
    language into it: a change that is not saved if it comes after the last save."""
    # `wait_for_function` takes the promise of an async function for a true value.
    until(lambda: bool(page.evaluate(NOTEBOOK_KNOWS_ITS_KERNEL)))


def choose_theme(page: Any, theme: str) -> None:
    """JupyterLab's curtain over a change must be gone before the next: all share one, and each
    takes it away 200 ms later, whoever has done so before."""
    from playwright.sync_api import expect

    name, body = f"JupyterLab {theme}", page.locator("body")
    curtain = page.locator("#jupyterlab-splash")
    expect(curtain).to_have_count(0)
    if body.get_attribute("data-jp-theme-name") == name:
        return
    page.evaluate(
        """theme => window.jupyterapp.commands.execute(
             'apputils:change-theme', { theme })""",
        name,
    )
    expect(body).to_have_attribute("data-jp-theme-name", name)
    expect(curtain).to_have_count(0)


def hide(page: Any, hidden: bool = True) -> None:
    """As if another tab were before this one: a headless browser shows all of them."""
    page.evaluate(
        """hidden => {
          const state = hidden ? 'hidden' : 'visible';
          Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
          Object.defineProperty(document, 'visibilityState', { configurable: true, value: state });
          document.dispatchEvent(new Event('visibilitychange'));
        }""",
        hidden,
    )


def picture(page: Any, name: str) -> None:
    """For people: what slides in has arrived after a second."""
    if not TAKES_PICTURES:
        return
    OUTPUT.mkdir(parents=True, exist_ok=True)
    page.wait_for_timeout(1000)
    page.screenshot(path=OUTPUT / f"lab-{name}.png")


def picture_of(part: Any, name: str) -> None:
    """Of a part of the page, without what slides in; with `EC2SPAWNER_SCREENSHOTS=1` those that
    the docs show go there."""
    if not TAKES_PICTURES:
        return
    docs = ROOT / "docs" / "images"
    folder = docs if FOR_THE_DOCS and (docs / f"{name}.png").exists() else OUTPUT
    folder.mkdir(parents=True, exist_ok=True)
    part.page.wait_for_timeout(300)
    part.screenshot(path=folder / f"{name}.png", style=".Toastify { display: none }")
