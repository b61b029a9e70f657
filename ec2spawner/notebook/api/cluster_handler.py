"""`{base}ec2spawner/api/cluster`: the workers of this server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from tornado import web

from ...wire import MAX_WORKERS, ClusterRequest, NotebookReply
from ..agent_link import AgentGoneError
from ..status.guest_status import cluster_for_guest
from .extension_handler import ExtensionHandler


class ClusterBody(BaseModel):
    """`POST cluster`. A cluster is started in a kernel, where its engine runs."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["price", "scale", "stop"]
    workers: Annotated[int, Field(ge=0, le=MAX_WORKERS)] | None = None
    """Of `price` and `scale`."""
    profile: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    """Of `price`: the workers' slug; null is the profile of this server."""


class ClusterHandler(ExtensionHandler):
    """`GET cluster`: how it stands. `POST cluster`: price, scale or stop; only the owner may."""

    @web.authenticated
    async def get(self) -> None:
        """Answer a `ClusterAnswer`; 409 with the reason if the hub refuses."""
        self.link()
        try:
            reply = await self.service.cluster.latest()
        except AgentGoneError as error:
            self.refuse(503, error.sentence)
        if not self.is_owners() and reply.cluster is not None:
            reply = reply.model_copy(update={"cluster": cluster_for_guest(reply.cluster)})
        self._answer(reply)

    @web.authenticated
    async def post(self) -> None:
        """Answer a `ClusterAnswer`; 409 with the reason if the hub refuses."""
        link = self.owners_link()
        request = ClusterRequest(**self.body(ClusterBody).model_dump())
        try:
            reply = await link.ask("cluster", cluster=request)
        except AgentGoneError as error:
            self.refuse(503, error.sentence)
        finally:
            self.service.cluster.forget()
        self._answer(reply)

    def _answer(self, reply: NotebookReply) -> None:
        if reply.cluster is None:
            self.reply(False, reply.sentence, 409)
        else:
            self.say(reply.cluster)
