"""Who pays for the homes of users, also of those who are not logged in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from jupyterhub import orm
from sqlalchemy.orm import Session

from ...core.limits.scopes import Payers

MAX_NAMED_USERS = 100
"""Users whom a query names: all of a hub may be more than a database takes as parameters."""


def default_payers(
    payers: Payers, db: Callable[[], Session]
) -> Callable[[Collection[str]], Mapping[str, str]]:
    """User -> the payer that the spawn page would choose first, of users who have one.

    `db` returns JupyterHub's session, which is used in its event loop only. One query reads the
    names of the members, because loading a thousand users takes a second.
    """

    def of(users: Collection[str]) -> Mapping[str, str]:
        groups = _groups(db(), payers.deciding_groups, users) if payers.deciding_groups else {}
        found = {user: payers.of(user, groups.get(user, ())) for user in users}
        return {user: choices[0] for user, choices in found.items() if choices}

    return of


def user_names(db: Session) -> Sequence[str]:
    """The names of all users, for JupyterHub's event loop: one query of one column."""
    return [name for (name,) in db.query(orm.User.name)]


def _groups(
    db: Session, deciding: Collection[str], users: Collection[str]
) -> Mapping[str, Collection[str]]:
    """User -> names of those of the `deciding` groups that they are members of."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    query = db.query(orm.User.name, orm.Group.name).select_from(orm.Group).join(orm.Group.users)
    query = query.filter(orm.Group.name.in_(deciding))
    if len(users) <= MAX_NAMED_USERS:
        query = query.filter(orm.User.name.in_(users))
    # JupyterHub may be in the middle of a change: reading must not write half of it.
    with db.no_autoflush:
        for user, group in query:
            found[user].add(group)
    return found
