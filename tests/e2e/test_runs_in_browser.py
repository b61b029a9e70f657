"""What is left to the night of the dialog "Run on…"; `test_panel.py` has its test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.canned_server import (
    BROWSER_MARKS,
    START_SECONDS,
    Server,
    filled_item,
    leave,
)
from tests.e2e.run_dialog import DIALOG, NAME, SOURCE, TAG

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [*BROWSER_MARKS, pytest.mark.slow(seconds=40)]


@pytest.fixture
def notebook(server: Server) -> Iterator[None]:
    file = server.has_notebook(NAME, SOURCE, TAG)
    yield
    file.unlink()


def open_notebook(page: Any, server: Server, application: str = "lab/tree") -> None:
    page.goto(f"{server.url}/{application}/{NAME}?token={server.token}&reset")
    page.locator(".jp-Notebook").wait_for(timeout=START_SECONDS * 1000)
    filled_item(page)


@pytest.mark.nightly(
    guard="labextension/test/runs.test.js::the first that is available is selected"
)
@pytest.mark.usefixtures("notebook")
def test_what_the_payer_cannot_pay_for_cannot_be_chosen_and_the_end_is_notified(
    page: Any, server: Server
) -> None:
    server.offers(reports_ends=True)
    open_notebook(page, server)
    page.get_by_role("button", name="Run on…").click()
    dialog = page.locator(DIALOG)
    expect(dialog.get_by_label("H100")).to_be_disabled()
    dialog.get_by_label("A10G").check()
    dialog.get_by_label("Notify the hub's alarm destinations").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    [sent] = server.posts("runs")
    assert (sent["profile"], sent["notify"]) == ("a10g", True)


@pytest.mark.usefixtures("notebook")
@pytest.mark.nightly(
    guard="tests/e2e/test_lab_extension.py::test_warns_before_the_stop_and_extends"
)
def test_notebook_has_the_button_too(page: Any, server: Server) -> None:
    open_notebook(page, server, "notebooks")
    page.get_by_role("button", name="Run on…").click()
    expect(page.locator(DIALOG).get_by_label("lr")).to_be_visible()
    page.keyboard.press("Escape")
    leave(page, server)
