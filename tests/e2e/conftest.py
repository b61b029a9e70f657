"""A browser for the tests, and everything that a failed one leaves to look at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from tests.e2e.canned_server import browser as browser
from tests.e2e.canned_server import lab_page as lab_page
from tests.e2e.canned_server import new_page as new_page
from tests.e2e.canned_server import page as page
from tests.e2e.canned_server import server as server
from tests.e2e.canned_server import tab as tab
from tests.e2e.chromium import CHROMIUM
from tests.e2e.running_demo import RunningDemo
from tests.e2e.turns import turn
from tests.e2e.visits import FAILED, chromium, visits
from tests.e2e.visits import Visit as Visit


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
        item.stash[FAILED] = True
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, RunningDemo):
                report.sections.append(("Logs of the demo", value.story()))
    return report


@pytest.fixture
async def visit(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Visit]:
    """Opens Chromium, for this test alone."""
    async with chromium(tmp_path / "chromium") as browser, visits(browser, request.node) as visit:
        yield visit
