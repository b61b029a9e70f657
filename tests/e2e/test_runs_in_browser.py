"""The dialog "Run on…" in a real browser, before a hub whose answers the test knows."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from ec2spawner.wire import Payer
from tests.e2e.accessibility import violations
from tests.e2e.canned_server import (
    BROWSER_MARKS,
    KERNEL,
    START_SECONDS,
    Server,
    filled_item,
    leave,
    open_lab,
    picture_of,
    until,
)

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [*BROWSER_MARKS, pytest.mark.slow(seconds=60)]

DIALOG = ".jp-Dialog-content"
NAME = "sweep.ipynb"
ANN = Payer(payer="user:ann", name="Yourself")
RESEARCH = Payer(payer="group:research", name="Group research")


@pytest.fixture
def notebook(server: Server) -> Any:
    """With three parameters; what was saved last."""
    cell = {
        "cell_type": "code",
        "id": "a",
        "source": "lr: float = 0.1  # of Adam\nname = 'first'\nlayers = [64, 64]",
        "metadata": {"tags": ["parameters"]},
        "outputs": [],
        "execution_count": None,
    }
    file = server.folder / "work" / NAME
    content = {"cells": [cell], "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(content))
    (server.folder / "work" / "train.py").write_text("print('x')\n")
    yield file
    file.unlink()


def right_click(item: Any) -> None:
    """On an item of the file browser, once a click selects it and not its neighbour: the rows
    move until JupyterLab has listed the folder."""

    def is_selected() -> bool:
        item.click()
        return "jp-mod-selected" in (item.get_attribute("class") or "").split()

    until(is_selected)
    item.click(button="right")


def open_notebook(page: Any, server: Server, application: str = "lab/tree") -> None:
    page.goto(f"{server.url}/{application}/{NAME}?token={server.token}&reset")
    page.locator(".jp-Notebook").wait_for(timeout=START_SECONDS * 1000)
    filled_item(page)


@pytest.mark.usefixtures("notebook")
@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_the_dialog_can_be_read_and_used_by_all(page: Any, server: Server, theme: str) -> None:
    server.choose_theme(theme)
    server.offers([ANN, RESEARCH], reports_ends=True)
    open_notebook(page, server)
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
    picture_of(dialog, f"dialog-run-{theme.lower()}")
    dialog.get_by_label("Deadline").fill("soon")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("Deadline")
    expect(dialog.get_by_label("Deadline")).to_be_focused()
    assert violations(page, DIALOG) == []
    picture_of(dialog, f"dialog-run-wrong-{theme.lower()}")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert server.posts("runs") == []


def test_what_is_on_the_screen_is_saved_and_run_and_a_refusal_loses_nothing(
    page: Any, server: Server, notebook: Any
) -> None:
    open_notebook(page, server)
    page.locator(".jp-Cell .cm-content").first.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("\nepochs = 3")
    page.get_by_role("button", name="Run on…").click()
    dialog = page.locator(DIALOG)
    expect(dialog.get_by_label("epochs")).to_have_value("3")
    for absent in ("Charged to", "Notify the hub's alarm destinations"):
        expect(dialog.get_by_label(absent)).to_have_count(0)
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
    toast = page.locator(".Toastify")
    expect(toast).to_contain_text("runs/sweep-12.ipynb")
    with page.context.expect_page() as shown:
        toast.get_by_role("button", name="Show runs").click()
    assert urlsplit(shown.value.url).path == "/hub/ec2/runs"
    shown.value.close()
    wanted = {
        "path": NAME,
        "parameters": {"lr": "0.5", "seed": "7"},
        "max_usd": 2.5,
        "deadline_seconds": 28800,
        "payer": "",
        "notify": False,
    }
    assert server.posts("runs") == [
        {"action": "runs", "profile": profile, **wanted} for profile in ("cpu", "t4")
    ]


@pytest.mark.usefixtures("notebook")
def test_the_user_chooses_who_pays_and_what_that_payer_cannot_pay_for_cannot_be_chosen(
    page: Any, server: Server
) -> None:
    server.offers([ANN, RESEARCH], reports_ends=True)
    open_notebook(page, server)
    page.get_by_role("button", name="Run on…").click()
    dialog = page.locator(DIALOG)
    charged_to = dialog.get_by_label("Charged to")
    expect(charged_to).to_have_value(ANN.payer)
    dialog.get_by_label("A10G").check()
    expect(dialog.get_by_label("H100")).to_be_disabled()
    charged_to.focus()
    page.keyboard.press("ArrowDown")
    expect(charged_to).to_have_value(RESEARCH.payer)
    expect(charged_to).to_be_focused()
    expect(dialog.get_by_label("A10G")).to_be_disabled()
    expect(dialog).to_contain_text("$3 left of the limit")
    expect(dialog.get_by_label("T4")).to_be_checked()
    picture_of(dialog, "dialog-run-payer")
    dialog.get_by_label("H100").check()
    dialog.get_by_label("Notify the hub's alarm destinations").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    [sent] = server.posts("runs")
    assert (sent["profile"], sent["payer"], sent["notify"]) == ("h100", RESEARCH.payer, True)


@pytest.mark.usefixtures("notebook")
def test_a_file_is_run_from_the_file_browser(page: Any, server: Server) -> None:
    open_lab(page, server)
    for name, parameter in ((NAME, "lr"), ("train.py", "Name of the parameter")):
        right_click(page.locator(".jp-DirListing-item", has_text=name))
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


@pytest.mark.usefixtures("notebook")
@pytest.mark.nightly(
    guard="tests/e2e/test_runs_in_browser.py::"
    "test_what_is_on_the_screen_is_saved_and_run_and_a_refusal_loses_nothing"
)
def test_notebook_has_the_button_too(page: Any, server: Server) -> None:
    open_notebook(page, server, "notebooks")
    page.get_by_role("button", name="Run on…").click()
    expect(page.locator(DIALOG).get_by_label("lr")).to_be_visible()
    page.keyboard.press("Escape")
    leave(page, server)
