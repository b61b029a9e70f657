"""Status item and notices in a real browser, before a server whose status the test decides."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ec2spawner.wire import (
    Cost,
    GpuSample,
    Market,
    Notice,
    ServerEnd,
    Stop,
    Telemetry,
    Wake,
    WokenKernel,
    sentence,
)
from tests.e2e import cluster_dialog
from tests.e2e import panel_scenes as scenes
from tests.e2e.canned_server import (
    BROWSER_MARKS,
    ITEM,
    PANEL,
    STATUS_URL,
    TOAST,
    WHERE_THE_READER_IS,
    Server,
    choose_theme,
    hide,
    idle,
    open_lab,
    open_notebook,
    picture,
    picture_of,
    shows,
    status,
    until,
    wait_for_kernel,
)

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [*BROWSER_MARKS, pytest.mark.slow(seconds=90)]

NOT_NOW = {"code": "refused", "params": {"detail": "<b>not</b> now"}}


def texts(item: Any) -> list[str]:
    """The parts of the item, with every kind of space as one."""
    return [re.sub(r"\s+", " ", text) for text in item.locator("span").all_inner_texts()]


def wait_for_texts(item: Any, shown: list[str]) -> None:
    until(lambda: texts(item) == shown, explain=lambda: str(texts(item)))


def test_shows_as_much_as_there_is_room_for(lab_page: Any, server: Server) -> None:
    item = shows(lab_page, server, status())
    for theme in ("Dark", "Light"):
        choose_theme(lab_page, theme)
        for width, form, shown in (
            (1280, "wide", ["A10G 87 % · 14.2/24 GB", "$1.37 · $0.42/h spot", "in use"]),
            (1000, "medium", ["GPU 87 %", "$1.37", "in use"]),
            (620, "narrow", ["$1.37"]),
            (1280, "wide", ["A10G 87 % · 14.2/24 GB", "$1.37 · $0.42/h spot", "in use"]),
        ):
            lab_page.set_viewport_size({"width": width, "height": 800})
            expect(item).to_have_attribute("data-form", form)
            wait_for_texts(item, shown)
            picture_of(item, f"status-{theme}-{form}".lower())


COMES_AND_GOES = """item => {
  const other = document.createElement('div');
  other.style = 'flex: none; width: 500px; height: 1px';
  const bar = item.closest('#jp-main-statusbar').querySelector('.jp-StatusBar-Left');
  const forms = [];
  new MutationObserver(() => {
    if (forms.at(-1) !== item.dataset.form) forms.push(item.dataset.form);
  }).observe(item, { attributes: true, attributeFilter: ['data-form'] });
  const frames = count => new Promise(resolve => {
    const next = left => left ? requestAnimationFrame(() => next(left - 1)) : resolve();
    next(count);
  });
  return (async () => {
    for (let turn = 0; turn < 4; turn++) {
      bar.append(other);
      await frames(5);
      other.remove();
      await frames(5);
    }
    return forms;
  })();
}"""


def test_stays_short_while_another_item_comes_and_goes(lab_page: Any, server: Server) -> None:
    """As JupyterLab's own of a document that is saved every few seconds while a cell prints."""
    item = shows(lab_page, server, status())
    expect(item).to_have_attribute("data-form", "wide")
    forms = item.evaluate(COMES_AND_GOES)
    assert forms[-1] in ("medium", "narrow")
    assert len(forms) <= 2, forms
    expect(item).to_have_attribute("data-form", "wide")


def test_says_everything_to_a_screen_reader(lab_page: Any, server: Server) -> None:
    item = shows(lab_page, server, status())
    until(lambda: "has cost $1.37" in item.get_attribute("aria-label"))
    # At one moment: a minute may begin between two questions.
    label, title = item.evaluate("item => [item.getAttribute('aria-label'), item.title]")
    assert "This server has cost $1.37 (USD, estimate) since " in label
    assert "It costs $0.42 per hour (spot)." in label
    assert "On-demand would cost $1.006 per hour." in label
    assert "GPU NVIDIA A10G: 87 % in use. GPU memory: 14.2 of 24 GB." in label
    assert "train.ipynb is running, so this server stays on." in label
    assert title == label


