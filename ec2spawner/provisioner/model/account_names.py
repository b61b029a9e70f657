"""What the users are called under whose keys everything is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TypeVar

from ...core.ledger.cost_rows import user_payer
from ...core.names import tag_value
from .user_account import UserAccount

T = TypeVar("T")


class AccountNames:
    """Accounts by key and by name. A name is that of the account which was last seen under it."""

    def __init__(self, accounts: Iterable[UserAccount] = ()) -> None:
        self._found: dict[str, UserAccount] = {}
        """By key."""
        self._current: dict[str, str] = {}
        """Name -> key."""
        for account in sorted(accounts, key=lambda each: each.named_at):
            self._put(account)

    def __contains__(self, key: object) -> bool:
        """Whether an account with this key was ever seen."""
        return key in self._found

    def name(self, key: str) -> str:
        """What a user is called, for display: the name at JupyterHub, with the id where another
        account has that name by now."""
        account = self._found.get(key)
        if account is None or self._current.get(account.name) == key:
            return account.name if account else key
        return account.former_name

    def named(self, name: str) -> str | None:
        """The key of who is displayed so. A name that was never seen is its own key; None for one
        that nobody has any more."""
        if (key := self._current.get(name)) is not None:
            return key
        former = (each for each in self._found.values() if self._current.get(each.name) != each.key)
        found = next((each.key for each in former if each.former_name == name), None)
        return found if found or name in self._found else name

    def namesakes(self, key: str) -> Sequence[str]:
        """The keys of earlier accounts that were last seen under the name of this one."""
        account = self._found.get(key)
        every = self._found.values() if account else ()
        return [x.key for x in every if account and x.name == account.name and x.key != key]

    def tagged(self, tags: Set[str]) -> Mapping[str, str]:
        """Tag -> key, of users whose name is in these tags: EC2 does not allow each name as it
        is."""
        if not tags:
            return {}
        found = ((tag_value(self.name(key)), key) for key in self._found)
        return {tag: key for tag, key in found if tag in tags}

    def scope(self, scope: str) -> str:
        """A limit's scope or a payer, such as `user:ann`, as it is displayed."""
        kind, _, key = scope.partition(":")
        return user_payer(self.name(key)) if kind == "user" else scope

    def by_account(self, named: Mapping[str, T]) -> dict[str, T]:
        """What is configured by payer or scope, such as `user:ann`, by those of the accounts."""
        return {self._scope_of(scope): value for scope, value in named.items()}

    def _scope_of(self, scope: str) -> str:
        kind, _, name = scope.partition(":")
        key = self.named(name) if kind == "user" else None
        return scope if key is None else user_payer(key)

    def renamed(self) -> Mapping[str, str]:
        """Key -> name, of those that are displayed otherwise than their key says."""
        names = ((key, self.name(key)) for key in self._found)
        return {key: name for key, name in names if key != name}

    def _put(self, account: UserAccount) -> None:
        before = self._found.get(account.key)
        if before and before.name != account.name and self._current.get(before.name) == account.key:
            del self._current[before.name]
        self._found[account.key] = account
        current = self._found.get(self._current.get(account.name, ""))
        if current is None or current.named_at <= account.named_at:
            self._current[account.name] = account.key
