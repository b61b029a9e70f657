"""The button that starts a cluster in a real browser, before a hub whose answers the test knows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.wire import ClusterStatus
from tests.e2e.accessibility import violations
from tests.e2e.canned_server import (
    BROWSER_MARKS,
    KERNEL,
    PANEL,
    START_SECONDS,
    Server,
    filled_item,
    leave,
    picture_of,
    until,
)

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [*BROWSER_MARKS, pytest.mark.slow(seconds=60)]

RAN = re.compile(r"\[\d+\]:")
"""The prompt of a cell that was executed; the notebook's kernel outlives a test."""
SECTION = ".ec2-Section:has(.ec2-Cluster-sum)"
DIALOG = ".jp-Dialog-content"
NAME = "cluster.ipynb"
HAS_COMMAND = "window.jupyterapp.commands.isVisible('ec2spawner:start-cluster')"
COMMAND = "void window.jupyterapp.commands.execute('ec2spawner:start-cluster')"
"""Without its promise, which is resolved when the dialog is closed."""
PRICE = re.compile(r"/ec2spawner/api/cluster\?\d")
"""A question for a price: the time follows the path, as JupyterLab appends it."""
BUTTON = "Start a cluster…"
CODE = "import ec2spawner\n\ncluster = ec2spawner.cluster({})"
STUB = "class ec2spawner:\n    cluster = staticmethod(lambda *args, **more: (args, more))"
"""In the place of the module: what the call is given."""


