"""The page of one's runs in a browser: arrays, hostile texts, phone width, actions, polling."""

from __future__ import annotations

import asyncio
import base64
import csv
import io
import json
import re
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ec2spawner.core.text.delimited import safe
from tests.e2e.accessibility import is_accessible
from tests.e2e.run_scenes import FORMULA, MARKUP, NOW, answer_order, array, run, runs, several
from tests.e2e.visits import Visit, chromium, cookies_of, visits
from tests.harness import Embedded, Hub, demo_config, until

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow(seconds=40),
    pytest.mark.asyncio(loop_scope="module"),
]

PHONE = {"width": 390, "height": 844}
REFRESH = "document.dispatchEvent(new Event('visibilitychange'))"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("runs")
    embedded = await Embedded(directory / "embedded").start()
    config = demo_config(directory / "config", "c.EC2Spawner.runs = {'at_once': 20}")
    running = Hub(directory / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(60))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    async with chromium(tmp_path_factory.mktemp("chromium") / "home") as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(hub: Hub, shared_chromium: Any) -> Any:
    """The cookies of one who has logged in."""
    return await cookies_of(shared_chromium, hub.url, "admin")


@pytest_asyncio.fixture(loop_scope="module")
async def visit(
    shared_chromium: Any, admin: Any, request: pytest.FixtureRequest
) -> AsyncIterator[Visit]:
    """Each test has contexts of its own in one browser, in which an admin has logged in."""
    async with visits(shared_chromium, request.node, admin) as visit:
        yield visit


class Api:
    """Answers the page in the hub's place, and notes what it is asked."""

    def __init__(self, found: list[dict[str, Any]]) -> None:
        self.found = found
        self.refusal: tuple[int, str] | None = None
        self.calls: list[tuple[str, str]] = []
        self.answers: dict[tuple[str, str], Any] = {}
        """By method and path below `runs`, where it is not the list."""
        self.held: dict[tuple[str, str], asyncio.Event] = {}
        """By the same: answered once this is set."""
        self.answered = 0

    async def answer(self, route: Any) -> None:
        method, path = route.request.method, route.request.url.partition("/api/ec2/runs")[2]
        self.calls.append((method, path))
        if (method, path) in self.held:
            await self.held[method, path].wait()
        await self.fulfill(route, method, path)
        self.answered += 1

    @contextmanager
    def holding(self, call: tuple[str, str]) -> Iterator[asyncio.Event]:
        """Answer this call once the event is set, at the end of the block at the latest: a page
        with an unanswered call is not closed."""
        release = self.held[call] = asyncio.Event()
        try:
            yield release
        finally:
            release.set()

    async def fulfill(self, route: Any, method: str, path: str) -> None:
        if self.refusal:
            status, message = self.refusal
            await route.fulfill(status=status, json={"status": status, "message": message})
        elif (method, path) in self.answers:
            await route.fulfill(**self.answers[method, path])
        else:
            await route.fulfill(json=runs(self.found))

    @property
    def lists(self) -> int:
        return self.calls.count(("GET", ""))


async def open_page(hub: Hub, visit: Visit, api: Api) -> Any:
    page = await visit("about:blank")
    await page.route(re.compile(r"/hub/api/ec2/runs"), api.answer)
    await page.goto(f"{hub.url}/hub/ec2/runs")
    return page


def rows(page: Any) -> Any:
    return page.locator("#ec2-rows > tr:not(.ec2-inner)")


def row_of(page: Any, number: int) -> Any:
    number_cell = page.locator(".ec2-run-number").get_by_text(str(number), exact=True)
    return rows(page).filter(has=number_cell)


async def is_as_wide_as_the_screen(page: Any) -> bool:
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    return bool(await page.evaluate(wide))


