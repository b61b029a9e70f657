"""Who pays for the homes of users, also of those who are not logged in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence

from jupyterhub import orm
from sqlalchemy.orm import Session

from ...core.limits.scopes import Payers


def default_payers(
    payers: Payers, db: Callable[[], Session]
) -> Callable[[Collection[str]], Mapping[str, str]]:
    """User -> the payer that the spawn page would choose first, of users who have one.

    `db` returns JupyterHub's session, which is used in its event loop only. One query reads the
    names of all members, because loading a thousand users takes a second.
    """

    def of(users: Collection[str]) -> Mapping[str, str]:
        groups = _groups(db()) if payers.depend_on_groups else {}
        found = {user: payers.of(user, groups.get(user, ())) for user in users}
        return {user: choices[0] for user, choices in found.items() if choices}

    return of


def user_names(db: Session) -> Sequence[str]:
    """The names of all users, for JupyterHub's event loop: one query of one column."""
    return [name for (name,) in db.query(orm.User.name)]


def _groups(db: Session) -> Mapping[str, Collection[str]]:
    """User -> names of their groups."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    query = db.query(orm.User.name, orm.Group.name).select_from(orm.Group).join(orm.Group.users)
    for user, group in query:
        found[user].add(group)
    return found
