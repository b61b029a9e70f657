"""Starts a server at JupyterHub again when it continues on another instance.

JupyterHub cannot move a server: it has to see it stopped, and started again. `Spawner.poll` reports
it as stopped with `will_resume`, so that JupyterHub keeps its token and its OAuth client; the start
finds the lease on which it continues. No request of a user is behind that start, so what
JupyterHub's handler does around `User.spawn` is done here.

Level-triggered: whatever is missing is done, also after a restart of the hub at any moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from jupyterhub.app import JupyterHub
from jupyterhub.metrics import RUNNING_SERVERS
from jupyterhub.spawner import SpawnException
from jupyterhub.user import User
from tornado.web import HTTPError

from ...provisioner.model.leases.lease import LIVE, Lease, LeaseState
from ...provisioner.provisioner import Provisioner
from ...provisioner.runtime.cooperative_iteration import cooperatively
from ...provisioner.runtime.supervise import Supervised
from ...wire import Stop, Trigger
from ..security.sealed_start import SealBroken
from .orphaned_tokens import renew_client, revoke_left_tokens
from .service import HubService
from .user_account import user_of
from .user_rename import follow_name

log = logging.getLogger(__name__)

INTERVAL: Final = 2.0
"""Seconds between two looks at what moves; a change of it begins one at once."""

MOVING_INTERVAL: Final = 0.25
"""The same while something moves: what JupyterHub does meanwhile is no change of ours."""

MAX_STOP_MESSAGE: Final = 500
"""Characters that `Stop.message` holds."""

SAVED_IF_NOT_CONTINUED: Final[Trigger] = "user"
"""Why a session is saved that runs on its new instance, but whose server JupyterHub cannot start
again. With `interruption` or `hardware`, its pages would say that it continues."""


def could_not_continue(error: BaseException) -> Stop:
    """The end of a server that JupyterHub could not start again, with the error's words."""
    message = f"It could not continue: {_words_of(error)}"[:MAX_STOP_MESSAGE]
    return Stop(reason="failed", message=message, sleep=SAVED_IF_NOT_CONTINUED)


def _words_of(error: BaseException) -> str:
    """Those for the server's user, where it has them: `str` adds codes, or is for the log."""
    if isinstance(error, SpawnException):
        return str(error.message)
    said = error.get_message() if isinstance(error, HTTPError) else ""
    return said or str(error) or type(error).__name__