async def test_each_run_is_shown_and_its_texts_are_no_markup(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, Api(several()))
    await expect(rows(page)).to_have_count(13)
    await expect(page.get_by_role("link", name="Runs")).to_have_attribute("href", "/hub/ec2/runs")
    running = row_of(page, 402)
    await expect(running).to_contain_text("Running")
    await expect(running).to_contain_text("5 of 12 cells")
    await expect(running.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "42")
    await expect(running).to_contain_text("spot · us-east-1a")
    await expect(running).to_contain_text("$0.41/h")
    await expect(running.get_by_role("button", name="Details")).to_have_attribute(
        "title", "~/projects/vision/train.ipynb"
    )
    await expect(row_of(page, 400)).to_contain_text("–")
    await expect(row_of(page, 406)).to_contain_text("Cost cap reached")
    unknown = row_of(page, 410)
    await expect(unknown).to_contain_text("unknown")
    await expect(unknown.get_by_role("progressbar")).to_have_count(0)
    await expect(page.locator("#ec2-usd")).to_contain_text("at least")
    await expect(row_of(page, 411)).to_contain_text(MARKUP)
    await row_of(page, 411).get_by_role("button", name="Details").click()
    await expect(page.get_by_role("dialog")).to_contain_text(f"{MARKUP} = {MARKUP}")
    await is_accessible(page)
    await page.get_by_role("button", name="Close").click()
    assert await page.title() == "Your runs"
    shapes = page.locator("#ec2-rows > tr:not(.ec2-inner) .ec2-badge path")
    shown = {await each.get_attribute("d") for each in await shapes.all()}
    assert len(shown) == 9, "each state has a shape of its own"
    await page.set_viewport_size(PHONE)
    assert await is_as_wide_as_the_screen(page)
    await is_accessible(page)


async def test_an_array_opens_to_a_table_that_is_sorted_and_saved(hub: Hub, visit: Visit) -> None:
    members = array(100, 200)
    page = await open_page(hub, visit, Api(answer_order(members)))
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("120 of 200 done, 5 failed")
    known = sum(each["usd"] for each in members)
    await expect(rows(page).locator(".ec2-cost")).to_contain_text(f"${known:.2f}")
    expander = page.get_by_role("button", name="Array of 200 runs")
    await expect(expander).to_have_attribute("aria-expanded", "false")
    await expander.click()
    table = page.get_by_role("table", name="Runs of array 100")
    lines = table.locator("tbody tr")
    await expect(lines).to_have_count(25)
    await expect(page.locator(".ec2-note")).to_contain_text("epochs = 20")
    heads = table.get_by_role("columnheader")
    await table.get_by_role("button", name="learning_rate").click()
    await expect(lines.first).to_contain_text("0.0001")
    await table.get_by_role("button", name="learning_rate").click()
    await expect(heads.nth(1)).to_have_attribute("aria-sort", "descending")
    await expect(lines.first.get_by_role("cell").first).to_have_text("0.1")
    await table.get_by_role("button", name="Progress").click()
    await page.get_by_role("button", name="Next").last.click()
    await expect(page.locator(".ec2-array")).to_contain_text("26–50 of 200")
    await is_accessible(page)
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Download as CSV").click()
    saving = await saved.value
    assert saving.suggested_filename == "runs-100.csv"
    text = Path(await saving.path()).read_text()
    found = {int(each["run"]): each for each in csv.DictReader(io.StringIO(text))}
    assert sorted(found) == list(range(100, 300))
    for each in members:
        line = found[each["number"]]
        assert line["optimizer"] == safe(each["parameters"]["optimizer"])
        assert line["state"] == (each["outcome"] or each["state"])
        assert line["instance_type"] == each["instance_type"]
        assert float(line["usd"]) == each["usd"]
        assert line["message"] == safe(each["message"])
    assert found[102]["optimizer"] == "'" + FORMULA
    await page.set_viewport_size(PHONE)
    assert await is_as_wide_as_the_screen(page)
    await expander.click()
    await expect(table).to_have_count(0)


CELLS = (
    *("=1+1", " -x", "+", "@", "＝1", "-5", "plain", "", "a,b", 'say "x"'),
    *("\ttab", "two\nlines", "\x1b[31m", "\u202eltr", "\U000e0001", "\u2028"),
)


async def test_a_cell_of_the_csv_is_as_safe_as_those_of_reports(hub: Hub, visit: Visit) -> None:
    members = [
        run(100 + place, array=100, parameters={"x": cell, "y": place - 5})
        for place, cell in enumerate(CELLS)
    ]
    page = await open_page(hub, visit, Api(answer_order(members)))
    await page.get_by_role("button", name=re.compile("Array of")).click()
    async with page.expect_download() as saved:
        await page.get_by_role("button", name="Download as CSV").click()
    text = Path(await (await saved.value).path()).read_text()
    found = list(csv.DictReader(io.StringIO(text)))
    assert [each["x"] for each in found] == [safe(cell) for cell in CELLS]
    assert [int(each["y"]) for each in found] == [place - 5 for place in range(len(CELLS))]


