"""What a widget costs the browser: the share of the page's main thread, in JupyterLab."""

from __future__ import annotations

from typing import Any

from tests.bench.widget.server import TOKEN, WidgetServer
from tests.e2e.chromium import CHROMIUM, CHROMIUM_FLAGS

LOADED_MS = 60_000
SETTLE_MS = 10_000


async def main_thread_percent(server: WidgetServer, seconds: float) -> float:
    """With what the widget shows in sight; for the bare server, the page as it is.

    CPU time of the main thread, not the time that its tasks took: on a machine that others use as
    well, a task also waits for a core.
    """
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=CHROMIUM, args=[*CHROMIUM_FLAGS], timeout=LOADED_MS
        )
        try:
            page = await browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(LOADED_MS)
            await page.goto(f"{server.url}lab?token={TOKEN}&reset")
            await page.locator(".jp-Launcher").first.wait_for()
            await _show(page, server.widget.name)
            await page.wait_for_timeout(SETTLE_MS)
            devtools = await page.context.new_cdp_session(page)
            await devtools.send("Performance.enable", {"timeDomain": "threadTicks"})
            before = await _task_seconds(devtools)
            await page.wait_for_timeout(1000 * seconds)
            return 100 * (await _task_seconds(devtools) - before) / seconds
        finally:
            await browser.close()


async def _show(page: Any, widget: str) -> None:
    if widget == "ours":
        await page.locator(".ec2-StatusItem").click()
        await page.locator("#ec2spawner-panel").wait_for()
    elif widget == "nvdashboard":
        button = page.locator(".lm-TabBar-tab[title*='GPU' i]").first
        await button.click()
        for name in ("GPU Utilization", "GPU Memory"):
            await page.get_by_role("button", name=name, exact=False).first.click()


async def _task_seconds(devtools: Any) -> float:
    metrics = (await devtools.send("Performance.getMetrics"))["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))
