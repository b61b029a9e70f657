"""What is left to the night of the button that starts a cluster; `test_panel.py` has its test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ec2spawner.wire import ClusterStatus
from tests.e2e.canned_server import (
    BROWSER_MARKS,
    PANEL,
    START_SECONDS,
    Server,
    filled_item,
    leave,
    picture_of,
    until,
)
from tests.e2e.cluster_dialog import (
    ALLOWED,
    BUTTON,
    CODE,
    DIALOG,
    HAS_COMMAND,
    NAME,
    RAN,
    SOURCE,
    source_of,
)

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [*BROWSER_MARKS, pytest.mark.slow(seconds=60)]

COMMAND = "void window.jupyterapp.commands.execute('ec2spawner:start-cluster')"
"""Without its promise, which is resolved when the dialog is closed."""


@pytest.fixture
def notebook(server: Server) -> Iterator[None]:
    file = server.has_notebook(NAME, SOURCE)
    yield
    file.unlink()
    for made in file.parent.glob("Untitled*"):
        made.unlink()


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


@pytest.mark.usefixtures("notebook")
@pytest.mark.nightly(
    guard="tests/e2e/test_panel.py::test_a_cluster_is_started_from_the_panel_by_a_cell"
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
    guard="tests/e2e/test_lab_extension.py::test_warns_before_the_stop_and_extends"
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
    guard="tests/e2e/test_panel.py::test_a_cluster_is_started_from_the_panel_by_a_cell"
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
    guard="tests/e2e/test_panel.py::test_a_cluster_is_started_from_the_panel_by_a_cell"
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