def test_cost_is_extrapolated_between_responses(lab_page: Any, server: Server) -> None:
    now = datetime.now(UTC)
    cost = Cost(usd=10, usd_per_hour=36, as_of=now, since=now, market=Market.ON_DEMAND)
    item = shows(lab_page, server, status(cost=cost))

    def shown() -> float:
        return float(texts(item)[1].split()[0].lstrip("$"))

    until(lambda: shown() >= 10)
    first = shown()
    until(lambda: shown() > first)
    due = 10 + (datetime.now(UTC) - now).total_seconds() / 100
    assert shown() == pytest.approx(due, abs=0.05)


@pytest.mark.nightly(guard="tests/e2e/test_panel.py::test_nothing_moves_when_digits_change")
def test_nothing_moves_when_digits_change(lab_page: Any, server: Server) -> None:
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
        item = shows(lab_page, server, status(telemetry=telemetry))
        expect(item).to_contain_text(f"{percent}\u00a0%")
        widths.add(round(item.bounding_box()["width"]))
    assert len(widths) == 1


def test_unknown_cost_is_unknown_and_a_simulated_gpu_says_so(lab_page: Any, server: Server) -> None:
    now = datetime.now(UTC)
    telemetry = status().telemetry
    assert telemetry is not None
    answer = status(
        cost=Cost(usd=None, usd_per_hour=None, as_of=now, since=now),
        telemetry=telemetry.model_copy(update={"gpu_source": "simulated"}),
    )
    item = shows(lab_page, server, answer)
    shown = ["A10G simulated 87 % · 14.2/24 GB", "cost unknown", "in use"]
    until(lambda: texts(item) == shown, explain=lambda: str(texts(item)))
    label = item.get_attribute("aria-label")
    assert "The cost of this server is not known yet." in label
    assert "These GPU figures are simulated." in label
    assert "$0" not in label
    picture(lab_page, "unknown")


@pytest.mark.nightly(
    guard="tests/e2e/test_panel.py::test_without_an_agent_it_shows_the_instance_and_no_cost"
)
def test_without_an_agent_no_cost_is_shown(lab_page: Any, server: Server) -> None:
    item = shows(lab_page, server, status(managed=False, agent_connected=False, cost=None))
    shown = ["A10G 87 % · 14.2/24 GB", "in use"]
    until(lambda: texts(item) == shown, explain=lambda: str(texts(item)))
    assert "cost" not in item.get_attribute("aria-label")


@pytest.mark.nightly(guard="tests/e2e/test_panel.py::test_problems_are_shown_in_words")
def test_problems_are_shown(lab_page: Any, server: Server) -> None:
    item = shows(lab_page, server, status(hub_reachable=False))
    until(lambda: texts(item)[-1] == "hub unreachable", explain=lambda: str(texts(item)))
    shows(lab_page, server, status(agent_connected=False))
    expect(item).to_contain_text("agent not responding")
    assert "The instance agent does not respond" in item.get_attribute("aria-label")


@pytest.mark.nightly(
    guard="tests/e2e/test_panel.py::test_an_unresponsive_server_is_reported_until_it_responds_again"
)
@pytest.mark.parametrize("status_code", [0, 404, 424])
def test_an_unresponsive_server_is_reported(
    lab_page: Any, server: Server, status_code: int
) -> None:
    """The hub, which has not found its servers again or knows that they are gone, says 404 or 424
    in their place."""
    item = shows(lab_page, server, status())
    expect(item).to_contain_text("in use")
    words = {"message": "Restart the server at http://hub/hub/spawn/me"}

    def is_away(route: Any) -> None:
        if status_code:
            route.fulfill(status=status_code, json=words)
        else:
            route.abort()

    lab_page.route(STATUS_URL, is_away)
    expect(item).to_have_text("not responding")
    assert "http" not in item.get_attribute("aria-label")
    lab_page.unroute(STATUS_URL)
    # A person who comes back to the tab does not wait for the next turn.
    lab_page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(item).to_contain_text("in use")


