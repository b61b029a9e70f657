"""What one simulated user does, from the login to the logout."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from ..journal import Event, Journal
from ..samples import Sample, Step
from ..settings import Settings
from .entrance import Entrance
from .event_stream import EventStream, StreamRefused
from .hub_page import FormRefused, form_of
from .kernel import connected, start_kernel
from .kernel_messages import cell
from .session import Session, StepFailed

POLL: Final = 1.0
"""Seconds between two questions whether a server has stopped, and before a stream is reopened."""


class Visitor:
    """A user whose steps are given to `record` as they end."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        secret: str,
        journal: Journal,
        record: Callable[[Sample], None],
    ) -> None:
        self.name = name
        self._settings = settings
        self._journal = journal
        self._record = record
        self._session = Session(settings.url)
        self._entrance = Entrance(settings, name, secret, journal, self._session)
        self._api = f"hub/api/users/{quote(name, safe='')}"
        self._has_server = False

    def visit(self) -> None:
        """All of it. A step that fails is recorded, and ends the visit with `StepFailed`.

        Whatever ends the visit, the server is stopped, unless it was there before.
        """
        try:
            with self._step(Step.LOGIN):
                self._entrance.enter()
                self._require_no_server()
            self._start()
            with self._step(Step.OPEN):
                server = self._open()
            self._work(server)
            time.sleep(self._settings.idle)
        finally:
            self.leave()

    def leave(self) -> None:
        """Stop the server if this user has started it, and log out. Records what fails."""
        try:
            if self._has_server:
                with suppress(StepFailed), self._step(Step.STOP):
                    self.stop()
            with suppress(StepFailed):
                self._entrance.leave(has_server=self._has_server)
        finally:
            self._session.close()

    def clear(self, *, delete_user: bool) -> None:
        """Remove what another process of this test has left. Raises `StepFailed`."""
        try:
            self._entrance.enter()
            self._has_server = True
            self.stop()
            self._entrance.is_new = delete_user
            self._entrance.leave(has_server=False)
        finally:
            self._session.close()

    def stop(self) -> None:
        """Stop the server, and wait until it is gone. Raises `StepFailed`."""
        deadline = time.monotonic() + self._settings.stop_timeout
        gone = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND)
        # A server that is just being started or stopped refuses: it is asked again.
        pending = (HTTPStatus.ACCEPTED, HTTPStatus.BAD_REQUEST)
        while True:
            answer = self._session.ask("DELETE", f"{self._api}/server")
            answer.require("stop", *gone, *pending)
            if not self._server_exists():
                break
            if time.monotonic() > deadline:
                raise StepFailed(f"the server still runs after {self._settings.stop_timeout:.0f} s")
            time.sleep(POLL)
        self._has_server = False
        self._journal.write(self.name, Event.SERVER_GONE)

    # --- the start ---

    def _start(self) -> None:
        """From the spawn page to a server that is ready."""
        if self._settings.login == "token":
            with self._step(Step.START):
                self._expect_server()
                accepted = (HTTPStatus.CREATED, HTTPStatus.ACCEPTED)
                self._session.ask(
                    "POST", f"{self._api}/server", body=self._settings.choices
                ).require("start", *accepted)
                self._follow_progress()
            return
        with self._step(Step.SPAWN_PAGE):
            # A hub without a form starts the server as soon as the page is opened.
            self._expect_server()
            url = f"hub/spawn/{quote(self.name, safe='')}"
            page = self._session.ask("GET", url, follow=True)
            page.require("spawn page", HTTPStatus.OK)
            form = form_of(page.text, "spawn_form")
            if form is None and self._settings.choices:
                raise StepFailed("the hub's spawn page has no form, and so no choice")
            try:
                parts = form.filled(self._settings.choices) if form else []
            except FormRefused as error:
                raise StepFailed(str(error)) from error
        with self._step(Step.START):
            if form is not None:
                answer = self._session.ask("POST", form.action or page.url, parts=parts)
                if not answer.is_redirect:
                    answer.require("start")
            self._follow_progress()

    def _expect_server(self) -> None:
        self._journal.write(self.name, Event.SERVER_REQUESTED)
        self._has_server = True

    def _follow_progress(self) -> None:
        """Until the server is ready. Like a browser, it opens a stream again that breaks."""
        deadline = time.monotonic() + self._settings.start_timeout
        while not self._is_ready(deadline):
            time.sleep(POLL)

    def _is_ready(self, deadline: float) -> bool:
        """Follow one stream to its end; False if it ended before the start did."""
        stream = EventStream()
        try:
            for data in self._session.stream(f"{self._api}/server/progress"):
                for event in stream.feed(data):
                    if event.get("failed"):
                        raise StepFailed(str(event.get("message", "the start failed"))[:300])
                    if event.get("ready"):
                        return True
                if time.monotonic() > deadline:
                    break
        except StreamRefused as error:
            raise StepFailed(str(error)) from error
        if time.monotonic() > deadline:
            seconds = self._settings.start_timeout
            raise StepFailed(f"the server is not ready after {seconds:.0f} s")
        return False

    # --- at the server ---

    def _open(self) -> str:
        """Open the server's page, through JupyterHub's OAuth; returns the server's address."""
        server = f"{self._settings.url}user/{quote(self.name, safe='')}/"
        page = self._session.ask("GET", server, follow=True).require("server", HTTPStatus.OK)
        if not page.url.startswith(server):
            raise StepFailed("the hub does not lead to the server")
        return server

    def _work(self, server: str) -> None:
        if not self._settings.cells:
            return
        with ExitStack() as connection:
            with self._step(Step.KERNEL):
                found = connected(self._session, start_kernel(self._session, server))
                kernel = connection.enter_context(found)
                kernel.prove()
            for number in range(self._settings.cells):
                with self._step(Step.CELL):
                    kernel.run(cell(number))
                time.sleep(self._settings.cell_every)

    # --- what JupyterHub says about the user ---

    def _require_no_server(self) -> None:
        if self._server_exists():
            raise StepFailed(
                "the user has a server already, which this test has not started: stop it, or use "
                "another --prefix"
            )

    def _server_exists(self) -> bool:
        answer = self._session.ask("GET", self._api).require("user", HTTPStatus.OK)
        servers = answer.json().get("servers")
        return bool(servers)

    @contextmanager
    def _step(self, step: Step) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        except StepFailed as error:
            self._record(Sample(step, time.perf_counter() - began, str(error)))
            raise
        self._record(Sample(step, time.perf_counter() - began))
