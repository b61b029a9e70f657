"""What a browser that goes away without a word would lose: its outputs, and what was typed last."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from ec2spawner.agent.notebook_server.process import NOTEBOOK_DEFAULTS
from tests.e2e.person import has_a_kernel
from tests.harness import free_ports, until

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=40)]

REPOSITORY = Path(__file__).parents[2]
TOKEN = "token-of-this-test"

CELL = """
import os, time
print("begins")
for file, text in (("go-1", "continues"), ("go-2", "ends")):
    while not os.path.exists(file):
        time.sleep(0.02)
    print(text)
"""

TIMEOUT_MS = 30_000


@dataclass
class Server:
    url: str
    home: Path
    process: asyncio.subprocess.Process

    def cell(self) -> Any:
        """As it is in the file."""
        return json.loads((self.home / "a.ipynb").read_text())["cells"][0]

    async def runs_nothing(self) -> bool:
        """The cell has ended, as the server knows it."""
        headers = {"Authorization": f"token {TOKEN}"}
        url = f"{self.url}/ec2spawner/api/outputs?path=a.ipynb"
        async with aiohttp.ClientSession() as http, http.get(url, headers=headers) as answer:
            [execution] = (await answer.json())["executions"]
        return not execution["is_running"]

    async def stop(self) -> None:
        """As an agent does."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            await self.process.wait()


@pytest.fixture
async def jupyter(tmp_path: Path) -> AsyncIterator[Server]:
    home = tmp_path / "home"
    home.mkdir()
    cell = {"cell_type": "code", "id": "the-cell", "metadata": {}, "outputs": [], "source": CELL}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    whole = {"cells": [cell | {"execution_count": None}], "metadata": {"kernelspec": kernel}}
    (home / "a.ipynb").write_text(json.dumps(whole | {"nbformat": 4, "nbformat_minor": 5}))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    config = os.pathsep.join([str(REPOSITORY / "jupyter-config"), str(NOTEBOOK_DEFAULTS)])
    [port] = free_ports(1)
    with (tmp_path / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            *(f"--port={port}", "--port-retries=0", f"--IdentityProvider.token={TOKEN}"),
            cwd=home,
            env=kept | {"HOME": str(home), "JUPYTER_CONFIG_PATH": config},
            stdout=log,
            stderr=log,
        )
    server = Server(f"http://127.0.0.1:{port}", home, process)
    try:
        async with aiohttp.ClientSession() as http:

            async def listens() -> bool:
                assert process.returncode is None, (tmp_path / "log").read_text()
                try:
                    async with http.get(f"{server.url}/api") as answer:
                        return answer.status == 200
                except aiohttp.ClientError:
                    return False

            await until(listens, 60, "JupyterLab to listen")
        yield server
    finally:
        await server.stop()
        print((tmp_path / "log").read_text()[-4000:])


async def opens(jupyter: Server, visit: Visit, path: str) -> Any:
    page = await visit(f"{jupyter.url}/{path}?token={TOKEN}")
    await page.locator(".jp-CodeCell .cm-content").first.wait_for()
    return page


@pytest.mark.nightly(
    guard="tests/integration/notebook/test_missed_outputs.py::"
    "test_the_next_page_gets_what_the_closed_one_has_missed"
)
async def test_nothing_printed_or_typed_is_lost_with_the_page(
    jupyter: Server, visit: Visit
) -> None:
    page = await opens(jupyter, visit, "lab/tree/a.ipynb")
    await has_a_kernel(page)
    await page.locator(".jp-CodeCell .cm-content").click()
    await page.keyboard.press("Control+Enter")
    output = page.locator(".jp-OutputArea-output")
    await expect(output).to_contain_text("begins", timeout=TIMEOUT_MS)
    await page.keyboard.press("Enter")
    await page.keyboard.press("Control+End")
    await page.keyboard.insert_text("# typed")

    async def is_saved() -> bool:
        with suppress(json.JSONDecodeError):  # the file is being written
            return "# typed" in "".join(jupyter.cell()["source"])
        return False

    # JupyterLab's own interval is 120 s.
    await until(is_saved, 20, "the page to save what was typed")
    await page.context.close()
    (jupyter.home / "go-1").touch()

    page = await opens(jupyter, visit, "notebooks/a.ipynb")
    output = page.locator(".jp-OutputArea-output")
    await expect(output).to_contain_text("continues", timeout=TIMEOUT_MS)
    await expect(page.locator(".jp-InputPrompt").first).to_have_text("[*]:")
    await page.context.close()
    (jupyter.home / "go-2").touch()
    await until(jupyter.runs_nothing, 20, "the cell to end")
    await jupyter.stop()
    cell = jupyter.cell()
    assert "# typed" in "".join(cell["source"])
    printed = "".join("".join(each["text"]) for each in cell["outputs"])
    assert printed == "begins\ncontinues\nends\n"


@pytest.mark.nightly(
    guard="tests/e2e/test_panel.py::test_a_notebook_opens_again_where_it_was_scrolled_to"
)
async def test_a_notebook_opens_where_it_was_scrolled_to(jupyter: Server, visit: Visit) -> None:
    """In a browser that has not seen it before: what is remembered is in the home."""
    tall = {"output_type": "stream", "name": "stdout", "text": "line\n" * 12}
    cells = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {},
            "outputs": [tall],
            "source": f"number = {number}",
            "execution_count": number,
        }
        for number in range(80)
    ]
    notebook = json.loads((jupyter.home / "a.ipynb").read_text())
    (jupyter.home / "long.ipynb").write_text(json.dumps(notebook | {"cells": cells}))

    page = await opens(jupyter, visit, "lab/tree/long.ipynb")

    async def is_at_its_top() -> bool:
        return await first_visible_cell(page) == 0

    await until(is_at_its_top, 30, "the first cell")
    await page.locator(".jp-CodeCell .cm-content").first.click()
    await page.locator(".jp-WindowedPanel-outer").hover()
    for _ in range(20):
        await page.mouse.wheel(0, 450)
        await asyncio.sleep(0.02)

    def workspaces() -> str:
        folder = jupyter.home / ".jupyter/lab/workspaces"
        return "".join(each.read_text() for each in folder.glob("*"))

    async def is_remembered() -> bool:
        cell = await first_visible_cell(page)
        return cell > 20 and f'"cell":"cell-{cell}"' in workspaces()

    await until(is_remembered, 30, "the workspace to have the position")
    seen = await first_visible_cell(page)
    await page.context.close()

    page = await opens(jupyter, visit, "lab/tree/long.ipynb")

    async def is_there_again() -> bool:
        return await first_visible_cell(page) == seen

    await until(is_there_again, 30, f"cell {seen} to be the first visible one")


async def first_visible_cell(page: Any) -> int:
    """Return its number, or -1 while JupyterLab has rendered none there."""
    number: int = await page.evaluate(
        """() => {
          const top = document.querySelector('.jp-WindowedPanel-outer').getBoundingClientRect().top;
          const cells = [...document.querySelectorAll('.jp-Cell')];
          const first = cells.find(cell => cell.getBoundingClientRect().bottom > top);
          return first ? Number(first.dataset.windowedListIndex) : -1;
        }"""
    )
    return number
