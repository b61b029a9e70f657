"""Real services on loopback that a hub sends alarms to, or receives events from. Those that alarms
are sent to fail when a test says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from moto.server import ThreadedMotoServer
from tornado.httpserver import HTTPServer
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler


@dataclass
class MailServer:
    """An SMTP server in a thread of its own."""

    failures: int = 0
    """So many messages are refused first."""
    refused: int = 0
    mails: list[str] = field(default_factory=list)
    """What was accepted, with headers."""
    port: int = 0

    @property
    def url(self) -> str:
        return (
            f"mailto://127.0.0.1:{self.port}?from=hub@example.org&to=ops@example.org&mode=insecure"
        )

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's name
        if self.refused < self.failures:
            self.refused += 1
            return "451 Try again later"
        content = envelope.content
        self.mails.append(content.decode() if isinstance(content, bytes) else content or "")
        return "250 OK"


@contextmanager
def mail_server() -> Iterator[MailServer]:
    handler = MailServer()
    sockets, handler.port = bind_unused_port(address="127.0.0.1")
    sockets.close()
    controller = Controller(handler, hostname="127.0.0.1", port=handler.port)
    controller.start()
    try:
        yield handler
    finally:
        controller.stop()


@dataclass(slots=True)
class Webhook:
    """A web server on the test's own loop."""

    failures: int = 0
    refused: int = 0
    calls: list[Any] = field(default_factory=list)
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared, it takes calls and answers none."""
    port: int = 0

    @property
    def url(self) -> str:
        return f"json://ops:Hunter2-s3cret@127.0.0.1:{self.port}/path-t0ken"


@contextmanager
def webhook() -> Iterator[Webhook]:
    hook = Webhook()
    hook.answers.set()

    class Handler(RequestHandler):
        async def post(self) -> None:
            fails = hook.refused < hook.failures
            if not fails:
                hook.calls.append(json.loads(self.request.body))
            await hook.answers.wait()
            if fails:
                hook.refused += 1
                self.send_error(500)

    server = HTTPServer(Application([(r"/.*", Handler)]))
    socket, hook.port = bind_unused_port(address="127.0.0.1")
    server.add_socket(socket)
    try:
        yield hook
    finally:
        server.stop()


@contextmanager
def aws(port: int = 0) -> Iterator[str]:
    """moto's SNS and SQS; all such servers of a process have the same topics and queues."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        yield "http://{}:{}".format(*server.get_host_and_port())
    finally:
        server.stop()
