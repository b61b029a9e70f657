"""A page with a changed document, however its server ends: JupyterLab opens no dialog, and what was
typed is saved by itself when the server is back.

The server is canned, so that each end is over in seconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from ec2spawner.wire import ServerEnd, Stop
from tests.e2e.canned_server import (
    BROWSER_MARKS,
    STATUS_URL,
    TOAST,
    Server,
    hide,
    open_lab,
    open_notebook,
    picture,
    shows,
    status,
    until,
    wait_for_kernel,
)

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [*BROWSER_MARKS, pytest.mark.slow(seconds=80)]

API = re.compile(r"/(api|lab/api|ec2spawner/api)/")
CONTENTS = re.compile(r"/api/contents/")
DIRTY = ".jp-mod-dirty"


@dataclass(frozen=True)
class End:
    """One way in which a server ends while a page has a changed document."""

    stop: Stop | None = None
    """As it is announced; None where the end comes without a word."""
    answers: int = 424
    """Status that is answered in the server's place; 0 for no answer."""
    hub: ServerEnd | None = None
    """The hub's answer meanwhile."""
    words: str = ""
    """Words of the toast."""


def ended(stop: Stop, **more: Any) -> ServerEnd:
    return ServerEnd(running=False, stop=stop, ended_at=datetime.now(UTC), **more)


def stopped(words: str, *, asleep: bool = False, **how: Any) -> End:
    stop = Stop(**how)
    return End(stop=stop, hub=ended(stop, asleep=asleep), words=words)


MOVING = "Your session continues on another machine"

ENDS = {
    "stop": stopped("You requested it", reason="user"),
    "stop-by-admin": stopped("The admin ann requested it", reason="admin", by="ann"),
    "sleep": stopped("Your session has been asleep", reason="user", sleep="user", asleep=True),
    "idle": stopped("Your session has been asleep", reason="idle", sleep="idle", asleep=True),
    "limit": stopped("A limit", reason="budget"),
    "interruption": stopped("AWS reclaimed this instance", reason="interruption"),
    "interruption-moves": End(
        stop=Stop(reason="interruption", sleep="interruption"),
        hub=ServerEnd(running=False, continues=True),
        words=MOVING,
    ),
    "continue-on": End(
        stop=Stop(reason="user", sleep="hardware"),
        hub=ServerEnd(running=False, continues=True),
        words=MOVING,
    ),
    "hub-down": End(answers=500, words="This server does not respond"),
    "proxy-down": End(answers=503, words="This server does not respond"),
    "instance-gone": End(answers=0, words="This server does not respond"),
    "instance-lost": End(
        hub=ended(Stop(reason="lost", message="its instance is gone")), words="its instance is gone"
    ),
}
IN_EACH_RUN = ("interruption-moves", "instance-gone")


@dataclass
class Page:
    """JupyterLab with a changed notebook, and what it has asked the server to write."""

    page: Any
    server: Server
    dialogs: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        wait_for_kernel(self.page)
        self.page.on("request", self._note)
        self.page.evaluate(
            """() => {
              window.dialogs = [];
              new MutationObserver(() => {
                for (const each of document.querySelectorAll('.jp-Dialog:not([data-seen])')) {
                  each.dataset.seen = 'true';
                  window.dialogs.push(each.textContent);
                }
              }).observe(document.body, { childList: true });
            }"""
        )

    def _note(self, request: Any) -> None:
        if request.method == "PUT" and CONTENTS.search(request.url):
            self.written.append(request.url)

    def types(self, text: str) -> None:
        self.page.locator(".jp-Notebook-cell .cm-content").first.click()
        self.page.keyboard.press("End")
        self.page.keyboard.insert_text(text)
        cell = self.page.locator(".jp-Notebook-cell .cm-content").first
        expect(cell).to_contain_text(text.strip())

    def is_saved(self, text: str) -> bool:
        file = self.server.folder / "work" / "train.ipynb"
        try:
            content = json.loads(file.read_text())
        except json.JSONDecodeError:  # it is being written
            return False
        return text in "".join("".join(cell["source"]) for cell in content["cells"])

    def saw_no_dialog(self) -> None:
        assert self.page.evaluate("window.dialogs") == []
        expect(self.page.locator(".jp-Dialog")).to_have_count(0)

    def comes_back(self) -> None:
        """To the tab: its person does not wait for the next turn."""
        self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


@pytest.fixture
def autosave(server: Server) -> Iterator[None]:
    """As on instances: after five seconds."""
    folder = server.settings / "@jupyterlab/docmanager-extension"
    folder.mkdir(exist_ok=True)
    file = folder / "plugin.jupyterlab-settings"
    file.write_text('{"autosaveInterval": 5}')
    yield
    file.unlink()


