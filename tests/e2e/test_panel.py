"""The panel in a real browser: what it says, how it looks, and what it costs the browser.

One JupyterLab for all of it, before a server whose status the test decides. With
`EC2SPAWNER_SCREENSHOTS=1` the pictures go to `docs/images/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ec2spawner.wire import IdlePolicy, Stop, sentence
from tests.e2e import cluster_dialog, cluster_section, open_notebooks, run_dialog, session_section
from tests.e2e import panel_layout as layout
from tests.e2e import panel_scenes as scenes
from tests.e2e.accessibility import COLOURS, violations
from tests.e2e.canned_server import (
    BROWSER_MARKS,
    ITEM,
    PANEL,
    START_SECONDS,
    STATUS_URL,
    TOAST,
    Server,
    hide,
    open_lab,
    open_notebook,
    picture,
    picture_of,
    status,
    until,
)
from tests.e2e.panel_lab import WIDTHS, Lab, lines, warned, working

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

TIME = re.compile(r"^\d\d:\d[05]$")
BUTTONS: list[Any] = ["Terminal 1, python serve.py", TIME, TIME, TIME, "Stop now…"]

pytestmark = [*BROWSER_MARKS, pytest.mark.slow(seconds=90)]

AT_NIGHT = pytest.mark.nightly(
    guard="tests/e2e/test_panel.py::test_eight_gpus_are_listed_each_with_its_problems"
)
IN_THE_DARK_AT_NIGHT = pytest.mark.parametrize(
    "theme", ["Light", pytest.param("Dark", marks=AT_NIGHT)]
)
"""The guard checks the contrast of the dark theme."""


@pytest.fixture(scope="module")
def opened(server: Server, browser: Any) -> Iterator[Lab]:
    server.choose_theme("Light")
    server.says(status())
    server.remembers(scenes.last_hour())
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, locale="en-GB")
    context.set_default_timeout(START_SECONDS * 1000)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(error.stack or str(error)))
    item = open_lab(page, server)
    item.focus()
    page.keyboard.press("Enter")
    lab = Lab(page, server)
    expect(lab.panel).to_be_visible()
    expect(lab.panel).to_be_focused()
    yield lab
    context.close()
    assert problems == []


@pytest.fixture
def lab(opened: Lab) -> Lab:
    opened.server.forget_posts()
    opened.server.has_cluster(None)
    opened.server.offers(reports_ends=False)
    hide(opened.page, False)
    opened.choose_theme("Light")
    panel = opened.shows(working())
    expect(panel.locator("button:visible")).to_have_text(BUTTONS)
    expect(panel).to_contain_text("$1.37")
    return opened


def test_shows_cost_activity_and_the_time_of_the_stop(lab: Lab) -> None:
    panel = lab.panel
    expect(panel.get_by_role("region", name="Cost")).to_contain_text("$1.37")
    expect(panel.get_by_role("region", name="Cost")).to_contain_text("estimate")
    said = lines(panel)
    assert said["Now"] == "$0.42/h, spot"
    assert said["Saved by spot"] == "$1.92"
    assert said["Today"] == "$4.21"
    assert said["Used, idle"] == "$1.06, $0.270"
    assert said["Limit (month)"] == "$62.10 of $200"
    expect(panel.get_by_role("meter")).to_have_attribute("aria-valuenow", "31")
    assert said["GPU"] == "87 %"
    assert "14.2 of 24 GB" in panel.get_by_role("region", name="A10G · 24 GB").inner_text()
    assert said["train.ipynb"] == "81 % · 12.9 GB"
    assert said["Terminal 1, python serve.py"] == "0 % · 0.4 GB"
    assert said["tensorboard"] == "CPU 2 % · 0.3 GB"
    assert said["Disk"] == "42.0 of 100 GB"
    stops = panel.get_by_role("region", name="When it stops")
    expect(stops).to_contain_text("train.ipynb is running, so this server stays on.")
    expect(stops).to_contain_text("It stops after 1 hour idle: no running cell")
    lab.charts_are_drawn(4)
    chart = panel.get_by_role("img", name=re.compile("^GPU in the last hour"))
    assert re.search(r"average \d+ %, maximum \d+ %", chart.get_attribute("aria-label"))


def test_extends_stops_and_sets_the_idle_time(lab: Lab) -> None:
    policy = IdlePolicy(user_server_min_seconds=900, user_server_max_seconds=14400)
    panel = lab.shows(working(idleness=warned(), idle_policy=policy))
    expect(panel.locator(".ec2-Stop-headline")).to_have_text(re.compile(r"in \d min \d\d s"))
    first = panel.locator(".ec2-Stop-headline").inner_text()
    until(lambda: panel.locator(".ec2-Stop-headline").inner_text() != first)
    expect(panel).to_contain_text("This server has been idle since")
    keep = panel.get_by_role("group", name="Keep until").get_by_role("button")
    expect(keep).to_have_text([TIME, TIME, TIME])
    keep.nth(1).press("Enter")
    until(lambda: lab.server.posts("extend") != [])
    (extension,) = lab.server.posts("extend")
    assert 6900 < extension["seconds"] <= 7200, "to the last 5 minutes before that"
    expect(lab.page.get_by_text("This server is kept on until")).to_be_visible()
    # Not by the mouse: where a line is longer, as after midnight, a notification covers it.
    panel.get_by_role("button", name="Stop now, save $0.06").press("Enter")
    lab.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert lab.server.posts("stop") == []
    choice = panel.get_by_label("Stop after")
    expect(choice.locator("option")).to_have_text(
        [f"{each} idle" for each in ("15 minutes", "30 minutes", "1 hour", "2 hours", "4 hours")]
    )
    expect(choice).to_have_value("3600")
    choice.select_option("7200")
    until(lambda: lab.server.posts("idle") != [])
    assert lab.server.posts("idle") == [{"action": "idle", "server_seconds": 7200}]


def test_an_extension_without_effect_is_disabled_with_its_reason(lab: Lab) -> None:
    panel = lab.shows(working())
    keep = panel.get_by_role("group", name="Keep until").get_by_role("button")
    expect(keep.nth(0)).to_be_disabled()
    expect(keep.nth(0)).to_have_attribute("title", re.compile("does not stop before then"))
    keep.nth(0).press("Enter")
    expect(keep.nth(1)).to_be_enabled()
    keep.nth(1).click()
    until(lambda: lab.server.posts("extend") != [])
    assert len(lab.server.posts("extend")) == 1
    lab.shows(working(idle_policy=IdlePolicy(user_may_extend_seconds=0)))
    expect(panel.get_by_role("group", name="Keep until")).to_have_count(0)


@IN_THE_DARK_AT_NIGHT
def test_a_session_sleeps_wakes_and_is_back_with_an_honest_list(lab: Lab, theme: str) -> None:
    lab.choose_theme(theme)
    session_section.announces_its_sleep(lab, theme)
    session_section.continues_on_other_hardware(lab, theme)
    session_section.sleeps_on_request(lab, theme)
    session_section.wakes_and_lists_what_came_back(lab, theme)


def test_names_are_links_to_what_they_name(lab: Lab) -> None:
    running = "[...window.jupyterapp.serviceManager.sessions.running()]"
    kernel = lab.page.wait_for_function(f"{running}.at(0)?.kernel?.id").json_value()
    worker = scenes.WORKERS[0].model_copy(update={"kernel_id": kernel, "name": "old/name.ipynb"})
    busy = status().idleness.model_copy(update={"busy_path": "train.ipynb"})
    telemetry = scenes.machine(scenes.gpu(), workers=[worker])
    panel = lab.shows(working(telemetry=telemetry, idleness=busy))
    tab = lab.page.locator("#jp-main-dock-panel .lm-TabBar-tab.jp-mod-current")
    for name in ("name.ipynb", "Go to train.ipynb"):
        lab.page.evaluate("() => void window.jupyterapp.commands.execute('launcher:create')")
        expect(tab).to_contain_text("Launcher")
        panel.get_by_role("button", name=name, exact=True).press("Enter")
        expect(tab).to_contain_text("train.ipynb")


def test_a_notebook_opens_again_where_it_was_scrolled_to(lab: Lab) -> None:
    open_notebooks.is_scrolled_to_where_it_was(lab)


def test_every_control_is_reached_by_keyboard_with_visible_focus(lab: Lab) -> None:
    lab.page.locator(ITEM).focus()
    lab.page.keyboard.press("Enter")
    expect(lab.panel).to_be_focused()
    reached = []
    for _ in range(len(BUTTONS) + 1):
        lab.page.keyboard.press("Tab")
        reached.append(
            lab.page.evaluate(
                """() => {
                  const node = document.activeElement;
                  const seen = getComputedStyle(node).outlineStyle !== 'none';
                  return [node.textContent, seen, !!node.closest('#ec2spawner-panel')];
                }"""
            )
        )
    assert [[seen, is_in_panel] for _, seen, is_in_panel in reached] == [[True, True]] * len(
        reached
    )
    for (name, *_), expected in zip(reached, [*BUTTONS, "All idle rules"], strict=True):
        assert re.search(expected, name)
    lab.page.keyboard.press("Enter")
    expect(lab.panel).to_contain_text("A kernel that is idle for 2 hours is shut down.")
    lab.page.keyboard.press("Enter")


def test_a_hidden_tab_sends_no_requests(lab: Lab) -> None:
    asked: list[str] = []
    lab.page.on("request", lambda request: asked.append(request.url))
    hide(lab.page)
    lab.page.wait_for_timeout(500)
    asked.clear()
    lab.page.wait_for_timeout(6000)  # two intervals of the status
    assert [url for url in asked if "ec2spawner" in url] == []
    with lab.page.expect_request(STATUS_URL):
        hide(lab.page, False)


def test_a_hidden_panel_requests_no_history(lab: Lab) -> None:
    asked: list[str] = []
    lab.page.on("request", lambda request: asked.append(request.url))
    lab.page.evaluate("() => void window.jupyterapp.shell.collapseRight()")
    expect(lab.panel).to_be_hidden()
    asked.clear()
    lab.page.wait_for_timeout(5500)
    assert [url for url in asked if "/history" in url] == []
    with lab.page.expect_request(re.compile(r"/history\?since=\d{9,}")):
        lab.page.locator(ITEM).click()
    expect(lab.panel).to_be_visible()


def test_nothing_moves_when_digits_change(lab: Lab) -> None:
    lab.charts_are_drawn(4)
    lab.page.wait_for_timeout(500)
    layout.record_shifts(lab.page)
    boxes = set()
    for percent, dollars in ((7, 1.37), (42, 9.01), (100, 8.4)):
        gpu = scenes.gpu(
            use_percent=percent,
            memory_used_mib=95 * percent,
            power_w=2.5 * percent,
            clock_mhz=16 * percent,
            temperature_c=percent * 0.9,
        )
        telemetry = scenes.machine(gpu, cpu_percent=percent)
        panel = lab.shows(working(telemetry=telemetry, cost=scenes.cost(usd=dollars)))
        expect(panel).to_contain_text(f"{percent}\u00a0%")
        boxes.add(layout.boxes(panel))
    assert len(boxes) == 1
    assert layout.shifts(lab.page) == []


def test_charts_take_the_colours_of_the_theme(lab: Lab) -> None:
    lab.charts_are_drawn(4)
    chart = lab.panel.locator(".ec2-Chart").first
    colours = []
    for theme in ("Light", "Dark"):
        lab.choose_theme(theme)
        until(lambda: layout.line_colour(chart) != "")
        colours.append(layout.line_colour(chart))
    assert len(set(colours)) == 2


def test_pointing_at_a_chart_shows_the_values_of_that_moment(lab: Lab) -> None:
    lab.charts_are_drawn(4)
    chart = lab.panel.locator(".ec2-Chart").first
    value = lab.panel.locator(".ec2-Figure .ec2-Line-value").first

    def is_shown() -> bool:
        # A chart that is drawn anew under a pointer at rest hears of it with its next move.
        box = chart.bounding_box()
        for step in (18, 20):
            lab.page.mouse.move(box["x"] + box["width"] * 0.05, box["y"] + step)
        return re.match(r"^\s*0.% at \d\d:\d\d", value.text_content() or "") is not None

    until(is_shown)
    lab.page.mouse.move(600, 300)
    expect(value).to_have_text(re.compile(r"87.%$"))


@IN_THE_DARK_AT_NIGHT
def test_is_accessible_and_nothing_overflows_at_any_width(lab: Lab, theme: str) -> None:
    """With one GPU, and with eight of which some are in trouble."""
    lab.choose_theme(theme)
    lab.panel.evaluate("panel => panel.blur()")
    policy = IdlePolicy(user_server_min_seconds=900, user_server_max_seconds=14400)
    answers = {
        f"panel-{theme.lower()}": (working(), 1, 4),
        f"panel-eight-gpus-{theme.lower()}": (
            working(telemetry=scenes.eight_gpus(), idle_policy=policy, idleness=warned()),
            8,
            18,
        ),
    }
    try:
        for name, (answer, gpus, charts) in answers.items():
            for width in WIDTHS:
                lab.widen(width)
                lab.shows(answer, scenes.last_hour(gpus))
                lab.charts_are_drawn(charts)
                assert layout.sticks_out(lab.panel) == []
                lab.panel.evaluate("panel => { panel.scrollTop = 0; }")
                picture_of(lab.panel, f"{name}-{width}")
            assert violations(lab.page, PANEL) == []
    finally:
        lab.widen(WIDTHS[0])


@pytest.mark.parametrize("height", [420, 560, 660, 800])
def test_what_stays_in_reach_leaves_the_rest_of_a_low_window(lab: Lab, height: int) -> None:
    policy = IdlePolicy(user_server_min_seconds=900, user_server_max_seconds=14400)
    telemetry = scenes.eight_gpus()
    lab.page.set_viewport_size({"width": 1280, "height": height})
    try:
        panel = lab.shows(
            working(telemetry=telemetry, idle_policy=policy, idleness=warned(), can_sleep=True),
            scenes.last_hour(8),
        )
        expect(panel.get_by_role("button", name=re.compile("^Sleep now"))).to_be_attached()
        expect(panel.locator(".ec2-Stop-headline")).to_contain_text("in ")
        assert layout.share_in_reach(panel) < 0.3
        toasts = lab.page.locator(TOAST)
        until(lambda: 0 < layout.right_of(toasts) <= panel.bounding_box()["x"])
        panel.focus()
        for _ in range(panel.locator("button:visible, select:visible, summary:visible").count()):
            lab.page.keyboard.press("Tab")
            assert layout.covered_focus(panel) == ""
        panel.evaluate("panel => { panel.scrollTop = 0; }")
        picture_of(panel, f"panel-low-{height}")
    finally:
        lab.page.set_viewport_size({"width": 1280, "height": 1000})


def test_notifications_are_beside_the_panel(lab: Lab) -> None:
    panel = lab.shows(working(idleness=warned()))
    toasts = lab.page.locator(TOAST)
    expect(toasts.filter(has_text="This server stops in")).to_be_visible()
    try:
        for width in (WIDTHS[0], WIDTHS[1]):
            lab.widen(width)
            until(lambda: 0 < layout.right_of(toasts) <= panel.bounding_box()["x"])
        picture(lab.page, "beside-the-panel")
        lab.page.evaluate("window.jupyterapp.shell.collapseRight()")
        until(lambda: layout.right_of(toasts) > 1280 - WIDTHS[0])
    finally:
        lab.page.evaluate("window.jupyterapp.shell.activateById('ec2spawner-panel')")
        lab.widen(WIDTHS[0])


def test_eight_gpus_are_listed_each_with_its_problems(lab: Lab) -> None:
    panel = lab.shows(working(telemetry=scenes.eight_gpus()), scenes.last_hour(8))
    lab.charts_are_drawn(18)
    expect(panel.get_by_role("heading", name="8 × A100 · 40 GB each")).to_be_visible()
    parts = panel.locator(".ec2-Gpu")
    expect(parts).to_have_count(8)
    expect(parts.nth(1)).to_contain_text("slowed: power limit")
    expect(parts.nth(2)).to_contain_text("slowed: heat, waiting for other GPUs")
    expect(parts.nth(6).get_by_role("listitem")).to_have_count(3)
    expect(parts.nth(6).get_by_role("listitem").first).to_contain_text("3g.20gb")
    expect(parts.nth(7)).to_contain_text("This GPU no longer responds.")
    for chart in ("GPU 3", "Memory of GPU 3"):
        label = re.compile(f"^{chart} in the last hour: ")
        expect(parts.nth(3).get_by_role("img", name=label)).to_have_count(1)
    expect(panel.get_by_text("and 3 more")).to_be_visible()
    assert lines(panel)["a long name of a notebook, number 0.ipynb"].startswith("GPU 0-3, 5 ·")
    lab.choose_theme("Dark")
    assert violations(lab.page, PANEL, COLOURS) == []


@pytest.mark.parametrize(
    "theme",
    [
        pytest.param(
            "Light",
            marks=pytest.mark.nightly(
                guard="tests/e2e/test_panel.py::test_the_workers_of_a_cluster_are_listed"
            ),
        ),
        "Dark",
    ],
)
def test_the_workers_of_a_cluster_are_listed(lab: Lab, theme: str) -> None:
    lab.choose_theme(theme)
    cluster_section.lists_the_workers(lab, theme)


def test_a_cluster_counts_with_its_server_and_ends_with_it(lab: Lab) -> None:
    cluster_section.counts_with_its_server(lab)


def test_a_cluster_is_scaled_after_its_price_is_shown_and_stopped_after_a_question(
    lab: Lab,
) -> None:
    cluster_section.is_scaled_and_stopped(lab)


def test_a_cluster_is_started_from_the_panel_by_a_cell(lab: Lab) -> None:
    file = lab.server.has_notebook(cluster_dialog.NAME, cluster_dialog.SOURCE)
    try:
        with lab.in_front(cluster_dialog.NAME):
            section = lab.shows_cluster(cluster_dialog.ALLOWED)
            cluster_dialog.can_be_used_by_keyboard(lab.page, lab.server, section)
            lab.choose_theme("Dark")
            cluster_dialog.can_be_read_in_the_dark(lab.page, section)
            cluster_dialog.starts_a_cluster_by_a_cell(lab.page, lab.server, section)
        assert lab.page.evaluate(cluster_dialog.HAS_COMMAND)
        expect(lab.shows_cluster(scenes.cluster())).to_contain_text("3 of 5 joined")
        assert not lab.page.evaluate(cluster_dialog.HAS_COMMAND)
    finally:
        file.unlink()


def test_a_notebook_is_run_elsewhere_from_its_toolbar_and_from_the_file_browser(lab: Lab) -> None:
    page, server = lab.page, lab.server
    file = server.has_notebook(run_dialog.NAME, run_dialog.SOURCE, run_dialog.TAG)
    try:
        with lab.in_front(run_dialog.NAME):
            run_dialog.can_be_used_by_keyboard(page, server)
            lab.choose_theme("Dark")
            run_dialog.can_be_read_in_the_dark(page)
            run_dialog.saves_and_runs_what_is_on_the_screen(page, server, file)
        run_dialog.runs_files_of_the_file_browser(page, server)
    finally:
        file.unlink()
        page.evaluate("window.jupyterapp.commands.execute('apputils:dismiss-notification')")


def test_a_guest_changes_no_cluster_and_a_past_one_can_be_started_again(lab: Lab) -> None:
    cluster_section.cannot_be_changed_by_a_guest(lab)
    cluster_section.can_be_started_again(lab)


def test_without_an_agent_it_shows_the_instance_and_no_cost(lab: Lab) -> None:
    standalone = {"managed": False, "agent_connected": False, "cost": None, "idle_policy": None}
    panel = lab.shows(working(**standalone))
    expect(panel.get_by_role("heading", name="Activity")).to_be_visible()
    expect(panel.get_by_role("region", name="Cost")).to_be_hidden()
    expect(panel.get_by_role("button", name=re.compile("Keep|Stop"))).to_have_count(0)
    expect(panel).to_contain_text("This server is not stopped from here")
    assert lines(panel)["GPU"] == "87 %"
    assert "$" not in panel.inner_text()
    assert violations(lab.page, PANEL) == []


def test_problems_are_shown_in_words(lab: Lab) -> None:
    panel = lab.shows(working(agent_connected=False))
    expect(panel).to_contain_text("The instance agent does not respond")
    expect(panel.get_by_role("button", name=re.compile("Keep|Stop"))).to_have_count(0)
    lab.shows(working(hub_reachable=False))
    expect(panel).to_contain_text("Hub unreachable")
    lab.shows(working(can_control=False))
    expect(panel).to_contain_text("only its owner can keep it on or stop it")
    expect(panel.get_by_role("button", name=re.compile("Keep|Stop"))).to_have_count(0)
    lab.shows(working(stop=Stop(reason="user")))
    expect(panel).to_contain_text("This server is being stopped. You requested it.")
    expect(panel.get_by_role("button", name=re.compile("Keep|Stop"))).to_have_count(0)
    now = datetime.now(UTC)
    lab.shows(working(cost=scenes.cost(usd=None, usd_per_hour=None, saved_usd=None, since=now)))
    expect(panel).to_contain_text("cost unknown")
    expect(panel).to_contain_text("price unknown")
    lab.shows(working(telemetry=scenes.machine()), scenes.last_hour(0))
    expect(panel).to_contain_text("This machine has no GPU.")
    lab.shows(working(telemetry=scenes.machine(gpu_error=sentence("gpu-driver-not-loaded"))))
    expect(panel).to_contain_text("its driver is not loaded")
    lab.shows(working(telemetry=scenes.machine(scenes.gpu(ecc_uncorrected=3, xid=31))))
    expect(panel).to_contain_text("Xid 31")
    expect(panel).to_contain_text("3 memory errors could not be corrected")
    assert violations(lab.page, PANEL) == []


def test_an_unresponsive_server_is_reported_until_it_responds_again(lab: Lab) -> None:
    api = re.compile(r"/ec2spawner/api/")
    lab.page.route(api, lambda route: route.fulfill(status=500, json={"message": "Out of order."}))
    expect(lab.panel).to_contain_text("This server does not respond")
    expect(lab.panel).to_contain_text("Out of order.")
    expect(lab.panel).to_contain_text("$1.37")
    open_notebooks.loses_its_kernel(lab.page)
    lab.page.unroute(api)
    lab.shows(working())
    expect(lab.panel).not_to_contain_text("does not respond")
    open_notebooks.has_its_kernel_again(lab.page)


@pytest.mark.nightly(
    guard="tests/e2e/test_lab_extension.py::test_warns_before_the_stop_and_extends"
)
def test_notebook_7_shows_the_panel_too(page: Any, server: Server) -> None:
    server.says(working())
    server.remembers(scenes.last_hour())
    open_notebook(page, server).click()
    panel = page.locator(PANEL)
    expect(panel).to_be_visible()
    expect(panel.locator(".ec2-Chart canvas")).to_have_count(4)
    picture(page, "notebook-panel")
    spoken = panel.get_by_role("status")
    expect(spoken).to_be_empty()
    server.says(working(idleness=warned()))
    expect(spoken).to_have_text("This server stops soon.")
