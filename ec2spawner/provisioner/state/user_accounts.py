"""Whose is what: the accounts of JupyterHub's users, in memory and in the store."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from ...core.instances.retention_rules import Kept
from ...core.limits.admission import Refusal
from ...core.limits.standing import Standing
from ..model.account_names import AccountNames
from ..model.leases.denied_start import DeniedStart
from ..model.leases.lease import Lease
from ..model.leases.run import Run
from ..model.user_account import Claim, Identity, UserAccount
from ..runtime.clock import Clock
from ..store.store import Store

log = logging.getLogger(__name__)

OfUser = TypeVar("OfUser", Lease, Kept, DeniedStart, Run)
OfScope = TypeVar("OfScope", Refusal, Standing)

SUBJECT = "user accounts"
"""Names their writes in the queue."""


class UserAccounts(AccountNames):
    """All accounts that this store has seen. What is recorded under the key of one is its own,
    whatever it is called by now, and no other's that gets its name."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        super().__init__()
        self._by_id: defaultdict[int, list[str]] = defaultdict(list)
        """JupyterHub's id of a user -> keys that its identity can claim."""
        self._numbers: set[str] = set()
        """Those that accounts have already."""
        self._unstored: dict[str, UserAccount] = {}
        """By key: those that differ from the store's."""

    async def load(self) -> None:
        """Take over what an earlier process has stored. Raises `StoreError`."""
        for account in await self._store.user_accounts():
            self._put(account)

    def follow(self, users: Iterable[tuple[Identity, str]]) -> None:
        """Compare with the names of all of JupyterHub's users, as its database has them now.

        If none of the accounts is among them, that database is another one: names decide whose
        everything is, or all of it would be nobody's.
        """
        users = tuple(users)
        known = [each for each in self._found.values() if each.claim is Claim.IDENTITY]
        if known and not any(self._known(identity) for identity, _ in users):
            log.warning(
                "None of the %d users whose servers this hub has had is in JupyterHub's database: "
                "it was made anew. Homes and sessions belong to whoever logs in with their names",
                len(known),
            )
            self._by_id.clear()
            for account in known:
                is_current = self._current.get(account.name) == account.key
                claim = Claim.NAME if is_current else Claim.NOBODY
                self._change(replace(account, claim=claim))
        for identity, name in users:
            self.key(identity, name)

    # --- reading ---

    def key(self, identity: Identity, name: str) -> str:
        """Under which everything of a user is recorded; a new one where they were never seen."""
        account = self._known(identity) or self._added(identity, name)
        if account.name != name:
            log.info("The user %r is called %r now", account.name, name)
            account = replace(account, name=name, named_at=self._clock.now())
            self._change(account)
        return account.key

    def identity(self, key: str) -> Identity | None:
        """Which user of JupyterHub has this key; None where only the name can say so."""
        account = self._found.get(key)
        is_known = account is not None and account.claim is Claim.IDENTITY
        return account.identity if account and is_known else None

    def displayed(self, record: OfUser) -> OfUser:
        """The same record, with what its user is called."""
        name = self.name(record.user)
        return record if name == record.user else replace(record, user=name)

    def displayed_scope(self, record: OfScope) -> OfScope:
        """The same record, with what the user is called whose scope it is."""
        scope = self.scope(record.scope)
        return record if scope == record.scope else replace(record, scope=scope)

    # --- changing ---

    async def hand_over(self, key: str, to: str) -> None:
        """Let the user with the key `to` have what is recorded under another one. What they had
        stays under `to`, and can be handed over as well.

        Raises `StoreError`; then it holds, and each pass retries.
        """
        user, now = self._found[to], self._clock.now()
        self._by_id[user.identity.jupyterhub_id].remove(to)
        self._change(replace(user, claim=Claim.NOBODY))
        got = replace(self._found[key], name=user.name, identity=user.identity)
        self._change(replace(got, named_at=now, claim=Claim.IDENTITY))
        while not self._unstored.keys().isdisjoint({key, to}):  # a write may have begun before
            await self._store.write_behind.flush(SUBJECT)

    def _added(self, identity: Identity, name: str) -> UserAccount:
        """What its name entitles an account to that was never seen: what nobody has claimed, or an
        account of a lost database."""
        current = self._found.get(self._current.get(name, ""))
        if current is not None and current.claim is Claim.NAME:
            account = replace(current, identity=identity, claim=Claim.IDENTITY)
            self._change(account)
            return account
        number = self._new_number(identity)
        key = f"{name}/{number}" if name in self._found else name
        account = UserAccount(key, number, name, identity, self._clock.now())
        self._change(account)
        if earlier := [self.name(each) for each in self.namesakes(key)]:
            log.warning(
                "%r is a new account, and does not get the files of the earlier ones of that name: "
                "%s. An admin can hand them over, see How to, Homes",
                name,
                ", ".join(earlier),
            )
        return account

    def _new_number(self, identity: Identity) -> str:
        """SQLite gives ids again."""
        number, count = str(identity.jupyterhub_id), 1
        while number in self._numbers:
            count += 1
            number = f"{identity.jupyterhub_id}.{count}"
        return number

    def _known(self, identity: Identity) -> UserAccount | None:
        found = (self._found[key] for key in self._by_id.get(identity.jupyterhub_id, ()))
        return next((each for each in found if each.identity.is_same(identity)), None)

    def _change(self, account: UserAccount) -> None:
        """At once in memory; where it cannot be stored, each pass retries."""
        self._put(account)
        self._unstored[account.key] = account
        self._store.write_behind.begin(SUBJECT, self._write)

    def _put(self, account: UserAccount) -> None:
        super()._put(account)
        self._numbers.add(account.number)
        keys = self._by_id[account.identity.jupyterhub_id]
        if account.claim is Claim.IDENTITY and account.key not in keys:
            keys.append(account.key)

    async def _write(self) -> None:
        """In one transaction all that changed before this task began."""
        unstored = dict(self._unstored)
        await self._store.save_user_accounts(tuple(unstored.values()))
        for key, account in unstored.items():
            if self._unstored.get(key) is account:
                del self._unstored[key]
