"""What the users are called under whose keys everything is recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...core.ledger.cost_rows import user_payer
from ...core.names import tag_value
from .user_account import Claim, UserAccount

T = TypeVar("T")


class AccountNames:
    """Accounts by key and by name. A name is that of the account which was last seen under it."""

    def __init__(self, accounts: Iterable[UserAccount] = ()) -> None:
        self._found: dict[str, UserAccount] = {}
        """By key."""
        self._of_name: defaultdict[str, set[str]] = defaultdict(set)
        """Name -> keys of all that have it."""
        self._current: dict[str, str] = {}
        """Name -> key of the one that is displayed so."""
        for account in accounts:
            self._put(account)

    def __contains__(self, key: object) -> bool:
        """Whether an account with this key was ever seen."""
        return key in self._found

    def name(self, key: str) -> str:
        """What a user is called, for display: the name at JupyterHub, with a number where another
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
        of_name = self._of_name.get(name.rpartition("/")[0], ())
        former = (each for each in of_name if self._found[each].former_name == name)
        found = next((key for key in former if self.name(key) == name), None)
        return found if found or name in self._found else name

    def namesakes(self, key: str) -> Sequence[str]:
        """The keys of other accounts that were last seen under the name of this one, the latest
        last."""
        account = self._found.get(key)
        others = self._of_name[account.name] - {key} if account else set[str]()
        return sorted(others, key=lambda each: self._found[each].named_at)

    def predecessors(self, key: str) -> Sequence[str]:
        """The keys of earlier accounts whose name a user has now: whoever is created again is the
        same to a limit."""
        account = self._found.get(key)
        is_current = account is not None and self._current.get(account.name) == key
        return self.namesakes(key) if is_current else ()

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

    def scope_named(self, scope: str) -> str | None:
        """The scope or payer that is displayed so; None for a user's name that nobody has."""
        kind, _, name = scope.partition(":")
        if kind != "user":
            return scope
        key = self.named(name)
        return None if key is None else user_payer(key)

    def by_account(self, configured: Mapping[str, T]) -> Mapping[str, T]:
        """What is configured by payer or scope, such as `user:ann`, for the account that has the
        name when it is asked for."""
        return _ByAccount(configured, self)

    def renamed(self) -> Mapping[str, str]:
        """Key -> name, of those that are displayed otherwise than their key says."""
        names = ((key, self.name(key)) for key in self._found)
        return {key: name for key, name in names if key != name}

    def _put(self, account: UserAccount) -> None:
        before = self._found.get(account.key)
        self._found[account.key] = account
        if before is not None and before.name != account.name:
            self._of_name[before.name].discard(account.key)
            self._find_current(before.name)
        self._of_name[account.name].add(account.key)
        self._find_current(account.name)

    def _find_current(self, name: str) -> None:
        keys = [x for x in self._of_name[name] if self._found[x].claim is not Claim.NOBODY]
        if keys:
            self._current[name] = max(keys, key=lambda key: (self._found[key].named_at, key))
        else:
            self._current.pop(name, None)


@dataclass(frozen=True, slots=True, eq=False)
class _ByAccount(Mapping[str, T], Generic[T]):
    configured: Mapping[str, T]
    names: AccountNames

    def __getitem__(self, scope: str) -> T:
        return self.configured[self.names.scope(scope)]

    def values(self) -> ValuesView[T]:
        """Those of names that no account has, too: all limits are gone over at each sum."""
        return self.configured.values()

    def __iter__(self) -> Iterator[str]:
        scopes = map(self.names.scope_named, self.configured)
        return (scope for scope in scopes if scope is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
