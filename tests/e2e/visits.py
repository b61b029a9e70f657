"""Chromium for tests that drive it by asyncio, and what a failed one leaves to look at."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.chromium import CHROMIUM, CHROMIUM_FLAGS

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


@contextlib.asynccontextmanager
async def visits(browser: Any, node: pytest.Item) -> AsyncIterator[Visit]:
    """Where the test fails, each page is photographed into `tests/output/`."""

    async def visit(url: str, **options: Any) -> Any:
        context = await browser.new_context(viewport=WINDOW, locale="en-US", **options)
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