def takes_away(page: Any, answers: int) -> None:
    words = {"message": "Restart the server at http://hub/hub/spawn/me"}

    def instead(route: Any) -> None:
        if answers:
            route.fulfill(status=answers, json=words)
        else:
            route.abort()

    page.route(API, instead)


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in IN_EACH_RUN
        else pytest.param(
            name,
            marks=pytest.mark.nightly(
                guard="tests/e2e/test_unsaved_changes_in_browser.py::"
                "test_no_dialog_and_nothing_lost"
            ),
        )
        for name in ENDS
    ],
)
def test_no_dialog_and_nothing_lost(page: Any, server: Server, autosave: None, name: str) -> None:
    end = ENDS[name]
    server.has_notebook("train.ipynb", "")
    item = open_lab(page, server)
    expect(page.locator("#react-toastify-container")).to_have_count(1)
    lab = Page(page, server)
    lab.types("before")
    toast = page.locator(TOAST)
    if end.stop is not None:
        shows(page, server, status(stop=end.stop))
        until(lambda: server.posts("saved") != [])
        assert lab.is_saved("before")
        expect(page.locator(DIRTY)).to_have_count(0)
        lab.written.clear()
        lab.types(" meanwhile")
        unsaved = toast.filter(has_text=re.compile("^Unsaved changes in train.ipynb"))
        expect(unsaved).to_have_count(1)
        page.keyboard.press("Control+s")
        expect(unsaved.filter(has_text="saved as soon as this server runs again")).to_have_count(1)
        page.wait_for_timeout(6000)  # an autosave would be due
    server.ends(end.hub)
    takes_away(page, end.answers)
    lab.types(" after")
    page.keyboard.press("Control+s")
    lost = toast.filter(has_text=end.words).first
    expect(lost).to_contain_text("Unsaved changes in train.ipynb: keep this page open.")
    page.wait_for_timeout(6000)
    lab.saw_no_dialog()
    if end.stop is not None:
        assert lab.written == [], "saved between the last save and the return"
    picture(page, f"unsaved-{name}")

    page.unroute(API)
    server.says(status())
    server.ends(ServerEnd(running=True))
    lab.comes_back()
    until(lambda: lab.is_saved("before meanwhile after" if end.stop else "before after"))
    expect(page.locator(DIRTY)).to_have_count(0)
    expect(item).to_contain_text("in use")
    expect(toast.filter(has_text="Unsaved")).to_have_count(0)
    lab.saw_no_dialog()


def is_away(page: Any, server: Server, lab: Page) -> Any:
    """The toast, of a server that was stopped while the page had something unsaved."""
    stop = Stop(reason="user")
    server.says(status(stop=stop))
    server.ends(ended(stop))
    takes_away(page, 424)
    lab.types("typed")
    toast = page.locator(TOAST).filter(has_text="You requested it")
    expect(toast).to_contain_text("Unsaved changes in train.ipynb")
    return toast


@pytest.mark.parametrize("where", [open_lab, open_notebook])
def test_unsaved_changes_can_be_downloaded_and_the_browser_asks_before_the_page_is_closed(
    new_page: Any, server: Server, where: Callable[[Any, Server], Any]
) -> None:
    server.has_notebook("train.ipynb", "")
    where(new_page, server)
    lab = Page(new_page, server)
    toast = is_away(new_page, server, lab)
    with new_page.expect_download() as downloading:
        toast.get_by_role("button", name="Download this notebook").click()
    assert downloading.value.suggested_filename == "train.ipynb"
    content = json.loads(downloading.value.path().read_text())
    assert "typed" in content["cells"][0]["source"]
    expect(toast).to_be_visible()
    lab.saw_no_dialog()
    with new_page.expect_event("dialog") as asking:
        new_page.close(run_before_unload=True)
    assert asking.value.type == "beforeunload"
    asking.value.accept()


@pytest.mark.parametrize("is_changed", [True, False])
def test_a_server_that_was_started_elsewhere_asks_for_a_login_and_loses_nothing(
    new_page: Any, server: Server, is_changed: bool
) -> None:
    """It is another process, which does not know the page's login."""
    page = new_page
    server.has_notebook("train.ipynb", "")
    item = open_lab(page, server)
    lab = Page(page, server)
    lab.types("before")
    page.keyboard.press("Control+s")
    expect(page.locator(DIRTY)).to_have_count(0)
    server.ends(ServerEnd(running=True))
    takes_away(page, 403)
    if is_changed:
        lab.types(" typed")
    toast = page.locator(TOAST).filter(has_text="Sign in again:")
    expect(toast).to_have_count(1)
    expect(toast.get_by_text("Unsaved changes in train.ipynb")).to_have_count(int(is_changed))
    expect(toast.get_by_role("button", name="Download")).to_have_count(int(is_changed))
    expect(item).to_contain_text("sign in again")
    picture(page, f"signed-out-{is_changed}".lower())
    lab.saw_no_dialog()
    sign_in = toast.get_by_role("button", name="Sign in again")
    if is_changed:
        with page.context.expect_page() as login:
            sign_in.click()
        assert login.value.url == page.url
        login.value.close()
    else:
        page.unroute(API)
        with page.expect_navigation():
            sign_in.click()
    page.unroute_all()
    if is_changed:
        lab.comes_back()
        until(lambda: lab.is_saved("before typed"))
        lab.saw_no_dialog()
    expect(item).to_contain_text("in use")
    expect(toast).to_have_count(0)


def test_a_file_that_was_changed_meanwhile_is_asked_about(page: Any, server: Server) -> None:
    """By JupyterLab's own question: neither version is lost without a word."""
    server.has_notebook("train.ipynb", "")
    open_lab(page, server)
    lab = Page(page, server)
    is_away(page, server, lab)
    server.has_notebook("train.ipynb", "by git")
    page.unroute(API)
    server.says(status())
    server.ends(ServerEnd(running=True))
    lab.comes_back()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("has changed on disk")
    assert lab.is_saved("by git")
    dialog.get_by_role("button", name="Overwrite").click()
    until(lambda: lab.is_saved("typed"))


def test_a_tab_behind_another_saves_when_the_server_is_back(
    page: Any, server: Server, autosave: None
) -> None:
    """It asks for no status: its next autosave finds the server."""
    server.has_notebook("train.ipynb", "")
    open_lab(page, server)
    lab = Page(page, server)
    lab.types("typed")
    hide(page)
    with page.expect_request(STATUS_URL):  # after the failed save
        takes_away(page, 503)
    page.unroute(API)
    until(lambda: lab.is_saved("typed"))
    lab.saw_no_dialog()
