"""A simulated user logs in with the form of a hub, as a browser does."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from ec2spawner.load_test.journal import Journal
from ec2spawner.load_test.settings import Settings
from ec2spawner.load_test.user.entrance import Entrance
from ec2spawner.load_test.user.session import Session, StepFailed
from tests.serving import serving

PASSWORD = "hunter2"
REFUSAL = '<p class="login_error">Invalid username or password</p>'


class SmallHub(ThreadingHTTPServer):
    """Serves a hub's login form and the pages behind it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.visits: list[str] = []
        """Pages behind the login that were read."""


class _Handler(BaseHTTPRequestHandler):
    server: SmallHub

    def do_GET(self) -> None:
        if self.path == "/hub/login":
            self._answer(200, "", ("Set-Cookie", "_xsrf=of-the-hub; Path=/hub/"))
        elif "user=ann" in self.headers.get("Cookie", ""):
            self.server.visits.append(self.path)
            self._answer(200, "")
        else:
            self._answer(302, "", ("Location", "/hub/login"))

    def do_POST(self) -> None:
        address = urlsplit(self.path)
        length = int(self.headers["Content-Length"])
        form = dict(parse_qs(self.rfile.read(length).decode()))
        expected = {"username": ["ann"], "password": [PASSWORD], "_xsrf": ["of-the-hub"]}
        if form == expected:
            [page] = parse_qs(address.query)["next"]
            self._answer(302, "", ("Location", page), ("Set-Cookie", "user=ann; Path=/hub/"))
        else:
            self._answer(403, REFUSAL)

    def _answer(self, status: int, page: str, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(page)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(page.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[SmallHub]:
    with serving(SmallHub()) as server:
        yield server


def enter(hub: SmallHub, password: str) -> None:
    settings = Settings(url=f"http://127.0.0.1:{hub.server_port}/")
    session = Session(settings.url)
    try:
        Entrance(settings, "ann", password, Journal(""), session).enter()
    finally:
        session.close()


def test_the_form_leads_to_the_home_page(hub: SmallHub) -> None:
    enter(hub, PASSWORD)
    assert hub.visits == ["/hub/home"]


def test_a_wrong_password_is_reported_in_the_hubs_words(hub: SmallHub) -> None:
    with pytest.raises(StepFailed) as refused:
        enter(hub, "wrong")
    assert str(refused.value) == "login: Invalid username or password (HTTP 403)"
    assert hub.visits == []
