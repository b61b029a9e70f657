"""Chromium for tests that drive it by asyncio, and what a failed one leaves to look at."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.chromium import CHROMIUM, CHROMIUM_FLAGS
from tests.harness import PASSWORD

OUTPUT = Path(__file__).resolve().parents[1] / "output"
WINDOW: Any = {"width": 1280, "height": 800}

FAILED = pytest.StashKey[bool]()
"""Set on a test that has."""

Visit = Callable[..., Awaitable[Any]]
"""`await visit(url)` is a page of a browser session of its own, without cookies."""


@contextlib.asynccontextmanager
async def chromium(home: Path) -> AsyncIterator[Any]:
    """The browser, with a home of its own."""
    from playwright import async_api as playwright

    playwright.expect.set_options(timeout=90_000)
    home.mkdir()
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=CHROMIUM_FLAGS, env={**os.environ, "HOME": str(home)}
        )
        yield browser
        await browser.close()


async def cookies_of(browser: Any, hub_url: str, name: str) -> Any:
    """Those of a person who has logged in, for `visits`."""
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{hub_url}/hub/login?next=/hub/home")
    await page.get_by_label("Username").fill(name)
    await page.get_by_label("Password", exact=False).first.fill(PASSWORD)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"{hub_url}/hub/home")
    cookies = await context.storage_state()
    await context.close()
    return cookies


@contextlib.asynccontextmanager
async def visits(browser: Any, node: pytest.Item, state: Any = None) -> AsyncIterator[Visit]:
    """Of people with these cookies, or without any. Where the test fails, each page is photographed
    into `tests/output/`."""

    async def visit(url: str, **options: Any) -> Any:
        given = {"viewport": WINDOW, "locale": "en-US", "storage_state": state} | options
        context = await browser.new_context(**given)
        context.set_default_timeout(180_000)
        page = await context.new_page()
        await page.goto(url)
        return page

    try:
        yield visit
    finally:
        if node.stash.get(FAILED, False):
            await _photograph(browser, node.name)
        for context in browser.contexts:
            await context.close()


async def _photograph(browser: Any, name: str) -> None:
    OUTPUT.mkdir(parents=True, exist_ok=True)
    pages = [each for context in browser.contexts for each in context.pages]
    for number, each in enumerate(pages, 1):
        path = OUTPUT / f"failed-{name}-{number}.png"
        try:
            await each.screenshot(path=path, timeout=60_000)
            print(f"{each.url} looked like {path}")
        except Exception as error:
            print(f"{each.url} could not be photographed: {error}")
