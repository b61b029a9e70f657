"""A login storm: a hundred people log in within ten seconds while fifty servers start."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure, median, p95
from tests.bench.scale.rig.canned_site import CannedSite
from tests.bench.scale.rig.http_client import Connection, NoResponseError, Response
from tests.bench.scale.starts import BOOT_SECONDS, SETTLE, show_stalls
from tests.harness import PASSWORD

LOGINS = 100
STARTS = 50
STORM_SECONDS = 10.0

TIMEOUT = 30.0

REDIRECTS = 5


async def login_storm(directory: Path, console: Console) -> dict[str, Figure]:
    """Logins evenly over the storm, which begins with the starts."""
    async with CannedSite(directory, BOOT_SECONDS) as site:
        people = [f"person-{number:03}" for number in range(LOGINS)]
        starting = [f"student-{number:03}" for number in range(STARTS)]
        await site.add_users([*people, *starting])
        await site.add_tokens(starting)
        await asyncio.sleep(SETTLE)
        began = time.time()
        starts = asyncio.gather(*(site.start(user) for user in starting))
        logins = await asyncio.gather(
            *(
                _log_in_after(STORM_SECONDS * number / LOGINS, site.hub.port, user)
                for number, user in enumerate(people)
            )
        )
        start_seconds = await starts
        turns = site.hub.turns(began, time.time())
    seconds = [each for each in logins if isinstance(each, float)]
    errors = [each for each in logins if isinstance(each, str)]
    show(seconds, errors, start_seconds, console)
    show_stalls("login storm", turns, console)
    return {
        "login_storm_errors": len(errors),
        "login_storm_p95_s": p95(seconds) if seconds else None,
        "login_storm_max_s": max(seconds, default=None),
        "login_storm_starts_p95_s": p95(start_seconds),
    }


async def _log_in_after(wait: float, port: int, user: str) -> float | str:
    """Seconds of a login that begins after `wait`, or what went wrong."""
    await asyncio.sleep(wait)
    began = time.perf_counter()
    browser = Browser(port)
    try:
        await browser.log_in(user)
    except (NoResponseError, LoginRefusedError) as error:
        return f"{user}: {error}"
    finally:
        browser.close()
    return time.perf_counter() - began


class LoginRefusedError(Exception):
    """The hub did not let the user in."""


class Browser:
    """Cookies and redirects, as far as a login needs them."""

    def __init__(self, port: int) -> None:
        self._connection = Connection("127.0.0.1", port)
        self._cookies: dict[str, str] = {}

    async def log_in(self, user: str) -> None:
        """From the login page to the page after it. Raises `LoginRefusedError`."""
        page = await self._request("GET", "/hub/login")
        if page.status != 200 or "_xsrf" not in self._cookies:
            raise LoginRefusedError(f"the login page: {page.status}")
        form = {"username": user, "password": PASSWORD, "_xsrf": self._cookies["_xsrf"]}
        answer = await self._request("POST", "/hub/login", urlencode(form).encode())
        if answer.status != 302:
            raise LoginRefusedError(f"the login: {answer.status}")
        for _ in range(REDIRECTS):
            if answer.status != 302:
                break
            where = urlsplit(answer.headers["location"])
            path = f"{where.path}?{where.query}" if where.query else where.path
            answer = await self._request("GET", path)
        if answer.status != 200 or user.encode() not in answer.body:
            raise LoginRefusedError(f"the page after the login: {answer.status}")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    async def _request(self, method: str, path: str, body: bytes = b"") -> Response:
        headers = {"Cookie": "; ".join(f"{name}={x}" for name, x in self._cookies.items())}
        if body:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        response = await self._connection.request(
            method, path, headers=headers, body=body, timeout=TIMEOUT
        )
        self._cookies |= response.cookies
        return response


def show(
    seconds: Sequence[float], errors: Sequence[str], starts: Sequence[float], console: Console
) -> None:
    """A table of logins and starts, and the first errors."""
    table = Table("login storm", "number", "median s", "p95 s", "max s")
    for name, values in (("logins", seconds), ("starts meanwhile", starts)):
        if values:
            figures = (median(values), p95(values), max(values))
            table.add_row(name, str(len(values)), *(f"{figure:.2f}" for figure in figures))
    console.print(table)
    for error in errors[:5]:
        console.print(error, markup=False)