async def test_runs_are_found_by_state_and_text(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, Api(several()))
    await page.get_by_role("button", name="Failed 7").click()
    await expect(rows(page)).to_have_count(3)
    await page.get_by_role("button", name=re.compile("Array of")).click()
    await expect(page.locator(".ec2-note")).to_contain_text("5 runs of 200 match")
    await expect(page.locator(".ec2-results tbody tr")).to_have_count(5)
    await page.get_by_role("searchbox").fill("OUTOFMEMORY 404")
    await expect(rows(page)).to_have_count(1)
    await page.get_by_role("searchbox").fill("nothing like it")
    await expect(page.locator("#ec2-empty")).to_be_visible()
    await page.get_by_role("searchbox").fill("")
    await page.get_by_role("button", name="All 217").click()
    await page.get_by_label("Order").select_option("oldest")
    await expect(rows(page).first).to_contain_text("resnet-sweep.ipynb")


async def test_cancelling_asks_first_and_shows_what_became_of_it(hub: Hub, visit: Visit) -> None:
    scene = answer_order([run(7), *array(20, 10)])
    api = Api(scene)
    page = await open_page(hub, visit, api)
    dialog = page.get_by_role("dialog")
    await row_of(page, 7).get_by_role("button", name="Cancel").click()
    await expect(dialog).to_contain_text("Cancel run 7?")
    await is_accessible(page)
    await dialog.get_by_role("button", name="Keep the run").click()
    assert "DELETE" not in dict(api.calls)
    refused = {"message": "cancelled, but not stored yet"}
    api.answers["DELETE", "/7"] = {"status": 503, "json": refused}
    await row_of(page, 7).get_by_role("button", name="Cancel").click()
    await dialog.get_by_role("button", name="Cancel run").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Cancelled, but not stored yet.")
    cancelled = run(7, "cancelled")
    api.answers["DELETE", "/7"] = {"json": runs([cancelled])}
    api.found = [cancelled, *scene[:-1]]
    await dialog.get_by_role("button", name="Cancel run").click()
    await expect(dialog).to_have_count(0)
    await expect(row_of(page, 7)).to_contain_text("Cancelled")
    await expect(row_of(page, 7).get_by_role("button", name="Cancel")).to_have_count(0)
    await expect(page.locator("#ec2-done")).to_have_text("Run 7 is cancelled.")
    await row_of(page, 20).get_by_role("button", name="Cancel").click()
    await expect(dialog).to_contain_text("4 runs of it have not ended, and 1 instance ends now")
    api.answers["DELETE", "/20?array"] = {"json": runs([])}
    await dialog.get_by_role("button", name="Cancel 4 runs").click()
    await expect(dialog).to_have_count(0)
    assert [each for each in api.calls if each[0] == "DELETE"][-1] == ("DELETE", "/20?array")


async def test_the_first_run_of_an_array_does_not_stand_for_it(hub: Hub, visit: Visit) -> None:
    api = Api([run(31, array=30), run(30, array=30)])
    page = await open_page(hub, visit, api)
    await page.get_by_role("button", name=re.compile("Array of")).click()
    await page.get_by_role("button", name="Cancel run 30", exact=True).click()
    await expect(page.get_by_role("dialog")).to_contain_text("Cancel run 30?")
    api.answers["DELETE", "/30"] = {"json": runs([run(30, "cancelled", array=30)])}
    await page.get_by_role("button", name="Cancel run", exact=True).click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert [each for each in api.calls if each[0] == "DELETE"] == [("DELETE", "/30")]


async def test_details_follow_the_run_and_save_its_result(hub: Hub, visit: Visit) -> None:
    hours = NOW.replace(hour=21).isoformat()
    api = Api([run(12, attempts=2, deadline=hours, payer="group:nlp")])
    page = await open_page(hub, visit, api)
    await page.get_by_role("button", name="Details of run 12").click()
    dialog = page.get_by_role("dialog")
    for text in ("~/projects/vision/train.ipynb", "epochs = 20", "2; up to 5", "group nlp"):
        await expect(dialog).to_contain_text(text)
    await expect(dialog).to_contain_text("it will be ~/runs/train-12.ipynb")
    api.answers["GET", "/12/result"] = {"body": b'{"cells": []}'}
    async with page.expect_download() as saved:
        await dialog.get_by_role("button", name="Download result").click()
    assert (await saved.value).suggested_filename == "train-12.ipynb"
    missing = {"message": "there is no result of this run yet"}
    api.answers["GET", "/12/result"] = {"status": 404, "json": missing}
    await dialog.get_by_role("button", name="Download result").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("There is no result of this run yet.")
    api.found = [run(12, "succeeded", delivered=False)]
    await page.evaluate(REFRESH)
    await expect(dialog).to_contain_text("your server gets it at its next start")
    api.found = [run(12, "succeeded")]
    await page.evaluate(REFRESH)
    await expect(dialog).to_contain_text("~/runs/train-12.ipynb, in your home")
    await expect(dialog.get_by_role("button", name="Cancel run")).to_have_count(0)


