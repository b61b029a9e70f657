"""What a person does in the browser: logs in, opens things in JupyterLab, types, and looks."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.harness import PASSWORD

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

SPAWN_SECONDS = 240
IDLE_SECONDS = 240
LOAD_SECONDS = 240
"""JupyterLab, or a kernel in it; others may keep all cores busy meanwhile."""


# --- at the hub ---


async def log_in(page: Any, name: str, password: str = PASSWORD) -> None:
    """Until the spawn page, or the user's server where it runs already."""
    await page.get_by_label("Username").fill(name)
    await page.get_by_label("Password", exact=False).first.fill(password)
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile(r"/hub/spawn|/user/"))


async def arrives_in_jupyterlab(page: Any) -> None:
    """By itself: without user input."""
    await page.wait_for_url("**/user/*/lab**", timeout=SPAWN_SECONDS * 1000)
    await expect(page.locator(".jp-DirListing-content")).to_be_visible(timeout=LOAD_SECONDS * 1000)


# --- in JupyterLab ---


async def open_new_notebook(page: Any) -> None:
    await page.locator(".jp-LauncherCard[data-category=Notebook]").first.click()
    await has_a_kernel(page)


async def open_new_terminal(page: Any) -> None:
    await page.locator(".jp-LauncherCard[title*=terminal]").click()
    await page.locator(".jp-Terminal textarea").focus()


async def has_a_kernel(page: Any) -> None:
    """Until then JupyterLab runs nothing, and says nothing."""
    await expect(page.locator("#jp-main-statusbar")).to_contain_text(
        "Python 3 (ipykernel) | Idle", timeout=LOAD_SECONDS * 1000
    )


async def run(page: Any, code: str) -> None:
    """In the last cell, which is empty."""
    await page.locator(".jp-Notebook-cell .cm-content").last.click()
    await page.keyboard.insert_text(code)
    await page.keyboard.press("Shift+Enter")


def status_item(page: Any) -> Any:
    return page.locator(".ec2-StatusItem")


async def sees_that_the_server_has_ended(page: Any) -> None:
    """The page that was left open says so, with a button that starts it again."""
    ended = re.compile(r"This server was stopped|Your session has been asleep")
    toast = page.locator(".Toastify__toast", has_text=ended)
    again = toast.get_by_role("button", name=re.compile(r"Start server again|Wake session"))
    await expect(again).to_be_visible(timeout=IDLE_SECONDS * 1000)
