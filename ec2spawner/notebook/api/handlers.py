"""`{base}ec2spawner/api/...`: what the browser asks, answered from memory."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field
from tornado import web

from ...wire import ContinueRequest, ExtendRequest, IdleRequest, sentence
from ..status.guest_status import for_guest
from .extension_handler import ExtensionHandler


class StatusHandler(ExtensionHandler):
    """`GET status`: from memory; for other users without what is the owner's alone."""

    @web.authenticated
    async def get(self) -> None:
        """Answer a `NotebookStatus`."""
        status = await self.service.status()
        if not self.is_owners():
            status = for_guest(status)
        self.say(status)


class HistoryHandler(ExtensionHandler):
    """`GET history`: the last hour in steps; 400 for an invalid `since`."""

    @web.authenticated
    async def get(self) -> None:
        """Answer a `History`: the steps that ended after `since`, in seconds since the epoch."""
        try:
            since = float(text) if (text := self.get_query_argument("since", "")) else None
        except ValueError:
            self.refuse_request("since: is no number")
        self.set_header("Cache-Control", "no-store")
        self.finish(self.service.history.answer(since))


class ExtendHandler(ExtensionHandler):
    """`POST extend`: keep the server for some seconds from now; only the owner may."""

    @web.authenticated
    async def post(self) -> None:
        """Ask the hub for an extension; 409 with the reason if it grants none."""
        await self.ask("extend", self.body(ExtendRequest).seconds)


class IdleHandler(ExtensionHandler):
    """`POST idle`: the idle time in seconds until the stop; only the owner may."""

    @web.authenticated
    async def post(self) -> None:
        """Ask the hub for another idle time; 409 with the reason if it refuses."""
        await self.ask("idle", self.body(IdleRequest).server_seconds)


class StopHandler(ExtensionHandler):
    """`POST stop`: stop this server; only the owner may."""

    @web.authenticated
    async def post(self) -> None:
        """Ask the hub for the stop; 503 if agent or hub do not answer in time."""
        self.owners_link()
        self.refuse_body()
        await self.ask("stop")


class SleepHandler(ExtensionHandler):
    """`POST sleep`: save the session, then stop this server; only the owner may."""

    @web.authenticated
    async def post(self) -> None:
        """Ask the hub for the sleep; 409 with the reason if this server cannot."""
        self.owners_link()
        self.refuse_body()
        await self.ask("sleep")


class HardwareHandler(ExtensionHandler):
    """`GET hardware`: what this server could continue on; only the owner may ask."""

    @web.authenticated
    async def get(self) -> None:
        """Answer `HardwareChoices`; 409 with the reason if the hub has none."""
        reply = await self.agents_reply("hardware")
        if reply.hardware is None:
            self.reply(False, reply.sentence, 409)
            return
        self.say(reply.hardware)


class ContinueHandler(ExtensionHandler):
    """`POST continue`: continue on other hardware; only the owner may."""

    @web.authenticated
    async def post(self) -> None:
        """Answer a `Move`; 409 with the reason if the hub refuses."""
        profile = self.body(ContinueRequest).profile
        reply = await self.agents_reply("continue", profile=profile)
        if reply.move is None:
            self.reply(False, reply.sentence, 409)
            return
        self.say(reply.move)


class SavedBody(BaseModel):
    """`POST saved`: after a stop was announced, this page has saved its documents."""

    page: Annotated[str, Field(min_length=1, max_length=64)]
    """Chosen by the page at random when it was loaded."""
    unsaved: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=10)] = []
    """Paths of documents with changes that could not be saved."""


class SavedHandler(ExtensionHandler):
    """`POST saved`: a page has saved its documents before the stop; 409 without a stop."""

    @web.authenticated
    async def post(self) -> None:
        """Count the page as saved; 409 while no stop is under way."""
        report = self.body(SavedBody)
        if self.service.pages is None:
            self.refuse(409, sentence("not-stopping"))
        self.service.pages.saved(report.page, report.unsaved)
        self.reply(True)


class TakenBody(BaseModel):
    """`POST outputs`: a page shows the outputs of these executions, and has saved them."""

    ids: Annotated[list[str], Field(max_length=1000)]


class OutputsHandler(ExtensionHandler):
    """`GET outputs`: what a notebook's cells have printed since their page was closed."""

    @web.authenticated
    async def get(self) -> None:
        """Answer the executions that were begun by pages that are gone."""
        path = self.get_query_argument("path", "").strip("/")
        self.say({"executions": await self.service.outputs.left(path)})

    @web.authenticated
    async def post(self) -> None:
        """Forget those of these executions that have ended."""
        self.service.outputs.taken(self.body(TakenBody).ids)
        self.reply(True)


class InputHandler(ExtensionHandler):
    """`POST input`: the user typed or clicked, which restarts the idle time."""

    @web.authenticated
    async def post(self) -> None:
        """Note the time of the input."""
        self.service.observer.input()
        self.reply(True)
