"""The dialog "Run on…", as a person uses it in JupyterLab."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.accessibility import COLOURS, violations
from tests.e2e.canned_server import Server, picture_of, until

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

DIALOG = ".jp-Dialog-content"
NAME = "sweep.ipynb"
SOURCE = "lr: float = 0.1  # of Adam\nname = 'first'\nlayers = [64, 64]"
TAG = "parameters"
"""Of the cell with three."""


def can_be_used_by_keyboard(page: Any, server: Server) -> None:
    """From the toolbar of the notebook in front; what is wrong is said where it is."""
    server.offers(reports_ends=True)
    page.get_by_role("button", name="Run on…").click()
    dialog = page.locator(DIALOG)
    expect(dialog.get_by_label("T4, 16 GB (as this server)")).to_be_focused()
    expect(dialog.get_by_label("lr")).to_have_value("0.1")
    expect(dialog.get_by_label("name", exact=True)).to_have_value("'first'")
    expect(dialog).to_contain_text("About $0.20/h")
    page.keyboard.press("ArrowDown")
    expect(dialog).to_contain_text("About $0.31/h")
    dialog.get_by_role("button", name="Add parameter").click()
    expect(dialog.get_by_label("Name of the parameter")).to_be_focused()
    dialog.get_by_label("Cost cap, USD").fill("3.1")
    expect(dialog).to_contain_text("lasts for about 10 hours")
    dialog.get_by_label("Notify the hub's alarm destinations").check()
    picture_of(dialog, "dialog-run-light")
    dialog.get_by_label("Deadline").fill("soon")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("Deadline")
    expect(dialog.get_by_label("Deadline")).to_be_focused()
    assert violations(page, DIALOG) == []
    picture_of(dialog, "dialog-run-wrong-light")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert server.posts("runs") == []


def can_be_read_in_the_dark(page: Any) -> None:
    """In the theme that JupyterLab has now."""
    page.get_by_role("button", name="Run on…").click()
    dialog = page.locator(DIALOG)
    expect(dialog).to_contain_text("About $0.20/h")
    dialog.get_by_label("Cost cap, USD").fill("3.1")
    expect(dialog).to_contain_text("lasts for about")
    picture_of(dialog, "dialog-run-dark")
    dialog.get_by_label("Deadline").fill("soon")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("Deadline")
    assert violations(page, DIALOG, COLOURS) == []
    picture_of(dialog, "dialog-run-wrong-dark")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def saves_and_runs_what_is_on_the_screen(page: Any, server: Server, notebook: Path) -> None:
    """A refusal loses nothing of what was filled in."""
    server.offers(reports_ends=False)
    page.locator(".jp-Notebook:visible .jp-Cell .cm-content").first.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("\nepochs = 3")
    page.get_by_role("button", name="Run on…").click()
    dialog = page.locator(DIALOG)
    expect(dialog.get_by_label("epochs")).to_have_value("3")
    expect(dialog.get_by_label("Notify the hub's alarm destinations")).to_have_count(0)
    assert "epochs = 3" in notebook.read_text()
    dialog.get_by_label("No GPU").check()
    dialog.get_by_label("lr").fill("0.5")
    dialog.get_by_role("button", name="Add parameter").click()
    dialog.get_by_label("Name of the parameter").fill("seed")
    dialog.get_by_label("Value of the parameter").fill("7")
    dialog.get_by_label("Cost cap, USD").fill("2.5")
    dialog.get_by_label("Deadline").fill("8")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("at most 4 <b>runs</b>")
    expect(dialog.get_by_label("lr")).to_have_value("0.5")
    expect(dialog.get_by_label("Value of the parameter")).to_have_value("7")
    dialog.get_by_label("T4").check()
    dialog.get_by_role("button", name="Run", exact=True).click()
    expect(dialog).to_have_count(0)
    toast = page.locator(".Toastify__toast", has_text="runs/sweep-12.ipynb")
    with page.context.expect_page() as shown:
        toast.get_by_role("button", name="Show runs").click()
    assert urlsplit(shown.value.url).path == "/hub/ec2/runs"
    shown.value.close()
    wanted = {
        "path": NAME,
        "parameters": {"lr": "0.5", "seed": "7"},
        "max_usd": 2.5,
        "deadline_seconds": 28800,
        "notify": False,
    }
    assert server.posts("runs") == [
        {"action": "runs", "profile": profile, **wanted} for profile in ("cpu", "t4")
    ]


def runs_files_of_the_file_browser(page: Any, server: Server) -> None:
    """Of which each is run as it is."""
    script = server.folder / "work" / "train.py"
    script.write_text("print('x')\n")
    page.evaluate("window.jupyterapp.commands.execute('filebrowser:refresh')")
    try:
        for name, parameter in ((NAME, "lr"), (script.name, "Name of the parameter")):
            _right_click(page.locator(".jp-DirListing-item", has_text=name))
            page.get_by_role("menuitem", name="Run on…").click()
            dialog = page.locator(DIALOG)
            expect(dialog).to_contain_text(name)
            expect(dialog.get_by_label(parameter)).to_be_visible()
            server.forget_posts()
            dialog.get_by_role("button", name="Run", exact=True).click()
            until(lambda: bool(server.posts("runs")))
            [sent] = server.posts("runs")
            assert (sent["path"], sent["parameters"], sent["max_usd"]) == (name, {}, None)
            expect(dialog).to_have_count(0)
    finally:
        script.unlink()


def _right_click(item: Any) -> None:
    """Once a click selects this item and not its neighbour: the rows move until JupyterLab has
    listed the folder."""

    def is_selected() -> bool:
        item.click()
        return "jp-mod-selected" in (item.get_attribute("class") or "").split()

    until(is_selected)
    item.click(button="right")
