"""`/hub/api/ec2/users/…/sleep` and `…/session`: a user's own session that goes to sleep, or
sleeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.user import User
from pydantic import AwareDatetime
from tornado.web import HTTPError

from ...provisioner.sleeping import CannotSleep
from ...wire import SavedKernel, Trigger
from ..app.user_account import lease_of
from ..pages.spawn_page.session_asleep import SessionAsleep, session_asleep
from .jupyterhub_server_api import SLEPT
from .user_call import OWN_SCOPE, Model, UserCall, running


class Session(Model):
    """A session that the next start can wake."""

    id: str
    slept_at: AwareDatetime
    trigger: Trigger
    reason: str
    """Why its server stopped, in words; empty if that is no longer known."""
    profile: str
    """The slug of the profile that it ran on; empty if that is no longer known."""
    variables: int
    """Of all `kernels`."""
    size_bytes: int
    kernel_count: int
    kernels: tuple[SavedKernel, ...]
    """The first 20."""
    usd_per_day: float | None
    """What it costs to keep: an estimate. None is unknown."""
    expires_at: AwareDatetime


class SessionReply(Model):
    """`GET …/session`."""

    now: AwareDatetime
    """The hub's clock."""
    session: Session | None
    """None where nothing sleeps."""


class SessionHandler(UserCall):
    """What the next start of a server can wake."""

    async def get(self, user_name: str, server_name: str = "") -> None:
        """200; 403 for other users' servers: names of variables are their owner's alone."""
        owner = _owner(self, user_name)
        if not self.has_scope(f"{OWN_SCOPE}!user={user_name}"):
            raise HTTPError(403, f"the token needs the scope {OWN_SCOPE} for its user")
        hub, provisioner = running()
        found = session_asleep(provisioner, hub.options, owner, server_name)
        session = found and _session(found)
        self.finish(SessionReply(now=provisioner.now(), session=session).model_dump_json())


class SleepHandler(UserCall):
    """Saves the variables of a running server, then stops it."""

    @needs_scope("delete:servers")
    async def post(self, user_name: str, server_name: str = "") -> None:
        """202 while it saves; 403 for other users' servers, 409 with the reason if it cannot."""
        owner = _owner(self, user_name)
        self.refuse_body()
        _, provisioner = running()
        lease = lease_of(provisioner, owner, server_name)
        try:
            if lease is None:
                raise CannotSleep("this server does not run")
            await provisioner.sleeping.put_to_sleep(lease.lease_id, SLEPT)
        except CannotSleep as error:
            raise HTTPError(409, str(error)) from error
        self.set_status(202)


def _owner(handler: APIHandler, user_name: str) -> User:
    """The caller. Raises `HTTPError` (403) unless it is their own server."""
    caller = handler.current_user
    if not isinstance(caller, User) or caller.name != user_name:
        raise HTTPError(403, "a session is its owner's alone")
    return caller


def _session(found: SessionAsleep) -> Session:
    session = found.session
    return Session(
        id=session.id,
        slept_at=session.slept_at,
        trigger=session.trigger,
        reason=found.reason,
        profile=found.profile,
        variables=found.variables,
        size_bytes=session.size_bytes,
        kernel_count=session.kernel_count,
        kernels=tuple(session.kernels),
        usd_per_day=found.usd_per_day,
        expires_at=found.expires_at,
    )


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/users/([^/]+)/server/session", SessionHandler),
    (r"/api/ec2/users/([^/]+)/servers/([^/]+)/session", SessionHandler),
    (r"/api/ec2/users/([^/]+)/server/sleep", SleepHandler),
    (r"/api/ec2/users/([^/]+)/servers/([^/]+)/sleep", SleepHandler),
]
