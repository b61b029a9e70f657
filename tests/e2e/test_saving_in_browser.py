"""However a server comes to its stop, what was typed in an open tab is in its home.

Everything is real but EC2. Each person has typed into a new text file and saved nothing; all tabs
but one are hidden, so that they hear of the stop over their websocket alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.person import (
    LOAD_SECONDS,
    SPAWN_SECONDS,
    arrives_in_jupyterlab,
    log_in,
    status_item,
)
from tests.harness import Embedded, Hub, demo_config, until
from tests.jupyter_by_hand import Jupyter

if TYPE_CHECKING:
    from tests.e2e.conftest import Visit

playwright = pytest.importorskip("playwright.async_api", reason="needs playwright")
expect = playwright.expect

STOPPED_BY = ("rest", "admins", "spot", "idle", "panel", "home")
"""How each person's server is stopped, and the person's name."""

pytestmark = [pytest.mark.e2e, pytest.mark.slow(seconds=65)]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    config = demo_config(
        tmp_path / "config",
        "c.EC2Spawner.idle = {'server': '1h', 'user_may_set': {'server': ['10s', '8h']}}",
        "c.EC2Spawner.interruption = {'then': 'stop'}",
    )
    embedded = await Embedded(tmp_path / "embedded", notebook="jupyterlab").start()
    running = Hub(tmp_path / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(120))


@pytest.mark.nightly(
    guard="labextension/test/noticeNotifications.test.js::"
    "a stop that is announced saves what was typed, then reports that once"
)
async def test_documents_are_saved_before_every_stop(hub: Hub, visit: Visit) -> None:
    first, second = STOPPED_BY[:3], STOPPED_BY[3:]
    rest, admins, spot = await type_into_new_files(hub, visit, *first)
    await asyncio.gather(
        hub.stop_server("rest"),
        stops_it_as_an_admin(hub, visit, "admins"),
        is_interrupted(hub, "spot"),
    )
    await is_announced(rest)
    await is_announced(admins, "being stopped by an admin")
    for page in (rest, admins, spot):
        await page.context.close()

    idle, panel, home = await type_into_new_files(hub, visit, *second)
    await asyncio.gather(
        becomes_idle(hub, "idle"),
        stops_it_in_the_panel(panel),
        stops_it_at_the_hub(hub, home),
    )
    for page in (idle, panel, home):
        await is_announced(page)
    await types_more(panel)
    await asyncio.gather(*(hub.wait_gone(each) for each in STOPPED_BY))
    assert saved_texts(hub) == {f"typed before {each} ended" for each in STOPPED_BY}
    await has_saved_by_itself_on_return(hub, panel, "panel")
    for page in (idle, panel, home):
        await expect(page.locator(".jp-Dialog")).to_have_count(0)


async def types_more(page: Any) -> None:
    """After the last save: it is said to be unsaved, also to a person who saves."""
    await page.locator(".jp-FileEditor .cm-content").click()
    await page.keyboard.press("End")
    await page.keyboard.insert_text(", and after")
    await page.keyboard.press("Control+s")
    toast = page.locator(
        ".Toastify__toast", has_text=re.compile("^Unsaved changes in untitled.txt")
    )
    await expect(toast.first).to_be_visible()


async def has_saved_by_itself_on_return(hub: Hub, page: Any, name: str) -> None:
    """The server is started again in a new tab, which logs this one in, too."""
    await expect(page.get_by_role("button", name="Download this file").first).to_be_visible()
    async with page.context.expect_page() as opening:
        toast = page.locator(
            ".Toastify__toast:not([class*=slide-exit])", has_text="You requested it"
        )
        await toast.get_by_role("button", name="Start server again").click()
    started = await opening.value
    start = started.get_by_role("button", name=re.compile("^(Start|Wake)")).first
    await expect(start.or_(started.locator(".jp-DirListing-content"))).to_be_visible(
        timeout=SPAWN_SECONDS * 1000
    )
    if await start.is_visible():
        await start.click()
    await arrives_in_jupyterlab(started)
    expected = f"typed before {name} ended, and after"

    async def is_saved() -> bool:
        await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        return expected in saved_texts(hub)

    await until(is_saved, 60, "what was typed after the stop to be saved")
    await expect(page.locator(".jp-mod-dirty")).to_have_count(0)


async def type_into_new_files(hub: Hub, visit: Visit, *names: str) -> list[Any]:
    return await asyncio.gather(*(types_into_a_new_file(hub, visit, each) for each in names))


async def types_into_a_new_file(hub: Hub, visit: Visit, name: str) -> Any:
    await hub.start_server(name, options={"profile": "a10g-24-gb"} if name == "spot" else None)
    page = await visit(hub.url)
    await log_in(page, name)
    await arrives_in_jupyterlab(page)
    await page.locator(".jp-LauncherCard", has_text="Text File").click()
    text = page.locator(".jp-FileEditor .cm-content")
    await text.click(timeout=LOAD_SECONDS * 1000)
    await page.keyboard.insert_text(f"typed before {name} ended")
    await expect(page.locator(".jp-mod-dirty")).not_to_have_count(0)
    if name != "panel":
        await hide(page)
    return page


async def hide(page: Any) -> None:
    """As if another tab were before this one: a headless browser shows all of them."""
    await page.evaluate(
        """() => {
          Object.defineProperty(document, 'hidden', { value: true });
          Object.defineProperty(document, 'visibilityState', { value: 'hidden' });
          document.dispatchEvent(new Event('visibilitychange'));
        }"""
    )


async def is_announced(page: Any, how: str = "being stopped") -> None:
    """A visible page may say by now that its server was stopped."""
    words = re.compile(
        f"This server (is {how}|was stopped|has been stopped)|Your session is being saved"
    )
    await expect(page.locator(".Toastify__toast", has_text=words).first).to_be_visible()


def saved_texts(hub: Hub) -> set[str]:
    """What is in the new files of all homes."""
    return {file.read_text() for file in hub.embedded.data_dir.glob("ec2/volumes/*/untitled.txt")}


# --- how servers are stopped ---


async def stops_it_as_an_admin(hub: Hub, visit: Visit, name: str) -> None:
    page = await visit(hub.url)
    await log_in(page, "admin")
    await page.goto(f"{hub.url}/hub/admin")
    row = page.get_by_role("row").filter(has_text=name)
    await row.get_by_role("button", name="Stop Server").click()
    await hub.wait_gone(name)


async def is_interrupted(hub: Hub, name: str) -> None:
    """EC2 gives a notice, and takes the machine a little later."""
    [instance] = [i for i in await hub.embedded.instances() if i["instance_type"].startswith("g5")]
    interrupt = f"interrupt/{instance['instance_id']}"
    await hub.embedded.control(interrupt, {"notice_seconds": 120})
    expected = f"typed before {name} ended"

    async def is_saved() -> bool:
        return expected in saved_texts(hub)

    await until(is_saved, 30, "the text to be saved at the spot notice")
    await hub.embedded.control(interrupt, {"notice_seconds": 0})
    await hub.wait_gone(name)


async def becomes_idle(hub: Hub, name: str) -> None:
    async with Jupyter(f"{hub.url}/user/{name}/", await hub.user_token(name)) as notebook:
        choice = {"server_seconds": 10}
        assert (await notebook.call("POST", "ec2spawner/api/idle", json=choice))[0] == 200
    await hub.wait_gone(name)


async def stops_it_in_the_panel(page: Any) -> None:
    await status_item(page).click()
    await page.locator("#ec2spawner-panel").get_by_role("button", name="Stop now").click()
    await page.get_by_role("dialog").get_by_role("button", name="Stop now").click()


async def stops_it_at_the_hub(hub: Hub, page: Any) -> None:
    """In another tab of the same browser."""
    home = await page.context.new_page()
    await home.goto(f"{hub.url}/hub/home")
    # The page loads its script after itself, and its buttons do nothing before.
    await home.wait_for_function("() => window._jupyterhub_page_loaded")
    await home.get_by_role("button", name="Stop My Server").click()
    await home.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
    await expect(home.get_by_role("button", name="Stop My Server")).to_be_hidden()
    await home.close()