def test_a_stopped_server_shows_when_and_why_it_stopped(page: Any, server: Server) -> None:
    """JupyterLab's own dialog and polling stay quiet; all of it is over when the server is back."""
    item = open_lab(page, server)
    # Loaded with the page: from a server that is stopping it would not arrive any more.
    expect(page.locator("#react-toastify-container")).to_have_count(1)
    wait_for_kernel(page)
    page.locator(".jp-Notebook-cell .cm-content").first.click()
    page.keyboard.insert_text("1")
    expect(page.locator(".jp-mod-dirty")).not_to_have_count(0)
    taken = status(interruption_at=datetime.now(UTC) + timedelta(seconds=60))
    server.says(taken)
    toast = page.locator(TOAST)
    expect(toast).to_contain_text("Save your work now")
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)

    stop = Stop(reason="interruption", message="AWS reclaimed the machine")
    server.ends(ServerEnd(running=False, stop=stop, ended_at=datetime.now(UTC)))
    api = re.compile(r"/(api|lab/api)/")
    page.route(api, lambda route: route.fulfill(status=424, json={"message": "at http://hub/"}))
    expect(item).to_contain_text("stopped")
    expect(toast).to_have_count(1)
    expect(toast).to_contain_text(re.compile(r"This server was stopped at \d\d:\d\d"))
    expect(toast).to_contain_text("AWS reclaimed this instance.")
    expect(page.get_by_role("dialog")).to_have_count(0)
    with page.expect_request(re.compile(r"/lab/api/workspaces/")):  # as after each change of layout
        page.locator(ITEM).click()
    expect(page.locator(PANEL)).to_contain_text("AWS reclaimed this instance.")
    expect(page.locator(PANEL)).not_to_contain_text("Save your work")
    expect(page.locator(PANEL)).not_to_contain_text("stays on")
    expect(page.locator(PANEL)).not_to_contain_text("It stops after")
    for figures in page.locator(f"{PANEL} .ec2-Figures").all():
        expect(figures).to_be_hidden()
    picture(page, "stopped")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(11_000)  # JupyterLab asks for kernels and sessions every 10 seconds
    assert [url for url in asked if "/hub/end" not in url] == []

    with page.context.expect_page() as started:
        page.locator(".jp-Notebook-cell .cm-content").first.click()
        page.keyboard.insert_text("2")
        expect(page.locator(".jp-mod-dirty")).not_to_have_count(0)
        toast.get_by_role("button", name="Start server again").click()
    assert started.value.url.startswith(f"{server.url}/hub/spawn/ann?next=%2Flab%2Ftree%2F")
    started.value.close()
    page.unroute(api)
    server.says(status())
    server.ends(ServerEnd(running=True))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(item).to_contain_text("in use")
    expect(toast).to_have_count(0)
    with page.expect_request(re.compile(r"/api/sessions")):
        pass


def test_without_the_server_extension_nothing_is_shown(page: Any, server: Server) -> None:
    server.says(None)
    with page.expect_response(STATUS_URL) as answer:
        page.goto(f"{server.url}/lab?token={server.token}&reset")
    assert answer.value.status == 404
    page.locator("#jp-main-statusbar").wait_for()
    expect(page.locator(ITEM)).to_be_hidden()


