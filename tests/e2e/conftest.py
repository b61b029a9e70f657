"""A browser for the tests, and everything that a failed one leaves to look at."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.canned_server import browser as browser
from tests.e2e.canned_server import lab_page as lab_page
from tests.e2e.canned_server import new_page as new_page
from tests.e2e.canned_server import page as page
from tests.e2e.canned_server import server as server
from tests.e2e.canned_server import tab as tab
from tests.e2e.chromium import CHROMIUM, CHROMIUM_FLAGS
from tests.e2e.running_demo import RunningDemo
from tests.e2e.turns import turn

OUTPUT = Path(__file__).resolve().parents[1] / "output"
WINDOW: Any = {"width": 1280, "height": 800}

_failed = pytest.StashKey[bool]()

Visit = Callable[..., Awaitable[Any]]
"""`await visit(url)` is a page of a browser session of its own, without cookies."""


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest-timeout's: waiting is no hanging
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """xdist's workers share the folder in which each has a temporary folder of its own."""
    if hasattr(item.config, "workerinput") and item.get_closest_marker("e2e"):
        with turn(Path(item.config.option.basetemp).parent):
            return (yield)
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture: a demo need not start for a browser that is not there."""
    if CHROMIUM is None and item.get_closest_marker("e2e"):
        pytest.skip("no Chromium here: `make chromium` installs it, or `apt-get install chromium`")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[_failed] = True
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, RunningDemo):
                report.sections.append(("Logs of the demo", value.story()))
    return report


@pytest.fixture
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visit]:
    """Opens Chromium; where the test fails, each page is photographed into `tests/output/`."""
    from playwright import async_api as playwright

    playwright.expect.set_options(timeout=90_000)
    home = tmp_path / "chromium"
    home.mkdir()
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=CHROMIUM_FLAGS, env={**os.environ, "HOME": str(home)}
        )

        async def visit(url: str, **options: Any) -> Any:
            context = await browser.new_context(viewport=WINDOW, locale="en-US", **options)
            context.set_default_timeout(180_000)
            page = await context.new_page()
            await page.goto(url)
            return page

        try:
            yield visit
        finally:
            if request.node.stash.get(_failed, False):
                await _photograph(browser, request.node.name)
            await browser.close()


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
