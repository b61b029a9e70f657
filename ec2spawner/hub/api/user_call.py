"""What the calls of users and programs share: the base of their models, and who may call."""

from __future__ import annotations

from typing import TypeVar

from jupyterhub.apihandlers.base import APIHandler
from pydantic import BaseModel, ConfigDict, ValidationError
from tornado.web import HTTPError

from ...provisioner.provisioner import Provisioner
from ..app import service
from ..app.service import HubService
from ..security.instances_scope import SCOPE, has_scope

M = TypeVar("M", bound=BaseModel)


class Model(BaseModel):
    """Base of the messages to users and programs: immutable."""

    model_config = ConfigDict(frozen=True)


def running(handler: APIHandler) -> tuple[HubService, Provisioner]:
    """What the hub process holds. Raises `HTTPError` (503) until store and cloud have answered."""
    found, provisioner = service.current(), service.current_provisioner()
    if found is None or provisioner is None:
        handler.set_header("Retry-After", "2")
        raise HTTPError(503, "the hub is starting, or gets no answer from EC2; try again")
    return found, provisioner


def require_instances_scope(handler: APIHandler) -> None:
    """Raises `HTTPError` (403) for who may not see the servers of all users."""
    if not has_scope(handler):
        raise HTTPError(403, f"this needs the scope {SCOPE}")


def read(handler: APIHandler, model: type[M], example: str) -> M:
    """The body of a call. Raises `HTTPError` (400) that shows `example`."""
    try:
        return model.model_validate_json(handler.request.body)
    except ValidationError as error:
        raise HTTPError(400, f"send {example}") from error