@pytest.mark.parametrize(
    ("where", "theme"),
    [
        pytest.param(
            open_lab,
            "Dark",
            marks=pytest.mark.nightly(
                guard="tests/e2e/test_lab_extension.py::test_warns_before_the_stop_and_extends"
            ),
        ),
        (open_notebook, "Light"),
    ],
)
def test_warns_before_the_stop_and_extends(
    page: Any, server: Server, where: Callable[[Any, Server], Any], theme: str
) -> None:
    minutes = timedelta(minutes=1)
    server.choose_theme(theme)
    server.remembers(scenes.last_hour())
    server.has_cluster(cluster_dialog.ALLOWED)
    warned = idle(9.7 * minutes, 50 * minutes, 10 * minutes)
    server.says(status(idleness=warned))
    said_at = time.monotonic()
    item = where(page, server)
    toast = page.locator(TOAST)
    expect(toast).to_contain_text(re.compile(r"This server stops in \d+ minutes"))
    expect(toast).to_contain_text("Files are kept; kernel memory is lost.")
    since = warned.idle_since.astimezone(WHERE_THE_READER_IS)
    expect(toast).to_contain_text(
        re.compile(rf"This server has been idle since (.*, )?{since:%H:%M}")
    )
    expect(item).to_contain_text(re.compile(r"stops in \d:\d\d"))
    keep = toast.get_by_role("button", name=re.compile(r"^Keep until \d\d:\d[05]$"))
    keep.focus()
    server.says(status(idleness=warned, files_kept=False))
    expect(toast).to_contain_text("Files are lost")
    expect(keep).to_be_focused()
    picture(page, f"warning-{where.__name__}-{theme}".lower())

    keep.press("Enter")
    until(lambda: server.posts("extend") != [])
    (extension,) = server.posts("extend")
    # To the last 5 minutes before that, when the status was made.
    passed = time.monotonic() - said_at
    assert 3300 - passed < extension["seconds"] <= 3600
    server.says(status(idleness=idle(60 * minutes, 50 * minutes, 10 * minutes)))
    expect(item).to_contain_text("stops in 1 h")
    expect(page.get_by_text("This server stops in")).to_have_count(0)
    picture(page, f"extended-{where.__name__}-{theme}".lower())
    item.click()
    expect(page.locator(PANEL)).to_be_visible()
    expect(page.locator(f"{PANEL} .ec2-Chart canvas")).to_have_count(4)
    starts_clusters_and_runs_of_the_open_notebook(page)


def starts_clusters_and_runs_of_the_open_notebook(page: Any) -> None:
    """Each button opens its dialog."""
    page.locator(PANEL).get_by_role("button", name="Start a cluster…").click()
    dialog = page.locator(cluster_dialog.DIALOG)
    expect(dialog).to_contain_text("This cell is added to train.ipynb")
    expect(dialog.get_by_role("status")).to_contain_text("About $0.62/h")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Run on…").click()
    expect(dialog).to_contain_text("train.ipynb")
    expect(dialog.get_by_role("button", name="Run", exact=True)).to_be_enabled()
    page.keyboard.press("Escape")


def test_a_dismissed_warning_stays_away(page: Any, server: Server) -> None:
    minutes = timedelta(minutes=1)
    warned = status(idleness=idle(5 * minutes, 55 * minutes, 10 * minutes))
    server.says(warned)
    item = open_lab(page, server)
    toast = page.locator(TOAST)
    toast.get_by_title("Hide notification").click()
    expect(toast).to_have_count(0)
    later = status(idleness=warned.idleness, cost=None)
    server.says(later)
    expect(item).to_contain_text("cost unknown")
    expect(toast).to_have_count(0)


def test_stop_asks_first_and_says_what_is_lost(lab_page: Any, server: Server) -> None:
    minutes = timedelta(minutes=1)
    page = lab_page
    shows(page, server, status(idleness=idle(5 * minutes, 55 * minutes, 10 * minutes)))
    toast = page.locator(TOAST)
    toast.get_by_role("button", name="Stop now").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Open documents are saved first")
    expect(dialog).to_contain_text("kernel memory is lost")
    expect(toast).to_have_count(0)
    dialog.get_by_role("button", name="Cancel").click()
    expect(toast).to_have_count(1)
    expect(toast).to_contain_text("This server stops in")
    assert server.posts("stop") == []

    wait_for_kernel(page)
    page.locator(".jp-Notebook-cell .cm-content").first.click()
    page.keyboard.insert_text("1")
    expect(page.locator(".jp-mod-dirty")).not_to_have_count(0)
    toast.get_by_role("button", name="Stop now").click()
    picture(page, "stop")
    dialog.get_by_role("button", name="Stop now").click()
    until(lambda: server.posts("stop") != [])
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    server.says(status(stop=Stop(reason="user")))
    expect(toast).to_contain_text("This server is being stopped")
    expect(toast).to_contain_text("You requested it.")
    expect(page.get_by_text("This server stops in")).to_have_count(0)
    shows(page, server, status())
    expect(toast).to_have_count(0)