@dataclass(slots=True)
class Resumes:
    """Brings what JupyterHub knows of servers that move up to date."""

    app: JupyterHub
    service: HubService
    provisioner: Provisioner
    _notifying: set[str] = field(default_factory=set)
    """Ids of the leases of whose end JupyterHub is being notified."""
    _users: dict[str, User] = field(default_factory=dict)
    """By lease id: the user that JupyterHub has had for it, as long as it is followed."""
    _followed: dict[str, Lease] = field(default_factory=dict)
    """By id: the unfinished leases of the last look, until what they left is cleaned up."""

    async def run(self) -> None:
        """Follow all moves until the task is cancelled."""
        await self.app._start_future  # before that, JupyterHub has not loaded its servers
        while True:
            await self.reconcile()
            # Read anew: a change during the look has announced itself before this waits for one.
            unfinished = self.provisioner.moves.unfinished()
            is_moving = any(lease.state is not LeaseState.READY for lease in unfinished)
            await self.provisioner.moves.wait_change(MOVING_INTERVAL if is_moving else INTERVAL)

    async def reconcile(self) -> None:
        """Look once at every server that moves, or has moved since its user started it.

        That may be most servers of a hub, so what is usual of one is found in memory alone.
        """
        unfinished = self.provisioner.moves.unfinished()
        async for lease in cooperatively(unfinished):
            with Supervised(f"The move of {lease.user}'s server"):
                self._see_to(lease)
        with Supervised("What moves that ended have left"):
            self._clean_up(unfinished)

    def _see_to(self, seen: Lease) -> None:
        """What is missing until JupyterHub has this server under this lease."""
        lease = self.provisioner.lease(seen.lease_id)
        if lease is None or lease.state not in LIVE:
            return
        user = self._user_of(lease)
        if user is None:
            return
        self.provisioner.take_up(lease.user, lease.server, lease.lease_id)
        spawner = user.spawners[lease.server]
        if spawner.pending:
            return
        previous = self.provisioner.remembered(lease.continues)
        if spawner.ready:
            is_left = previous is not None and spawner.lease_id == previous.lease_id
            if previous is not None and is_left and self.provisioner.moves.has_released(previous):
                self._notify(spawner, previous)
        elif previous is None or previous.state is not LeaseState.READY:
            self._start(user, lease)

    def _clean_up(self, unfinished: Sequence[Lease]) -> None:
        """A move that ended after JupyterHub had seen the server stopped, and before it was started
        again, leaves a token that nobody else revokes."""
        current = {lease.lease_id: lease for lease in unfinished}
        for lease in [each for each in self._followed.values() if each.lease_id not in current]:
            user = self._user_of(lease)
            spawner = user.spawners[lease.server] if user else None
            is_open = self.provisioner.lease_of(lease.user, lease.server) is not None
            if spawner is None or spawner.ready or not (spawner.pending or is_open):
                del self._followed[lease.lease_id]
                if spawner is not None and not spawner.ready:
                    revoke_left_tokens(spawner)
        self._followed |= current
        self._users = {key: user for key, user in self._users.items() if key in self._followed}

    # --- whose server it is ---

    def _user_of(self, lease: Lease) -> User | None:
        """None where JupyterHub has no such server: what was begun for it ends."""
        known = self._known_user_of(lease)
        accounts = self.service.accounts
        user = self._registered(known) if known else user_of(accounts, self.app.users, lease.user)
        if user is not None and lease.server in user.orm_spawners:
            self._users[lease.lease_id] = user
            return user
        if known is not None:  # else recovery ends it, but never many at once
            stop = Stop(reason="hub", message="Its user or server was deleted")
            end = self.provisioner.end(lease.lease_id, stop)
            self.provisioner.spawn(end, f"end of {lease.lease_id}")
        return None

    def _known_user_of(self, lease: Lease) -> User | None:
        """The user whose spawner has had this lease, or the one that it continues.

        Not by name: JupyterHub would query its database each time, and a lease keeps the name of a
        user who is renamed, which may be nobody's by now, or another's.
        """
        for lease_id in (lease.lease_id, lease.continues):
            if (user := self._users.get(lease_id)) is not None:
                return user
            if (spawner := self.service.spawners.get(lease_id)) is not None:
                return spawner.user
        return None

    def _registered(self, user: User) -> User | None:
        """The user as JupyterHub has it now; None for one that was deleted.

        The id alone is no proof: the database may give it to the next user.
        """
        current = self.app.users.get(user.id)
        return current if current and current.orm_user is user.orm_user else None

    # --- the server has left its old instance ---

    def _notify(self, spawner: Any, previous: Lease) -> None:
        if previous.lease_id not in self._notifying:
            self._notifying.add(previous.lease_id)
            notified = self._stopped(spawner, previous)
            self.provisioner.spawn(notified, f"notify {previous.lease_id}")

    async def _stopped(self, spawner: Any, previous: Lease) -> None:
        try:
            await spawner.poll_and_notify()
        finally:
            self._notifying.discard(previous.lease_id)

    # --- and starts on the new one ---

    def _start(self, user: User, lease: Lease) -> None:
        """As JupyterHub's own start, without a request and without its limit of concurrent ones:
        these servers have run."""
        follow_name(user)  # as before each start; `EC2Spawner` refuses what has another address
        if user.spawners[lease.server]._failed:
            user.spawners.pop(lease.server)
        spawner = user.spawners[lease.server]
        log.info("%s continues under %s", spawner._log_name, lease.lease_id)
        spawner._spawn_pending = True
        starting = spawner._spawn_future = asyncio.ensure_future(self._started(user, lease))

        def over(done: asyncio.Future[None]) -> None:
            # An exception is kept: the page of the failed start shows it.
            if done.cancelled() or done.exception() is None:
                spawner._spawn_future = None
            spawner._spawn_pending = False

        starting.add_done_callback(over)

    async def _started(self, user: User, lease: Lease) -> None:
        spawner = user.spawners[lease.server]
        spawner.continues = lease.lease_id
        try:
            await user.spawn(lease.server, options=self._new_options(lease))
            await self._open(user, spawner)
        except Exception as error:
            # No effect where the spawner's `stop` has ended it, in JupyterHub's own clean-up.
            await self.provisioner.end(lease.lease_id, could_not_continue(error))
            raise
        finally:
            spawner.continues = ""
        RUNNING_SERVERS.inc()
        spawner.add_poll_callback(self._user_stopped, user, lease.server)

    async def _open(self, user: User, spawner: Any) -> None:
        """Let browsers in: log-in and route. What nobody could reach is stopped."""
        spawner._proxy_pending = True
        try:
            await renew_client(spawner)
            await self.app.proxy.add_user(user, spawner.name)
        except Exception:
            log.exception("%s cannot be opened where it continues", spawner._log_name)
            await user.stop(spawner.name)
            raise
        finally:
            spawner._proxy_pending = False

    async def _user_stopped(self, user: User, name: str) -> None:
        """JupyterHub's poll has found the server stopped."""
        await self.app.proxy.delete_user(user, name)
        await user.stop(name)

    def _new_options(self, lease: Lease) -> dict[str, Any] | None:
        """Those of other hardware, for JupyterHub to keep; None leaves the server's own."""
        try:
            return self.service.seal.open(lease.sealed_start).user_options
        except SealBroken:
            return None  # its claim fails, and says so
