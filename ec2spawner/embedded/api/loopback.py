"""What every HTTP server of the embedded EC2 refuses before it reads a request: browsers' pages.

A page on any site may send requests to 127.0.0.1. A request with an `Origin` comes from one. A
name of the attacker's that now means 127.0.0.1 ("DNS rebinding") shows in `Host`.
"""

from __future__ import annotations

from collections.abc import Collection
from http import HTTPStatus
from typing import Any

from tornado.httputil import HTTPMessageDelegate, HTTPServerRequest
from tornado.routing import Router
from tornado.web import Application, ErrorHandler, RequestHandler


class NoBrowsers(Router):
    """An application in front of which nothing passes that a page in a browser sends."""

    def __init__(self, application: Application, hosts: Collection[str], root: str = "") -> None:
        """`hosts` are the values of `Host` that are served, as `address:port`.

        Where `root` is given, a path such as `/secret`, the application answers below it only. It
        is no part of the application's patterns, which would be compiled anew for each instance.
        """
        self._application = application
        self._hosts = frozenset(hosts)
        self._root = root

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> HTTPMessageDelegate | None:
        """Refuse a page's request before any handler sees it."""
        if refusal := self._refusal(request):
            return self._application.get_handler_delegate(
                request, _RefusedHandler, {"reason": refusal}
            )
        if not request.path.startswith(f"{self._root}/"):
            return self._application.get_handler_delegate(
                request, ErrorHandler, {"status_code": HTTPStatus.NOT_FOUND}
            )
        request.path = request.path.removeprefix(self._root)
        return self._application.find_handler(request, **kwargs)

    def _refusal(self, request: HTTPServerRequest) -> str:
        if "Origin" in request.headers:
            return "Requests of pages in a browser are refused."
        if request.headers.get("Host", "").lower() not in self._hosts:
            return f"Only requests to {' or '.join(sorted(self._hosts))} are served."
        return ""


class _RefusedHandler(RequestHandler):
    def initialize(self, reason: str) -> None:
        self._why = reason

    def prepare(self) -> None:
        self.set_status(HTTPStatus.FORBIDDEN)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{self._why}\n")
