"""Open pages of JupyterLab while their server is interrupted: what was typed into one of them, and
when a cell runs in the other again, without a click."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.bench.interrupted_work import NOTEBOOK, TYPED, Worker
from tests.e2e.chromium import CHROMIUM, CHROMIUM_FLAGS

LOAD_MS = 120_000

RECONNECT_MS = 90_000


@dataclass(slots=True)
class OpenPages:
    """A text file and a notebook."""

    text: Any
    notebook: Any

    async def type(self, words: str) -> None:
        """Into the file; nobody saves it."""
        await self.text.bring_to_front()
        await self.text.locator(".jp-FileEditor .cm-content").click()
        await self.text.keyboard.insert_text(words)
        await self.text.locator(".jp-mod-dirty").first.wait_for()
        await self.notebook.bring_to_front()

    async def seconds_until_cell(self, began: float) -> float:
        """From `began`, of `time.perf_counter`, until a cell that uses a variable has run."""
        await self.notebook.locator(".jp-Notebook-cell .cm-content").last.click()
        await self.notebook.keyboard.insert_text("print('label', 'is', label)")
        await self.notebook.keyboard.press("Shift+Enter")
        output = self.notebook.locator(".jp-OutputArea-output", has_text="label is interruption")
        await output.last.wait_for(timeout=RECONNECT_MS)
        return time.perf_counter() - began


@asynccontextmanager
async def open_pages(worker: Worker) -> AsyncIterator[OpenPages]:
    """In a browser of their own, with both files loaded and the kernel connected."""
    from playwright.async_api import async_playwright

    from tests.e2e.person import has_a_kernel, log_in

    await worker.save_text(TYPED, "")
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=[*CHROMIUM_FLAGS], timeout=LOAD_MS
        )
        try:
            context = await browser.new_context(viewport={"width": 1280, "height": 800})
            context.set_default_timeout(LOAD_MS)
            text, notebook = await context.new_page(), await context.new_page()
            await text.goto(worker.hub.url)
            await log_in(text, worker.user)
            lab = f"{worker.http.base_url}lab/workspaces"
            await text.goto(f"{lab}/text/tree/{TYPED}")
            await notebook.goto(f"{lab}/notebook/tree/{NOTEBOOK}")
            await asyncio.gather(
                text.locator(".jp-FileEditor .cm-content").wait_for(), has_a_kernel(notebook)
            )
            yield OpenPages(text, notebook)
        finally:
            await browser.close()
