"""What an admin does to a user's server on the page *Instances*, besides stopping it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Annotated, Any

from jupyterhub.apihandlers.base import APIHandler
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from tornado.web import HTTPError

from ...provisioner.lifecycle.admin_actions import MessageRefused
from ...provisioner.model.leases.lease import Lease, LeaseState
from ...provisioner.provisioner import Provisioner
from ...provisioner.store.store import StoreError
from ..app.user_account import account_of, lease_of, user_of
from .user_call import Model, UserCall, named, read, require_instances_scope, running, store_failed

log = logging.getLogger(__name__)

MAX_KEEP_SECONDS = 30 * 86400

KEPT_IN_MEMORY = "the server is kept, but the hub's database does not answer: not stored yet"

HANDED_OVER_IN_MEMORY = "handed over, but the hub's database does not answer: not stored yet"

HAND_OVER_SCOPE = "admin:users"
"""JupyterHub's, for all users: one gets the files of another."""

STOP_SCOPE = "delete:servers"
"""JupyterHub's, for what a user's server loses."""


class Keep(BaseModel):
    """`POST …/keep`."""

    model_config = ConfigDict(extra="forbid")

    seconds: Annotated[float, Field(gt=0, le=MAX_KEEP_SECONDS, allow_inf_nan=False)]


class Extension(Model):
    """The answer of `keep`: until when no idleness stops the server."""

    extended_until: AwareDatetime


class Text(BaseModel):
    """`POST …/message`."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(max_length=2000)]


class HandOver(BaseModel):
    """`POST …/hand-over`."""

    model_config = ConfigDict(extra="forbid")

    account: Annotated[str, Field(min_length=1, max_length=300)]
    """As pages and reports call it: `ann/3`, or the name of a deleted user."""


class KeepHandler(UserCall):
    """Keeps a server on, beyond what its idle policy allows its user."""

    async def post(self, user_name: str, server_name: str = "") -> None:
        """200 with the instant; 404 for an unknown server, 409 while it is not ready."""
        require_instances_scope(self)
        body = read(self, Keep, '{"seconds": 14400}')
        provisioner, lease = _ready(self, user_name, server_name)
        try:
            by = self.current_user.name
            until = await provisioner.admin_actions.keep(lease, body.seconds, by)
        except StoreError as error:
            raise store_failed(self, error, KEPT_IN_MEMORY) from error
        log.info("%s keeps %s until %s", by, lease.lease_id, until)
        self.finish(Extension(extended_until=until).model_dump_json())


class MessageHandler(UserCall):
    """Shows a message in the open pages of a server."""

    async def post(self, user_name: str, server_name: str = "") -> None:
        """204; 400 for an empty or long text, 404 for an unknown server, 409 unless ready."""
        require_instances_scope(self)
        body = read(self, Text, '{"text": "…"}')
        provisioner, lease = _ready(self, user_name, server_name)
        try:
            provisioner.admin_actions.message(lease, body.text)
        except MessageRefused as error:
            raise HTTPError(400, str(error)) from error
        log.info("%s sends a message to %s", self.current_user.name, lease.lease_id)
        self.set_status(204)


class ReleaseHandler(UserCall):
    """Releases the instances that are kept for a server after its stop."""

    async def delete(self, user_name: str, server_name: str = "") -> None:
        """204; 403 without both scopes, 404 where nothing is kept. Their disks are deleted."""
        require_instances_scope(self)
        if not self.has_scope(f"{STOP_SCOPE}!user={user_name}"):
            raise HTTPError(403, f"this needs the scope {STOP_SCOPE} for the user")
        self.refuse_body()
        _, provisioner = running()
        try:
            account = named(self, user_name)
            is_released = await provisioner.admin_actions.release(account, server_name)
        except StoreError as error:
            raise store_failed(self, error) from error
        if not is_released:
            raise HTTPError(404, "no instance is kept for this server")
        log.info("%s releases what is kept for %s", self.current_user.name, user_name)
        self.set_status(204)


class HandOverHandler(UserCall):
    """Lets a user have what an account that was deleted has left."""

    async def post(self, user_name: str) -> None:
        """204; 403 without both scopes, 404 for an unknown user or account, 409 while the account
        is somebody's, or while servers or runs of either have not ended."""
        require_instances_scope(self)
        if not self.has_scope(HAND_OVER_SCOPE):
            raise HTTPError(403, f"this needs the scope {HAND_OVER_SCOPE}")
        body = read(self, HandOver, '{"account": "ann/3"}')
        _, provisioner = running()
        accounts, user = provisioner.accounts, self.find_user(user_name)
        account, owner = accounts.named(body.account), self.find_user(body.account)
        if owner is None and account is not None and account in accounts:
            owner = user_of(accounts, self.users, account)
        if owner is not None:
            raise HTTPError(409, f"{body.account} is the account of the user {owner.name}")
        if user is None or account is None or account not in accounts:
            raise HTTPError(404, "there is no such user, or no such account")
        own = account_of(accounts, user)
        if provisioner.is_active(account) or provisioner.is_active(own):
            raise HTTPError(409, "stop their servers and cancel their runs first")
        try:
            await accounts.hand_over(account, own)
        except StoreError as error:
            raise store_failed(self, error, HANDED_OVER_IN_MEMORY) from error
        by, left = self.current_user.name, accounts.name(own)
        log.warning(
            "%s hands over %s to %s; what they had is %s", by, body.account, user.name, left
        )
        self.set_status(204)


def _ready(handler: APIHandler, user: str, server: str) -> tuple[Provisioner, Lease]:
    _, provisioner = running()
    lease = lease_of(provisioner, handler.find_user(user), server)
    if lease is None or not lease.is_server:  # workers and runs have no pages, and no idle stop
        raise HTTPError(404, "no such server runs")
    if lease.state is not LeaseState.READY:
        raise HTTPError(409, "the server is not ready")
    return provisioner, lease


handlers: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/ec2/users/([^/]+)/hand-over", HandOverHandler),
    (r"/api/ec2/users/([^/]+)/server/keep", KeepHandler),
    (r"/api/ec2/users/([^/]+)/servers/([^/]+)/keep", KeepHandler),
    (r"/api/ec2/users/([^/]+)/server/kept", ReleaseHandler),
    (r"/api/ec2/users/([^/]+)/servers/([^/]+)/kept", ReleaseHandler),
    (r"/api/ec2/users/([^/]+)/server/message", MessageHandler),
    (r"/api/ec2/users/([^/]+)/servers/([^/]+)/message", MessageHandler),
]