async def test_details_show_what_a_run_has_printed(hub: Hub, visit: Visit) -> None:
    def notebook(*printed: str) -> dict[str, Any]:
        error = {"output_type": "error", "traceback": ["\x1b[31mKeyError\x1b[0m: 'x'"]}
        stream = [{"output_type": "stream", "name": "stdout", "text": list(printed)}, error]
        cells = [{"cell_type": "markdown", "source": "hidden"}, {"outputs": stream}]
        return {"json": {"cells": cells}}

    api = Api([run(12), run(13, "succeeded", path="projects/train.py")])
    api.answers["GET", "/12/result"] = notebook("10 %\r", "20 %\n", "<b>loss</b> 0.3\n")
    page = await open_page(hub, visit, api)
    await page.get_by_role("button", name="Details of run 12").click()
    dialog, output = page.get_by_role("dialog"), page.locator("#ec2-output-text")
    await expect(output).to_be_hidden()
    await dialog.get_by_role("button", name="Show output").click()
    await expect(output).to_have_text("20 %\n<b>loss</b> 0.3\nKeyError: 'x'")
    await is_accessible(page)
    api.answers["GET", "/12/result"] = {"status": 429, "json": {"message": "too many results"}}
    await dialog.get_by_role("button", name="Refresh output").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Too many results.")
    await expect(output).to_contain_text("loss")
    await dialog.get_by_role("button", name="Close").click()

    lines = "".join(f"step {number}\n" for number in range(300))
    api.answers["GET", "/13/result"] = {"body": lines.encode()}
    await page.get_by_role("button", name="Details of run 13").click()
    await expect(output).to_be_hidden()
    await dialog.get_by_role("button", name="Show output").click()
    await expect(output).to_contain_text("step 299")
    assert "step 99\n" not in str(await output.text_content())


async def test_the_output_of_another_run_is_not_shown(hub: Hub, visit: Visit) -> None:
    first, second = ("GET", "/12/result"), ("GET", "/13/result")
    api = Api([run(12), run(13, "succeeded", path="projects/train.py")])
    api.answers[first] = {"status": 429, "json": {"message": "too many results"}}
    api.answers[second] = {"body": b""}
    page = await open_page(hub, visit, api)
    with api.holding(first) as release:
        await page.get_by_role("button", name="Details of run 12").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("button", name="Show output").click()
        await expect(dialog.get_by_role("button", name="Show output")).to_be_disabled()
        await dialog.get_by_role("button", name="Close").click()

        await page.get_by_role("button", name="Details of run 13").click()
        await dialog.get_by_role("button", name="Show output").click()
        await expect(dialog.get_by_role("heading", name="No output", exact=True)).to_be_visible()
        before = api.answered
        release.set()

        async def is_answered() -> bool:
            return api.answered > before

        await until(is_answered, 60, "the first run's request to be answered")
        await page.evaluate("new Promise(done => setTimeout(done))")
        await expect(dialog.get_by_role("alert")).to_be_hidden()
        await dialog.get_by_role("button", name="Close").click()

    api.answers[first] = {"json": {"cells": []}}
    await page.get_by_role("button", name="Details of run 12").click()
    await dialog.get_by_role("button", name="Show output").click()
    await expect(dialog.get_by_role("heading", name="No output yet")).to_be_visible()


async def test_a_hub_that_is_away_is_said_and_the_rows_stay(hub: Hub, visit: Visit) -> None:
    api = Api([run(12)])
    page = await open_page(hub, visit, api)
    await expect(rows(page)).to_have_count(1)
    api.refusal = 503, "the hub is starting"
    await page.evaluate(REFRESH)
    await expect(page.locator("#ec2-offline")).to_contain_text("What is shown may be old.")
    await expect(rows(page)).to_have_count(1)
    api.refusal = 403, "Missing or invalid credentials."
    await page.evaluate(REFRESH)
    await expect(page.locator("#ec2-offline")).to_contain_text("reload this page to log in again")
    await page.reload()
    await expect(page.locator("#ec2-offline")).to_be_visible()
    await expect(page.get_by_text("may be old")).to_be_hidden()
    api.refusal = None
    await page.evaluate(REFRESH)
    await expect(page.locator("#ec2-offline")).to_be_hidden()


