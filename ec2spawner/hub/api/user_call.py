"""What the calls of users and programs share: the base of their models, and who may call."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Hashable
from typing import ClassVar, Final, TypeVar

from jupyterhub.apihandlers.base import APIHandler
from jupyterhub.user import User
from pydantic import BaseModel, ConfigDict
from tornado.web import HTTPError

from ...core.rate_limit import RateLimit, Share
from ...core.text.strict_json import WrongBody
from ...provisioner.provisioner import Provisioner
from ...provisioner.store.store import StoreError
from ..app import service
from ..app.service import HubService
from ..app.user_account import account_named, account_of
from ..security.instances_scope import SCOPE, has_scope
from .bounded_body import BoundedBody

log = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)

OWN_SCOPE = "read:servers"
"""Required to read the caller's own usage. A user's login and own tokens have it; the token of a
server, which everyone with access to that server can read, does not."""

UNKNOWN_CALLER: Final = (
    "the token is missing, wrong or expired: the hub's page Token shows yours and makes new ones"
)
"""Before any scope is asked for: a token that the hub does not know has none."""

USED_SCOPES: Final = (OWN_SCOPE, "start:servers", "delete:servers", "admin:users")
"""What a token needs one of, for anybody, to do anything here without our scope."""


class Model(BaseModel):
    """Base of the messages to users and programs: immutable."""

    model_config = ConfigDict(frozen=True)


class TooManyCalls(HTTPError):
    """429 with when to try again."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(429, message)
        self.headers = {"Retry-After": str(math.ceil(max(seconds, 1)))}


class UserCall(BoundedBody):
    """A call of a user or a program: how many one user makes is bounded before a body is read.

    Services, and admins with our scope, have no bound.
    """

    CALL_TOKENS: ClassVar[int] = 1
    """How many of its user's `user_calls` a call takes."""

    async def admit(self) -> None:
        """Raises `HTTPError` (403) for nobody, and `TooManyCalls` for a caller who has called too
        often."""
        if self.current_user is None:
            raise HTTPError(403, UNKNOWN_CALLER)
        hub = service.current()
        if hub is not None:
            self.check_rate(hub.limits.user_calls, "too many calls", self.CALL_TOKENS)

    def check_rate(self, limit: RateLimit, message: str, tokens: int = 1) -> None:
        """Raises `TooManyCalls` with this message if too few tokens are left of the caller."""
        if not self.caller or has_scope(self):
            return
        key, now = self.rate_key, time.monotonic()
        if not limit.take(key, now, tokens):
            raise TooManyCalls(message, limit.wait_seconds(key, now, tokens))

    @property
    def rate_key(self) -> Hashable:
        """What the call counts as: its user's, or a share of that for a token of theirs.

        Tokens of a user that may do nothing here have a rate of their own, together: a server has
        such tokens of all who have used it.
        """
        token, account = self.get_token(), self.caller
        if token is None:
            return account
        if self.parsed_scopes.keys().isdisjoint(USED_SCOPES):
            return "without scope", account
        return Share(account, token.id)

    @property
    def caller(self) -> str:
        """The account of the user who calls; empty for a service, and while the hub starts."""
        hub, user = service.current(), self.current_user
        return account_of(hub.accounts, user) if hub and isinstance(user, User) else ""


class HubStarting(HTTPError):
    """503 until store and cloud have answered the hub."""

    headers: Final = {"Retry-After": "2"}
    """JupyterHub adds these to the answer; those that a handler has set are lost with an error."""

    def __init__(self) -> None:
        super().__init__(503, "the hub is starting, or gets no answer from EC2; try again")


def running() -> tuple[HubService, Provisioner]:
    """What the hub process holds. Raises `HubStarting`."""
    found, provisioner = service.current(), service.current_provisioner()
    if found is None or provisioner is None:
        raise HubStarting
    return found, provisioner


def store_failed(handler: APIHandler, error: StoreError, outcome: str = "") -> HTTPError:
    """What to raise (503) for a failed store; `outcome` is what became of the call.

    The reason is logged only: it names files, hosts and statements of the database.
    """
    log.warning("%s: %s", handler.request.path, error)
    outcome = outcome or "the hub's database does not answer; try again"
    return HTTPError(503, outcome)


def require_instances_scope(handler: APIHandler) -> None:
    """Raises `HTTPError` (403) for who may not see the servers of all users."""
    if not has_scope(handler):
        raise HTTPError(403, f"this needs the scope {SCOPE}")


def whose(handler: APIHandler) -> str:
    """The account whose usage is asked for: that of `user=`, or else the caller's.

    Raises `HTTPError`: 403 where the caller may not see it, 404 for nobody's name.
    """
    caller = handler.current_user
    own = caller.name if isinstance(caller, User) else ""
    asked: str = handler.get_query_argument("user", own)
    if asked == own and own:
        if not handler.has_scope(f"{OWN_SCOPE}!user={own}"):
            raise HTTPError(403, f"the token needs the scope {OWN_SCOPE} for its user")
    else:
        require_instances_scope(handler)
        if not asked:
            raise HTTPError(400, "a service has no usage: send `user`")
    return named(handler, asked)


def named(handler: APIHandler, user: str) -> str:
    """The account of a user, or the one that a deleted user has left. Raises `HTTPError` (404) for
    a name that nobody has any more."""
    _, provisioner = running()
    account = account_named(provisioner.accounts, handler.users, user)
    if account is None:
        raise HTTPError(404, f"no user has the name {user} any more")
    return account


def read(handler: UserCall, model: type[M], example: str) -> M:
    """The body of a call. Raises `HTTPError` (400) with what is wrong, which shows `example`."""
    try:
        return handler.read_body(model)
    except WrongBody as error:
        raise HTTPError(400, f"{error}. Send {example}") from error
