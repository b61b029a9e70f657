"""Requests of one user to one hub: within a time, of bounded size, and to this hub only."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import requests

from ...core.text.untrusted import visible
from .hub_page import MAX_MESSAGE, message_of

TIMEOUT: Final = 60.0
"""Seconds for one request, and between two pieces of the progress of a start, which JupyterHub
keeps alive every 8 seconds."""

CONNECT_TIMEOUT: Final = 10.0

MAX_BYTES: Final = 4 << 20
"""Of one answer that are read."""

REDIRECTS: Final = 12
"""JupyterHub's OAuth takes four of them to open a server."""


class StepFailed(Exception):
    """Something that a user did failed; the message is what the hub says, or what is missing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    url: str
    """After redirects."""
    text: str
    location: str

    @property
    def is_redirect(self) -> bool:
        """Whether it leads to another address."""
        return 300 <= self.status < 400

    def require(self, what: str, *statuses: int) -> Answer:
        """This answer. Raises `StepFailed` for another status than these."""
        if self.status in statuses:
            return self
        said = visible(self.message())
        raise StepFailed(f"{what}: {said} (HTTP {self.status})" if said else self._bare(what))

    def _bare(self, what: str) -> str:
        return f"{what}: the hub answers HTTP {self.status} without a reason"

    def message(self) -> str:
        """What it says about an error, be it a page or an answer of the API."""
        if self.text.startswith("{"):
            return str(self.json().get("message", ""))[:MAX_MESSAGE]
        return message_of(self.text)

    def json(self) -> dict[str, Any]:
        """The object. Raises `StepFailed` where it is none."""
        try:
            found = json.loads(self.text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise StepFailed(f"{urlsplit(self.url).path} answers no JSON object")
        return found


class Session:
    """Cookies, or a token, and the connection of one user."""

    def __init__(self, hub: str) -> None:
        self.hub = hub
        self.token = ""
        """Sent if it is set; the cookies are not needed then."""
        self._http = requests.Session()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def ask(
        self,
        method: str,
        url: str,
        *,
        body: Mapping[str, Any] | None = None,
        form: Mapping[str, str] | None = None,
        parts: Sequence[tuple[str, str]] | None = None,
        follow: bool = False,
    ) -> Answer:
        """One request; `url` may be relative to the hub. Raises `StepFailed` without an answer.

        `body` is sent as JSON, `form` as a form, and `parts` as a form in parts. Redirects are
        followed for GET, where `follow` says so.
        """
        where = self.place(url)
        files = None if parts is None else [(name, (None, value)) for name, value in parts]
        sent: dict[str, Any] = {"json": body, "data": form, "files": files}
        for _ in range(REDIRECTS):
            answer = self._one(method, where, sent)
            if not (follow and answer.is_redirect):
                return answer
            where = self.place(urljoin(where, answer.location))
        raise StepFailed(f"{urlsplit(where).path}: more than {REDIRECTS} redirects")

    def _one(self, method: str, url: str, sent: Mapping[str, Any]) -> Answer:
        deadline = time.monotonic() + TIMEOUT
        try:
            with self._http.request(
                method,
                url,
                headers=self._headers(url),
                timeout=(CONNECT_TIMEOUT, TIMEOUT),
                allow_redirects=False,
                stream=True,
                **sent,
            ) as answer:
                text = _bounded(answer, deadline)
                return Answer(answer.status_code, url, text, answer.headers.get("Location", ""))
        except (requests.RequestException, OSError) as error:
            raise no_answer(url, error) from error

    def stream(self, url: str) -> Iterator[bytes]:
        """The pieces of an answer as they arrive, until it ends or breaks.

        Raises `StepFailed` where it does not begin.
        """
        where = self.place(url)
        sent = {**self._headers(where), "Accept": "text/event-stream"}
        timeout = (CONNECT_TIMEOUT, TIMEOUT)
        try:
            with self._http.get(
                where, headers=sent, timeout=timeout, allow_redirects=False, stream=True
            ) as answer:
                if answer.status_code != HTTPStatus.OK:
                    text = _bounded(answer, time.monotonic() + TIMEOUT)
                    Answer(answer.status_code, where, text, "").require("progress")
                # Chunks come as the hub has written them; anything else has no limits to see.
                size = None if getattr(answer.raw, "chunked", False) else 1
                with suppress(requests.RequestException, OSError):
                    yield from answer.iter_content(size)
        except (requests.RequestException, OSError) as error:
            raise no_answer(where, error) from error

    def place(self, url: str) -> str:
        """The address in full. Raises `StepFailed` where it is not of this hub."""
        found = urljoin(self.hub, url)
        ours, theirs = urlsplit(self.hub), urlsplit(found)
        if (theirs.scheme, theirs.netloc) != (ours.scheme, ours.netloc):
            raise StepFailed(f"the hub refers to another address: {visible(found[:100])}")
        return found

    def cookies_for(self, url: str) -> str:
        """The header that a browser sends to this address; empty for none."""
        prepared = self._http.prepare_request(requests.Request("GET", url))
        return str(prepared.headers.get("Cookie", ""))

    def _headers(self, url: str) -> dict[str, str]:
        if self.token:
            return {"Authorization": f"token {self.token}"}
        xsrf = self.xsrf(url)
        return {"X-XSRFToken": xsrf} if xsrf else {}

    def xsrf(self, url: str) -> str:
        """The token against forged requests: hub and server have one each."""
        path = urlsplit(url).path
        found = [
            (len(cookie.path), cookie.value or "")
            for cookie in self._http.cookies
            if cookie.name == "_xsrf" and path.startswith(cookie.path)
        ]
        return max(found, default=(0, ""))[1]


def no_answer(url: str, error: Exception) -> StepFailed:
    """In words, without the query of the address, which may hold a key."""
    return StepFailed(f"no answer of {urlsplit(url).path}: {type(error).__name__}")


def _bounded(answer: requests.Response, deadline: float) -> str:
    read = bytearray()
    for chunk in answer.iter_content(1 << 16):
        read += chunk
        if len(read) > MAX_BYTES:
            raise StepFailed(f"an answer is larger than {MAX_BYTES >> 20} MiB")
        if time.monotonic() > deadline:
            raise StepFailed(f"an answer takes longer than {TIMEOUT:.0f} s")
    return read.decode("utf-8", "replace")