async def test_who_has_no_runs_learns_how_to_run_something(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, Api([]))
    await expect(page.get_by_text("You have no runs yet.")).to_be_visible()
    await expect(page.locator("#ec2-content")).to_be_hidden()
    command = page.get_by_label("Commands")
    await expect(command).to_contain_text("ec2spawner run train.ipynb --profile t4-16-gb")
    await expect(page.get_by_label("Program")).to_contain_text(f'"{hub.url}/hub/api/ec2/runs"')
    await is_accessible(page)
    await page.set_viewport_size(PHONE)
    assert await is_as_wide_as_the_screen(page)


async def test_it_reads_every_five_seconds_while_something_is_open(hub: Hub, visit: Visit) -> None:
    api = Api([run(12)])
    page = await open_page(hub, visit, api)
    await expect(rows(page)).to_have_count(1)
    await page.clock.install()
    await page.reload()
    await expect(rows(page)).to_have_count(1)
    before = api.lists
    api.found = [run(12, "succeeded")]
    await page.clock.fast_forward(5000)
    await expect(rows(page)).to_contain_text("Succeeded")
    assert api.lists == before + 1
    # The clock of the page runs on: ten seconds are for what this test does meanwhile.
    await page.clock.fast_forward(20_000)
    assert api.lists == before + 1
    api.found = [run(13)]
    await page.clock.fast_forward(10_500)
    await expect(rows(page)).to_contain_text("13")
    hide = "Object.defineProperty(document, 'hidden', { value: VALUE, configurable: true })"
    await page.evaluate(hide.replace("VALUE", "true"))
    before = api.lists
    await page.clock.fast_forward(60_000)
    assert api.lists == before
    api.found = [run(14)]
    await page.evaluate(hide.replace("VALUE", "false"))
    await page.evaluate(REFRESH)
    await expect(rows(page)).to_contain_text("14")


async def test_an_array_that_begins_before_the_list_is_read_when_opened(
    hub: Hub, visit: Visit
) -> None:
    members = array(100, 40)
    api = Api(answer_order(members)[:15])
    api.answers["GET", "/100?array"] = {"json": runs(members)}
    page = await open_page(hub, visit, api)
    await expect(rows(page)).to_contain_text("its last 15 runs")
    await page.get_by_role("button", name=re.compile("Array of")).click()
    await expect(rows(page)).to_contain_text("Array of 40 runs")
    await page.evaluate(REFRESH)
    await expect(page.locator(".ec2-array")).to_contain_text("1–25 of 40")


async def test_a_thousand_runs_stay_fast(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, Api(answer_order([run(each) for each in range(1, 1001)])))
    await expect(rows(page)).to_have_count(25)
    await expect(page.locator("#ec2-shown")).to_have_text("1–25 of 1000")
    await expect(page.locator("#ec2-most")).to_contain_text("newest 1,000 runs")
    typed = """() => {
      const search = document.querySelector('#ec2-search');
      const type = text => {
        const begun = performance.now();
        search.value = text;
        search.dispatchEvent(new Event('input'));
        return performance.now() - begun;
      };
      return [1, 2, 3, 4, 5].map(() => (type(''), type('77')));
    }"""
    # The shortest of five: others may have the processor in between.
    assert min(await page.evaluate(typed)) < 500
    await expect(row_of(page, 977)).to_be_visible()


SUBMIT = """async body => {
  const { base_url, xsrf_token } = window.jhdata;
  const headers = { 'X-XSRFToken': xsrf_token, 'Content-Type': 'application/json' };
  const reply = await fetch(base_url + 'api/ec2/runs', { method: 'POST', headers, body });
  return [reply.status, await reply.text()];
}"""


async def test_the_hubs_own_answers_are_understood(hub: Hub, visit: Visit) -> None:
    page = await open_page(hub, visit, Api([]))
    await expect(page.get_by_text("You have no runs yet.")).to_be_visible()
    await page.unroute(re.compile(r"/hub/api/ec2/runs"))
    document = base64.b64encode(zlib.compress(b"print(1)")).decode()
    body: dict[str, Any] = {"path": "a/b.py", "document": document, "profile": "t4-16-gb"}
    body |= {"parameters": [{"x": 1}, {"x": 2}], "at_once": 1}
    status, text = await page.evaluate(SUBMIT, json.dumps(body))
    assert status == 201, text
    await page.evaluate(REFRESH)
    await expect(rows(page)).to_contain_text("Array of 2 runs by x")
    await page.get_by_role("button", name="Cancel array").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel 2 runs").click()
    await expect(rows(page)).to_contain_text("2 cancelled")
    await expect(page.locator("#ec2-running")).to_have_text("0")