def test_a_stop_whose_response_is_lost_is_no_error(page: Any, server: Server) -> None:
    open_lab(page, server)
    stop = re.compile(r"/ec2spawner/api/stop\b")
    dialog, toast = page.get_by_role("dialog"), page.locator(TOAST)

    def press_stop() -> None:
        page.evaluate("() => void window.jupyterapp.commands.execute('ec2spawner:stop')")
        dialog.get_by_role("button", name="Stop now").click()

    page.route(stop, lambda route: route.fulfill(status=409, json={"sentence": NOT_NOW}))
    press_stop()
    expect(toast).to_contain_text("could not be stopped. The hub refused: <b>not</b> now.")
    toast.get_by_title("Hide notification").click()
    expect(toast).to_have_count(0)

    def accept(route: Any) -> None:
        server.says(status(stop=Stop(reason="user")))
        route.abort()

    page.unroute(stop)
    page.route(stop, accept)
    press_stop()
    expect(toast).to_contain_text("This server is being stopped")
    expect(page.get_by_text("could not be stopped")).to_have_count(0)


def test_a_hidden_tab_gets_desktop_notices_and_expired_ones_are_withdrawn(
    page: Any, server: Server
) -> None:
    open_lab(page, server)
    toast = page.locator(TOAST)
    hide(page)
    error = Notice(
        id="gpu-xid-0-79",
        kind="gpu",
        level="error",
        title=sentence("gpu-xid", index=0),
        details=[sentence("refused", detail="<b>it</b> fell off the bus")],
        actions=["panel"],
    )
    server.emits(error)
    expect(toast).to_contain_text("GPU 0 reported an error")
    expect(toast).to_contain_text("<b>it</b>")
    touched = toast.evaluate_handle(
        """toast => {
          const touched = [];
          new MutationObserver(found => touched.push(...found.map(each => each.type))).observe(
            toast, { childList: true, characterData: true, subtree: true });
          return touched;
        }"""
    )
    another = error.model_copy(update={"id": "gpu-xid-1-79", "title": sentence("gpu-xid", index=1)})
    server.emits(error)
    server.emits(error, another)
    expect(toast).to_have_count(2)
    assert touched.json_value() == []
    first = toast.filter(has_text="GPU 0 reported an error")
    first.get_by_role("button", name="Show details").click()
    expect(page.locator(PANEL)).to_be_visible()
    expect(first).to_have_count(0)
    server.emits(error, another)
    server.emits(error)
    expect(toast).to_have_count(0)
    server.emits()
    expect(toast).to_have_count(0)
    server.emits(error, ago=timedelta(hours=1))  # the server's clock has been set back
    expect(toast).to_have_count(1)


def test_a_hidden_tab_shows_the_last_minute_in_its_title(new_page: Any, server: Server) -> None:
    new_page.add_init_script(
        """window.Notification = class {
             static permission = 'granted';
             constructor(text) { (window.notified ??= []).push(text); }
             close() {}
           };"""
    )
    open_lab(new_page, server)
    title = new_page.title()
    hide(new_page)
    end = Notice(
        id="idle-1",
        kind="idle",
        level="warning",
        title=sentence("stops"),
        until=datetime.now(UTC) + timedelta(minutes=5),
    )
    server.emits(end)
    expect(new_page.locator(TOAST)).to_contain_text("This server stops in")
    assert new_page.title() == title
    near = end.model_copy(update={"until": datetime.now(UTC) + timedelta(seconds=50)})
    server.emits(near)
    expect(new_page).to_have_title("⚠ This server stops in 1 minute")
    new_page.evaluate("title => { document.title = title; }", title)  # as JupyterLab after a save
    expect(new_page).to_have_title("⚠ This server stops in 1 minute")
    assert new_page.evaluate("window.notified") == ["This server stops in 1 minute"]
    hide(new_page, False)  # a tab that is shown again asks for the status
    expect(new_page).to_have_title(title)
    hide(new_page)
    expect(new_page).to_have_title("⚠ This server stops in 1 minute")
    server.emits()
    expect(new_page).to_have_title(title)


