"""What the extension's handlers have in common."""

from __future__ import annotations

import json
from typing import Any, NoReturn, TypeVar

from jupyter_server.base.handlers import APIHandler
from pydantic import BaseModel
from tornado import web

from ...core.text.strict_json import WrongBody, check_type, parsed_object, read_model
from ...wire import NotebookReply, Sentence, sentence
from ..agent_link import AgentGoneError, AgentLink
from ..service import NotebookService

Body = TypeVar("Body", bound=BaseModel)


class ExtensionHandler(APIHandler):
    """Ours: no request of it is activity, and every refusal says why in `sentence`."""

    _track_activity = False

    def initialize(self, service: NotebookService) -> None:
        """Called by Tornado."""
        self.service = service

    def say(self, answer: BaseModel | dict[str, Any], status: int = 200) -> None:
        """End the request with this answer."""
        self.set_status(status)
        self.set_header("Cache-Control", "no-store")
        body = answer.model_dump_json() if isinstance(answer, BaseModel) else json.dumps(answer)
        self.finish(body)

    def reply(self, ok: bool, why: Sentence | None = None, status: int = 200) -> None:
        """`why`: why not, or what was granted instead of what was asked for."""
        self.say({"ok": ok, "sentence": why.model_dump() if why else None}, status)

    def refuse(self, status: int, why: Sentence) -> NoReturn:
        """End the request without doing anything."""
        self.reply(False, why, status)
        raise web.Finish

    def body(self, model: type[Body]) -> Body:
        """The request's body; ends the request with 400 if it is invalid."""
        try:
            check_type(self.request.headers.get("Content-Type"))
            return read_model(model, self.request.body)
        except WrongBody as error:
            self.refuse_request(str(error))

    def refuse_request(self, problem: str) -> NoReturn:
        """End the request with 400. `problem` is for programs; a page can only be reloaded."""
        why = sentence("invalid-request").model_dump()
        self.say({"ok": False, "sentence": why, "message": problem}, 400)
        raise web.Finish

    def refuse_body(self) -> None:
        """For calls that take none: ends the request with 400 if it says something."""
        try:
            if parsed_object(self.request.body):
                self.refuse_request("this call takes no body")
        except WrongBody as error:
            self.refuse_request(str(error))

    def is_owners(self) -> bool:
        """Whether the owner asks: who was only given access to the server may not end it.

        A service may have the name of a user, and is none.
        """
        if self.service.link is None:
            return True
        kind = getattr(self.current_user, "hub_user", {}).get("kind", "user")
        name = getattr(self.current_user, "username", None)
        return (kind, name) == ("user", self.service.owner)

    async def ask(self, kind: Any, seconds: float | None = None) -> None:
        """Put a button's request to the agent."""
        reply = await self.agents_reply(kind, seconds)
        self.reply(reply.ok, reply.sentence, 200 if reply.ok else 409)

    async def agents_reply(
        self, kind: Any, seconds: float | None = None, profile: str | None = None
    ) -> NotebookReply:
        """What the agent replies; ends the request where it may not or cannot be asked."""
        link = self.owners_link()
        try:
            return await link.ask(kind, seconds, profile)
        except AgentGoneError as error:
            self.refuse(503, error.sentence)

    def owners_link(self) -> AgentLink:
        """The line to the agent; ends the request where there is none, and for all but the
        owner."""
        link = self.link()
        if not self.is_owners():
            self.refuse(403, sentence("owner-only"))
        return link

    def link(self) -> AgentLink:
        """The line to the agent; ends the request with 404 where there is none."""
        if self.service.link is None:
            self.refuse(404, sentence("not-managed"))
        return self.service.link
