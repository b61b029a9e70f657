"""The dialog that starts a cluster, as a person uses it in JupyterLab."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ec2spawner.wire import ClusterStatus
from tests.e2e.accessibility import COLOURS, violations
from tests.e2e.canned_server import Server, picture_of

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

RAN = re.compile(r"\[\d+\]:")
"""The prompt of a cell that was executed; the notebook's kernel outlives a test."""
SECTION = ".ec2-Section:has(.ec2-Cluster-sum)"
DIALOG = ".jp-Dialog-content"
NAME = "cluster.ipynb"
SOURCE = "x = 1"
PRICE = re.compile(r"/ec2spawner/api/cluster\?\d")
"""A question for a price: the time follows the path, as JupyterLab appends it."""
BUTTON = "Start a cluster…"
HAS_COMMAND = "window.jupyterapp.commands.isVisible('ec2spawner:start-cluster')"
CODE = "import ec2spawner\n\ncluster = ec2spawner.cluster({})"
STUB = "class ec2spawner:\n    cluster = staticmethod(lambda *args, **more: (args, more))"
"""In the place of the module: what the call is given."""
ALLOWED = ClusterStatus(max_workers=8)


def prices(server: Server) -> list[tuple[int, str]]:
    """Which were asked for."""
    return [(each["workers"], each["profile"]) for each in server.posts("cluster")]


def cells(page: Any) -> Any:
    return page.locator(".jp-Notebook:visible .jp-CodeCell")


def source_of(cell: Any) -> str:
    return "\n".join(cell.locator(".cm-line").all_inner_texts()).replace("\n\n\n", "\n\n")


def in_the_palette(page: Any) -> Any:
    """What the command palette finds, opened by its shortcut."""
    page.keyboard.press("Control+Shift+C")
    palette = page.locator("#modal-command-palette")
    palette.get_by_role("textbox").fill("start a cluster")
    return palette.locator(".lm-CommandPalette-item", has_text="Start a Cluster…")


def can_be_used_by_keyboard(page: Any, server: Server, section: Any) -> None:
    """It says what is chosen, what that costs and what is refused, and nothing in it moves."""
    button = section.get_by_role("button", name=BUTTON)
    expect(button).to_be_visible()
    picture_of(section, "cluster-none-light")
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
    picture_of(dialog, "dialog-cluster-light")
    number.fill("7")
    expect(said).to_have_text("The hub refused: this hub allows at most 5 workers.")
    expect(start).to_be_disabled()
    picture_of(dialog, "dialog-cluster-refused-light")
    assert violations(page, DIALOG) == []
    number.fill("9")
    expect(said).to_have_text("Choose 1 to 8 workers.")
    page.keyboard.press("Enter")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()
    expect(cells(page)).to_have_count(1)


def can_be_read_in_the_dark(page: Any, section: Any) -> None:
    """In the theme that JupyterLab has now; the command palette opens the dialog, too."""
    picture_of(section, "cluster-none-dark")
    assert violations(page, SECTION, COLOURS) == []
    in_the_palette(page).click()
    dialog = page.locator(DIALOG)
    number, said = dialog.get_by_role("spinbutton", name="Workers"), dialog.get_by_role("status")
    expect(said).to_contain_text("About")
    picture_of(dialog, "dialog-cluster-dark")
    number.fill("7")
    expect(said).to_contain_text("The hub refused")
    picture_of(dialog, "dialog-cluster-refused-dark")
    assert violations(page, DIALOG, COLOURS) == []
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def starts_a_cluster_by_a_cell(page: Any, server: Server, section: Any) -> None:
    """Of the notebook in front; only its run starts anything."""
    cells(page).first.locator(".cm-content").click()
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
    page.unroute(PRICE)
    expect(cells(page)).to_have_count(2)
    cell = cells(page).nth(1)
    prompt = cell.locator(".jp-InputPrompt")
    expect(prompt).to_have_text(RAN)
    first = prompt.inner_text()
    assert source_of(cell) == CODE.format('4, "t4"')
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+Enter")
    expect(prompt).not_to_have_text(first)
    expect(prompt).to_have_text(RAN)
    assert {each["body_action"] for each in server.posts("cluster")} == {"price"}
