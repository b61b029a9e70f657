"""A command's token goes to the hub that was named, and to no address that it redirects to."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ec2spawner.hub_call import HubRefused, api_url, call
from tests.serving import serving

TARGETS = {
    "moved": "{other}/base/hub/api/ec2/moved",
    "relative": "/base/hub/api/ec2/relative",
    "login": "{other}/login?state=secret",
}


class RedirectingHub(ThreadingHTTPServer):
    """Redirects to the address of `TARGETS` for the last part of a path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[str] = []
        """Paths, each with the `Authorization` that came with it."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def other(self) -> str:
        """Another address of the same server."""
        return f"http://localhost:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: RedirectingHub

    def _redirect(self) -> None:
        self.server.requests.append(f"{self.path} {self.headers['Authorization']}")
        target = TARGETS[self.path.rpartition("/")[2]]
        self.send_response(302)
        self.send_header("Location", target.format(other=self.server.other))
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = do_PUT = do_DELETE = _redirect  # noqa: N815 - the name is the base's

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[RedirectingHub]:
    with serving(RedirectingHub()) as server:
        yield server


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("moved", "the hub redirects to {other}/base: name that address with --hub (HTTP 302)"),
        ("relative", "the hub redirects to {url}/base: name that address with --hub (HTTP 302)"),
        ("login", "the hub redirects to {other}/login: check the address in --hub (HTTP 302)"),
    ],
)
def test_a_redirect_is_refused_with_the_address_to_name(
    path: str, why: str, method: str, hub: RedirectingHub
) -> None:
    with pytest.raises(HubRefused) as refused:
        call(method, api_url(hub.url, path), "secret")
    assert str(refused.value) == why.format(url=hub.url, other=hub.other)
    assert hub.requests == [f"/hub/api/ec2/{path} token secret"], "and no second request"