@pytest.fixture
def notebook(server: Server) -> Iterator[Path]:
    """With one cell."""
    cell = {
        "cell_type": "code",
        "id": "a",
        "source": "x = 1",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    file = server.folder / "work" / NAME
    content = {"cells": [cell], "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(content))
    yield file
    file.unlink()
    for made in file.parent.glob("Untitled*"):
        made.unlink()


ALLOWED = ClusterStatus(max_workers=8)


def open_panel(
    page: Any, server: Server, path: str = f"/tree/{NAME}", cluster: ClusterStatus = ALLOWED
) -> Any:
    """JupyterLab at this path, with the panel in front; answers its section."""
    server.has_cluster(cluster)
    page.goto(f"{server.url}/lab{path}?token={server.token}&reset")
    item = filled_item(page)
    if path:
        page.locator(".jp-Notebook").wait_for(timeout=START_SECONDS * 1000)
        expect(page.locator("#jp-main-statusbar")).to_contain_text("Python 3 (ipykernel) | Idle")
    item.click()
    return page.locator(PANEL).get_by_role("region", name="Cluster")


def prices(server: Server) -> list[tuple[int, str]]:
    """Which were asked for."""
    return [(each["workers"], each["profile"]) for each in server.posts("cluster")]


def cells(page: Any) -> Any:
    return page.locator(".jp-Notebook:visible .jp-CodeCell .cm-content")


def source_of(cell: Any) -> str:
    return "\n".join(cell.locator(".cm-line").all_inner_texts()).replace("\n\n\n", "\n\n")


@pytest.mark.usefixtures("notebook")
@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_dialog_can_be_read_and_used_by_all(page: Any, server: Server, theme: str) -> None:
    server.choose_theme(theme)
    section = open_panel(page, server)
    button = section.get_by_role("button", name=BUTTON)
    expect(button).to_be_visible()
    picture_of(section, f"cluster-none-{theme.lower()}")
    assert violations(page, SECTION) == []
    button.press("Enter")
    dialog = page.locator(DIALOG)
    number, said = dialog.get_by_role("spinbutton", name="Workers"), dialog.get_by_role("status")
    start = dialog.get_by_role("button", name="Start", exact=True)
    expect(number).to_be_focused()
    expect(number).to_have_value("2")
    expect(dialog.get_by_label("T4, 16 GB (as this server)")).to_be_checked()
    expect(said).to_contain_text("About $0.62/h for 2 workers together")
    expect(said).to_contain_text("2 × g5.xlarge, spot; at most $1.86/h")
    expect(start).to_be_enabled()
    expect(dialog).to_contain_text(f"This cell is added to {NAME}")
    height = dialog.bounding_box()["height"]
    number.press("ArrowUp")
    expect(said).to_contain_text("3 workers together")
    number.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(dialog.get_by_label("A10G, 24 GB")).to_be_checked()
    expect(said).to_contain_text("$0.93/h")
    assert prices(server) == [(2, "t4"), (3, "t4"), (3, "a10g")]
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expect(dialog.get_by_label("torchrun")).to_be_checked()
    expect(dialog.locator("pre")).to_have_text(CODE.format('3, "a10g", engine="torchrun"'))
    expect(start).to_be_enabled()
    assert abs(dialog.bounding_box()["height"] - height) < 1, "nothing has moved"
    picture_of(dialog, f"dialog-cluster-{theme.lower()}")
    number.fill("7")
    expect(said).to_have_text("The hub refused: this hub allows at most 5 workers.")
    expect(start).to_be_disabled()
    picture_of(dialog, f"dialog-cluster-refused-{theme.lower()}")
    assert violations(page, DIALOG) == []
    number.fill("9")
    expect(said).to_have_text("Choose 1 to 8 workers.")
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()
    expect(cells(page)).to_have_count(1)


@pytest.mark.usefixtures("notebook")
def test_the_cluster_is_started_by_a_cell_of_the_notebook_in_front(
    page: Any, server: Server
) -> None:
    section = open_panel(page, server)
    cells(page).first.click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text("import sys\n" + STUB + "\nsys.modules['ec2spawner'] = ec2spawner")
    page.keyboard.press("Control+Enter")
    section.get_by_role("button", name=BUTTON).click()
    dialog = page.locator(DIALOG)
    number = dialog.get_by_role("spinbutton", name="Workers")
    held: list[Any] = []
    page.route(PRICE, lambda route: held.append(route))
    number.fill("4")
    page.keyboard.press("Enter")  # its price is not there yet
    page.route(PRICE, lambda route: route.continue_())
    for each in held:
        each.continue_()
    expect(dialog).to_contain_text("4 workers together")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(cells(page)).to_have_count(2)
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(1)
    prompt = cell.locator(".jp-InputPrompt")
    expect(prompt).to_have_text(RAN)
    first = prompt.inner_text()
    assert source_of(cell) == CODE.format('4, "t4"')
    page.locator(".jp-Notebook .jp-CodeCell").nth(1).click()
    page.keyboard.press("Control+Enter")
    expect(prompt).not_to_have_text(first)
    expect(prompt).to_have_text(RAN)
    assert {each["body_action"] for each in server.posts("cluster")} == {"price"}


@pytest.mark.usefixtures("notebook")
@pytest.mark.nightly(
    guard="tests/e2e/test_cluster_start_in_browser.py::"
    "test_the_cluster_is_started_by_a_cell_of_the_notebook_in_front"
)
def test_without_a_notebook_a_new_one_is_opened(page: Any, server: Server) -> None:
    section = open_panel(page, server, "")
    section.get_by_role("button", name=BUTTON).click()
    dialog = page.locator(DIALOG)
    expect(dialog).to_contain_text("a new one is opened")
    start = dialog.get_by_role("button", name="Start in a new notebook")
    expect(start).to_be_enabled()
    picture_of(dialog, "dialog-cluster-new")
    start.click()
    cell = page.locator(".jp-Notebook .jp-CodeCell").first
    expect(cell.locator(".jp-InputPrompt")).to_have_text(RAN)
    assert source_of(cell) == CODE.format('2, "t4"')


@pytest.mark.usefixtures("notebook")
@pytest.mark.nightly(
    guard="tests/e2e/test_cluster_start_in_browser.py::"
    "test_the_cluster_is_started_by_a_cell_of_the_notebook_in_front"
)
def test_notebook_has_the_button_too(page: Any, server: Server) -> None:
    server.has_cluster(ALLOWED)
    page.goto(f"{server.url}/notebooks/{NAME}?token={server.token}")
    page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").wait_for()
    filled_item(page).click()
    page.locator(PANEL).get_by_role("button", name=BUTTON).click()
    dialog = page.locator(DIALOG)
    expect(dialog).to_contain_text(f"This cell is added to {NAME}")
    expect(dialog.get_by_role("status")).to_contain_text("About")
    page.keyboard.press("Enter")
    cell = page.locator(".jp-Notebook .jp-CodeCell").nth(1)
    expect(cell.locator(".jp-InputPrompt")).to_have_text(RAN)
    leave(page, server)


@pytest.mark.usefixtures("notebook")
@pytest.mark.nightly(
    guard="tests/e2e/test_cluster_start_in_browser.py::"
    "test_the_cluster_is_started_by_a_cell_of_the_notebook_in_front"
)
def test_a_price_that_does_not_come_can_be_asked_for_again(page: Any, server: Server) -> None:
    gone = server.folder / "price-gone"
    gone.touch()
    try:
        section = open_panel(page, server)
        section.get_by_role("button", name=BUTTON).click()
        dialog = page.locator(DIALOG)
        expect(dialog.get_by_role("status")).to_contain_text("does not respond")
        expect(dialog.get_by_role("button", name="Start", exact=True)).to_be_disabled()
        picture_of(dialog, "dialog-cluster-offline")
    finally:
        gone.unlink()
    dialog.get_by_role("button", name="Try again").click()
    expect(dialog.get_by_role("status")).to_contain_text("About $0.62/h")
    expect(dialog.get_by_role("button", name="Start", exact=True)).to_be_enabled()
    page.keyboard.press("Escape")


@pytest.mark.usefixtures("notebook")
@pytest.mark.nightly(
    guard="tests/e2e/test_cluster_start_in_browser.py::"
    "test_the_cluster_is_started_by_a_cell_of_the_notebook_in_front"
)
def test_the_palette_has_it_where_a_cluster_is_allowed(page: Any, server: Server) -> None:
    server.has_cluster(ALLOWED)
    page.goto(f"{server.url}/lab?token={server.token}&reset")
    filled_item(page)
    until(lambda: bool(page.evaluate(HAS_COMMAND)))
    page.evaluate(COMMAND)
    expect(page.locator(DIALOG)).to_contain_text("Start a cluster")
    page.keyboard.press("Escape")
    server.has_cluster(ClusterStatus(wanted=1, max_workers=8))
    page.evaluate("window.jupyterapp.shell.activateById('ec2spawner-panel')")
    until(lambda: not page.evaluate(HAS_COMMAND))
    server.has_cluster(ClusterStatus())
    expect(page.locator(PANEL).get_by_role("button", name=BUTTON)).to_have_count(0)
    assert not page.evaluate(HAS_COMMAND)


@pytest.mark.usefixtures("notebook")
@pytest.mark.nightly(
    guard="tests/e2e/test_cluster_start_in_browser.py::"
    "test_the_cluster_is_started_by_a_cell_of_the_notebook_in_front"
)
def test_the_last_cluster_is_chosen_at_first(page: Any, server: Server) -> None:
    last = ClusterStatus(max_workers=4, last_workers=6, last_profile="a10g", last_engine="torchrun")
    section = open_panel(page, server, cluster=last)
    section.get_by_role("button", name=BUTTON).click()
    dialog = page.locator(DIALOG)
    expect(dialog.get_by_role("spinbutton", name="Workers")).to_have_value("4")
    expect(dialog.get_by_label("A10G, 24 GB")).to_be_checked()
    expect(dialog.get_by_label("torchrun")).to_be_checked()
    expect(dialog.get_by_label("H100")).to_be_disabled()
    page.keyboard.press("Escape")
