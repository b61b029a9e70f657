"""The HTML page of `ec2spawner report`, opened from a mail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ec2spawner.core.bills.reconciliation import Period, reconcile
from ec2spawner.report.discount_use import discount_use
from ec2spawner.report.page import report_html
from ec2spawner.report.reconciled import Reconciled
from tests.e2e.accessibility import violations
from tests.unit.core.test_reconciliation import DAY, HOUR, LATER, LINE, NOW, SEGMENT
from tests.unit.report.ledger import ADA, ROWS, report
from tests.unit.report.test_discount_use import END, G5, RUN, START

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

pytest.importorskip("playwright.async_api", reason="needs playwright")
pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=5)]


def written(folder: Path) -> str:
    """A page with all that it can contain; returns its URL."""
    lost = replace(SEGMENT, instance_id="i-0123456789abcdef0")
    period = Period(DAY, DAY + 120 * HOUR)
    found = reconcile([SEGMENT, lost], [LINE, LATER], period, hub="demo", now=NOW)
    hostile = replace(ADA, user="<img src=x onerror=document.title='owned'>" * 5)
    made = report(
        "user", "profile", rows=[*ROWS, hostile], discounts=discount_use([G5], [RUN], START, END)
    )
    page = folder / "report.html"
    page.write_text(report_html(made, Reconciled(found, "s3://bills/hub")), encoding="utf-8")
    return page.as_uri()


@pytest.mark.nightly(
    guard="tests/unit/report/test_report_forms.py::test_html_needs_nothing_from_outside"
)
async def test_the_page_is_readable_in_each_theme_on_a_phone_and_asks_for_nothing(
    visit: Visit, tmp_path: Path
) -> None:
    page = await visit("about:blank")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    url = written(tmp_path)
    await page.goto(url)
    for scheme in ("dark", "light"):
        await page.emulate_media(color_scheme=scheme)
        assert await violations(page) == []
    await page.set_viewport_size({"width": 390, "height": 844})
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert await page.evaluate(wide)
    await page.locator("summary").click()
    assert await page.locator("details table tbody tr").count() == 2
    assert await page.locator("rect").count() == 6
    assert "owned" not in await page.title()
    assert requests == [url]
