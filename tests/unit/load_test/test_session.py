"""Requests stay within their hub, and what it answers is bounded and put into words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice

import pytest

from ec2spawner.load_test.user.session import MAX_BYTES, REDIRECTS, Session, StepFailed
from tests.serving import serving

HEAVY = b"x" * (MAX_BYTES + 1)

ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "/hub/page": (200, {"Set-Cookie": "_xsrf=of-the-hub; Path=/hub/"}, b"<p>hello</p>"),
    "/user/ann/": (200, {"Set-Cookie": "_xsrf=of-the-server; Path=/user/ann/"}, b""),
    "/hub/away": (302, {"Location": "http://127.0.0.1:9/login"}, b""),
    "/hub/on": (302, {"Location": "/hub/page"}, b""),
    "/hub/circle": (302, {"Location": "circle"}, b""),
    "/hub/heavy": (200, {}, HEAVY),
    "/hub/list": (200, {}, b"[1]"),
    "/hub/deep": (200, {}, b"[" * 100_000),
    "/hub/api/refused": (403, {}, json.dumps({"message": "no \x1b[31mright"}).encode()),
    "/hub/refused": (403, {}, b'<p class="login_error">Invalid password</p>'),
    "/hub/silent": (500, {}, b""),
    "/hub/broken": (200, {"Content-Length": "999"}, b"data: {}\n\n"),
    "/hub/events": (200, {"Content-Type": "text/event-stream"}, b'data: {"ready": true}\n\n'),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, headers, body = ANSWERS.get(self.path) or (200, {}, self._echo())
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        body = self._echo(self.rfile.read(length).decode())
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _echo(self, body: str = "") -> bytes:
        return json.dumps({"headers": dict(self.headers), "body": body}).encode()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def session() -> Iterator[Session]:
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        found = Session(f"http://127.0.0.1:{server.server_port}/")
        yield found
        found.close()


def test_redirects_are_followed_within_the_hub_and_only_if_asked(session: Session) -> None:
    assert session.ask("GET", "hub/on").is_redirect
    assert session.ask("GET", "hub/on", follow=True).text == "<p>hello</p>"
    with pytest.raises(StepFailed, match=r"another address: http://127\.0\.0\.1:9/login"):
        session.ask("GET", "hub/away", follow=True)
    with pytest.raises(StepFailed, match=f"more than {REDIRECTS} redirects"):
        session.ask("GET", "hub/circle", follow=True)


@pytest.mark.parametrize("url", ["https://elsewhere/", "//elsewhere/hub", "http://127.0.0.1:9/"])
def test_another_address_gets_no_request(session: Session, url: str) -> None:
    with pytest.raises(StepFailed, match="another address"):
        session.ask("GET", url)


def test_hub_and_server_get_their_own_token_against_forged_requests(session: Session) -> None:
    session.ask("GET", "hub/page")
    session.ask("GET", "user/ann/")
    for path, expected in (("hub/api/x", "of-the-hub"), ("user/ann/api/x", "of-the-server")):
        headers = session.ask("POST", path, body={}).json()["headers"]
        assert headers["X-XSRFToken"] == expected
        assert headers["Cookie"] == f"_xsrf={expected}"
        assert session.cookies_for(session.place(path)) == f"_xsrf={expected}"


def test_a_token_is_sent_instead_of_cookies(session: Session) -> None:
    session.token = "secret"
    headers = session.ask("GET", "echo").json()["headers"]
    assert headers["Authorization"] == "token secret"
    assert "X-XSRFToken" not in headers


def test_forms_are_sent_in_parts(session: Session) -> None:
    answer = session.ask("POST", "echo", parts=[("profile", "t4"), ("note", "ü")]).json()
    assert answer["headers"]["Content-Type"].startswith("multipart/form-data; boundary=")
    assert 'name="profile"\r\n\r\nt4\r\n' in answer["body"]


def test_what_a_hub_answers_is_bounded(session: Session) -> None:
    with pytest.raises(StepFailed, match="larger than 4 MiB"):
        session.ask("GET", "hub/heavy")
    for path in ("hub/list", "hub/deep"):
        with pytest.raises(StepFailed, match="no JSON object"):
            session.ask("GET", path).json()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("hub/api/refused", r"login: no \\x1b\[31mright \(HTTP 403\)"),
        ("hub/refused", r"login: Invalid password \(HTTP 403\)"),
        ("hub/silent", "login: the hub answers HTTP 500 without a reason"),
    ],
)
def test_a_failure_has_the_hubs_words(session: Session, path: str, expected: str) -> None:
    with pytest.raises(StepFailed, match=expected):
        session.ask("GET", path).require("login", 200)


def test_a_stream_ends_where_it_breaks_and_fails_where_it_does_not_begin(session: Session) -> None:
    assert b"".join(session.stream("hub/events")) == b'data: {"ready": true}\n\n'
    assert b"".join(session.stream("hub/broken")) == b"data: {}\n\n", "what arrived before"
    with pytest.raises(StepFailed, match="progress: Invalid password"):
        list(islice(session.stream("hub/refused"), 1))


def test_no_answer_is_a_failure_without_the_addresses_query() -> None:
    session = Session("http://127.0.0.1:9/")
    with pytest.raises(StepFailed, match=r"^no answer of /hub/x: ConnectionError$"):
        session.ask("GET", "hub/x?key=secret")
