"""`/hub/api/ec2/users/…/continue`: a user's own running server moves to other hardware."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.user import User
from pydantic import AwareDatetime
from tornado.web import HTTPError

from ...core.profiles.choices import OptionsRefused
from ...provisioner.lifecycle.server_moves import CannotMove
from ...provisioner.limits.admission import LimitReached
from ...provisioner.model.leases.lease import Lease, LeaseState
from ...provisioner.store.store import StoreError
from ...wire import Stop, Trigger
from ..app.api_address import reachable_api_url
from ..app.spawn_error import SpawnError
from ..app.user_account import account_of
from ..security.sealed_start import SealBroken
from ..spawn.hardware_change import continue_on
from ..spawn.limits import limit_words_of
from ..spawn.server_options import ProfileListError
from .user_call import OWN_SCOPE, Model, UserCall, running, store_failed


class Move(Model):
    """The last attempt to continue a server on another instance."""

    trigger: Trigger
    """`hardware`, or `interruption`."""
    state: Literal["looking", "booting", "moving", "failed"]
    """`looking` for an instance, which is `booting` then; `moving`: the server has left the old
    one. `failed`: the server is left as it was."""
    profile: str
    """Slug."""
    profile_name: str
    begun_at: AwareDatetime
    message: str
    """What happens now, or why it failed, in words."""


class MoveReply(Model):
    """`GET …/continue`."""

    now: AwareDatetime
    """The hub's clock."""
    move: Move | None
    """None where the server has not tried to move since it is ready."""


class ContinueHandler(UserCall):
    """Continues a running server on other hardware."""

    async def get(self, user_name: str, server_name: str = "") -> None:
        """How far that is; 403 for other users' servers, and without the scope: the token of one
        server reads nothing of another."""
        owner = _owner(self, user_name)
        if not self.has_scope(f"{OWN_SCOPE}!user={user_name}"):
            raise HTTPError(403, f"the token needs the scope {OWN_SCOPE} for its user")
        _, provisioner = running()
        found = provisioner.moves.last(account_of(provisioner.accounts, owner), server_name)
        move = found and _move(found, has_left=provisioner.moves.has_left(found))
        self.finish(MoveReply(now=provisioner.now(), move=move).model_dump_json())

    @needs_scope("start:servers")
    async def post(self, user_name: str, server_name: str = "") -> None:
        """Begin, with the options of a start. 202; 400 for options that cannot be followed, 403 for
        other users' servers, 409 with the reason if the server cannot move."""
        owner = _owner(self, user_name)
        hub, provisioner = running()
        wanted = self.get_json_body() or {}
        if server_name not in owner.orm_spawners:
            raise HTTPError(404, "there is no such server")
        limit, now = hub.limits.user_starts, time.monotonic()
        self.check_rate(limit, "you have started servers too often lately")
        spawner = owner.spawners[server_name]
        url = reachable_api_url(spawner.get_env()["JUPYTERHUB_API_URL"], hub.options)
        try:
            with limit.returned_on_error(self.rate_key, now):
                await continue_on(hub, provisioner, spawner, url, wanted)
        except OptionsRefused as error:
            raise HTTPError(400, str(error)) from error
        except ProfileListError as error:
            raise HTTPError(503, str(error)) from error
        except LimitReached as error:
            raise HTTPError(409, limit_words_of(error, hub.options.contact)) from error
        except (CannotMove, SealBroken) as error:
            raise HTTPError(409, str(error)) from error
        except SpawnError as error:
            raise HTTPError(409, error.jupyterhub_message) from error
        except StoreError as error:
            raise store_failed(self, error) from error
        self.set_status(202)

    @needs_scope("start:servers")
    async def delete(self, user_name: str, server_name: str = "") -> None:
        """Stay where it is: 204, or 409 once the server has left."""
        owner = _owner(self, user_name)
        self.refuse_body()
        _, provisioner = running()
        account = account_of(provisioner.accounts, owner)
        found = provisioner.moves.pending(account, server_name)
        if found is not None and provisioner.moves.has_left(found):
            raise HTTPError(409, "the server has left its old machine")
        stop = Stop(reason="user", message="You stayed on your machine")
        await provisioner.moves.give_up(account, server_name, stop)
        self.set_status(204)


def _owner(handler: APIHandler, user_name: str) -> User:
    """The caller. Raises `HTTPError` (403) unless it is their own server."""
    caller = handler.current_user
    if not isinstance(caller, User) or caller.name != user_name:
        raise HTTPError(403, "a server is moved by its owner alone")
    return caller


def _move(lease: Lease, *, has_left: bool) -> Move:
    state: Literal["looking", "booting", "moving", "failed"] = "looking"
    message = lease.events[-1].message if lease.events else ""
    if lease.state in {LeaseState.ENDING, LeaseState.ENDED}:
        state, message = "failed", lease.stop.message if lease.stop else ""
    elif has_left:
        state = "moving"
    elif lease.state is LeaseState.STARTING:
        state = "booting"
    return Move(
        trigger=lease.taken_over.trigger,
        state=state,
        profile=lease.profile,
        profile_name=lease.profile_name,
        begun_at=lease.requested_at,
        message=message,
    )


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/users/([^/]+)/server/continue", ContinueHandler),
    (r"/api/ec2/users/([^/]+)/servers/([^/]+)/continue", ContinueHandler),
]
