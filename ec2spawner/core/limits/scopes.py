"""Whom a limit binds, and who pays for a lease. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ..ledger.cost_rows import HUB, user_payer


def group_scope(group: str) -> str:
    """`group:research`."""
    return f"group:{group}"


def project_scope(project: str) -> str:
    """`project:nlp`."""
    return f"project:{project}"


def scopes_of(user: str, payer: str = "") -> tuple[str, ...]:
    """The scopes that a lease counts against: its user, a payer that is not the user, the hub.

    `payer` empty is the user.
    """
    own = user_payer(user)
    return (own, HUB) if payer in {"", own} else (own, payer, HUB)


@dataclass(frozen=True, slots=True)
class Members:
    """Who may charge leases to a project."""

    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Payers:
    """Who may pay for leases, as the admin configured it."""

    user: bool = True
    """Whether users may pay for themselves when a group or a project could."""
    groups: tuple[str, ...] = ()
    """JupyterHub groups that pay for their members."""
    projects: Mapping[str, Members] = field(default_factory=dict)

    @property
    def deciding_groups(self) -> frozenset[str]:
        """The groups whose members may choose a payer because they are members."""
        return frozenset(self.groups).union(*(each.groups for each in self.projects.values()))

    def of(self, account: str, name: str, groups: Collection[str]) -> tuple[str, ...]:
        """The payers that a user of this name and these groups may choose; the first one is the
        default.

        Groups first, then projects, the user last. Empty if none may pay for this user.
        """
        found = [group_scope(name) for name in self.groups if name in groups]
        found += [
            project_scope(project)
            for project, members in self.projects.items()
            if name in members.users or not members.groups.isdisjoint(groups)
        ]
        return (*found, user_payer(account)) if self.user else tuple(found)