@pytest.mark.nightly(
    guard="labextension/test/noticeNotifications.test.js::"
    "what is typed after a notice is saved again shortly before the end"
)
def test_changes_after_the_spot_notice_are_saved_too(page: Any, server: Server) -> None:
    open_lab(page, server)
    end = datetime.now(UTC) + timedelta(seconds=28)
    server.says(status(interruption_at=end))
    toast = page.locator(TOAST)
    expect(toast).to_contain_text("AWS is reclaiming this instance in")
    assert toast.get_by_role("button", name="Stop now").count() == 0
    wait_for_kernel(page)
    page.locator(".jp-Notebook-cell .cm-content").first.click()
    page.keyboard.insert_text("1")
    expect(page.locator(".jp-mod-dirty")).not_to_have_count(0)
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    server.says(status())
    expect(toast).to_have_count(0)


def test_a_suggestion_is_made_once_and_a_warning_again(page: Any, server: Server) -> None:
    suggestion = Notice(
        id="smaller-profile",
        kind="smaller-profile",
        level="info",
        title=sentence("gpu-unused", count=1),
    )
    full = sentence("disk-full")
    warning = Notice(id="disk-full", kind="disk-full", level="warning", title=full)
    server.says(status(notices=[suggestion, warning]))
    open_lab(page, server)
    toasts = page.locator(TOAST)
    expect(toasts).to_have_count(2)
    page.reload()
    expect(toasts).to_have_text(["A disk is full"])


@pytest.mark.nightly(
    guard="labextension/test/interruptedCell.test.js::going to a cell opens its notebook there"
)
def test_a_cell_that_was_interrupted_is_reached_by_a_button(page: Any, server: Server) -> None:
    file = server.has_notebook("long.ipynb", "x")
    content = json.loads(file.read_text())
    [cell] = content["cells"]
    content["cells"] = [cell | {"id": f"cell-{number}"} for number in range(80)]
    file.write_text(json.dumps(content))
    kernel = WokenKernel(
        path="long.ipynb", kernel_name="python3", state="done", interrupted_cell="cell-70"
    )
    slept_at = datetime.now(UTC)
    woken = Wake(
        id="s",
        slept_at=slept_at,
        trigger="interruption",
        state="done",
        kernels=[kernel],
        kernel_count=1,
    )
    server.says(status(wake=woken))
    open_lab(page, server)
    toast = page.locator(TOAST)
    expect(toast).to_contain_text(
        "Your session is back, but the cell that was running in long.ipynb was interrupted:"
        " run it again"
    )
    picture(page, "interrupted-cell")
    toast.get_by_role("button", name="Go to the cell").click()
    active = page.locator(".jp-Notebook:visible .jp-Cell.jp-mod-active")
    expect(active).to_have_attribute("data-windowed-list-index", "70")
    expect(active).to_be_in_viewport()
    file.unlink()


@pytest.mark.nightly(guard="tests/e2e/test_panel.py::test_problems_are_shown_in_words")
def test_users_whom_a_server_is_shared_with_get_no_buttons(page: Any, server: Server) -> None:
    minutes = timedelta(minutes=1)
    warned = idle(5 * minutes, 55 * minutes, 10 * minutes)
    server.says(status(idleness=warned, can_control=False))
    open_lab(page, server)
    toast = page.locator(TOAST)
    expect(toast).to_contain_text("only its owner can keep it on or stop it")
    expect(toast.get_by_role("button", name=re.compile("Keep|Stop"))).to_have_count(0)


def test_reports_user_input_but_not_an_open_tab(page: Any, server: Server) -> None:
    open_lab(page, server)
    page.evaluate("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'a'}))")
    assert server.posts("input") == []
    page.keyboard.press("Shift")
    until(lambda: server.posts("input") != [])
    page.keyboard.press("Shift")
    page.mouse.click(640, 400)
    with page.expect_response(STATUS_URL):
        pass
    assert len(server.posts("input")) == 1


def test_settings_choose_what_is_shown(page: Any, server: Server) -> None:
    minutes = timedelta(minutes=1)
    server.choose_settings('{"statusBarUsage": false, "statusBarState": false, "notices": false}')
    server.says(status(idleness=idle(5 * minutes, 55 * minutes, 10 * minutes)))
    item = open_lab(page, server)
    expect(item.locator("span")).to_have_count(2)  # a stop within minutes is shown in any case
    assert texts(item)[0] == "$1.37 · $0.42/h spot"
    wait_for_kernel(page)
    page.locator(".jp-Notebook-cell .cm-content").first.click()
    page.keyboard.insert_text("1")
    expect(page.locator(".jp-mod-dirty")).not_to_have_count(0)
    server.says(status(interruption_at=datetime.now(UTC) + 2 * minutes))
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)  # saved, though nothing is said
    expect(page.locator(TOAST)).to_have_count(0)


@pytest.mark.nightly(
    guard="labextension/test/settings.test.js::"
    "settings that JupyterLab refuses count as the defaults"
)
def test_bad_settings_break_nothing(page: Any, server: Server) -> None:
    server.choose_settings('{"statusBarCost": "perhaps", "notices": 7, "of later": []}')
    item = open_lab(page, server)
    assert texts(item) == ["A10G 87 % · 14.2/24 GB", "$1.37 · $0.42/h spot", "in use"]
    item.click()
    expect(page.locator(PANEL)).to_contain_text("$1.37")


LEAKS = """
  const mine = () => new Error().stack.includes('ec2spawner-lab');
  const held = (window.held = new Set());
  const { addEventListener: add, removeEventListener: remove } = EventTarget.prototype;
  EventTarget.prototype.addEventListener = function (type, listener, ...rest) {
    if (mine() && (this === document || this === window)) held.add(listener);
    return add.call(this, type, listener, ...rest);
  };
  EventTarget.prototype.removeEventListener = function (type, listener, ...rest) {
    held.delete(listener);
    return remove.call(this, type, listener, ...rest);
  };
  for (const kind of ['Interval', 'Timeout']) {
    const [set, clear] = [window[`set${kind}`], window[`clear${kind}`]];
    window[`set${kind}`] = (task, ...rest) => {
      const key = { kind };
      const id = set(() => { if (kind === 'Timeout') held.delete(key); task(); }, ...rest);
      if (mine()) { key.id = id; held.add(key); }
      return id;
    };
    window[`clear${kind}`] = id => {
      for (const key of held) if (key.kind === kind && key.id === id) held.delete(key);
      clear(id);
    };
  }
  const Observer = window.ResizeObserver;
  window.ResizeObserver = class extends Observer {
    constructor(...args) { super(...args); if (mine()) held.add(this); }
    disconnect() { held.delete(this); super.disconnect(); }
  };
"""


def test_deactivation_leaves_nothing_behind(new_page: Any, server: Server) -> None:
    new_page.clock.install()
    new_page.add_init_script(LEAKS)
    minutes = timedelta(minutes=1)
    server.says(status(idleness=idle(5 * minutes, 55 * minutes, 10 * minutes)))
    with new_page.expect_response(re.compile(r"/ec2spawner/api/outputs")):  # of the notebook
        item = open_lab(new_page, server)
    item.click()
    toast = new_page.locator(TOAST)
    expect(toast).to_have_count(1)
    expect(new_page.locator(PANEL)).to_be_visible()
    assert new_page.evaluate("held.size") > 0
    new_page.evaluate("window.jupyterapp.deactivatePlugin('ec2spawner-lab:plugin')")
    expect(toast).to_have_count(0)
    expect(new_page.locator(PANEL)).to_have_count(0)
    expect(new_page.locator(ITEM)).to_have_count(0)
    asked: list[str] = []
    new_page.on("request", lambda request: asked.append(request.url))
    for _ in range(2):
        with new_page.expect_response(re.compile(r"/api/sessions")):  # as JupyterLab itself asks
            new_page.clock.fast_forward(11_000)
    assert not [url for url in asked if "ec2spawner/api" in url]
    left = "[...held].map(each => each.kind ?? each.name ?? each.constructor.name)"
    assert new_page.evaluate(left) == []
    assert not new_page.evaluate("window.jupyterapp.commands.hasCommand('ec2spawner:stop')")
