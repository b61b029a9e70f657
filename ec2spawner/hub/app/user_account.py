"""JupyterHub's users, and what they are called in our records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from jupyterhub import orm
from jupyterhub.user import User, UserDict
from sqlalchemy.orm import Session

from ...provisioner.model.leases.lease import Lease
from ...provisioner.model.user_account import Identity
from ...provisioner.provisioner import Provisioner
from ...provisioner.state.user_accounts import UserAccounts

MAX_NAMED_USERS = 100
"""Users whom a query names: all of a hub may be more than a database takes as parameters."""


def account_of(accounts: UserAccounts, user: User) -> str:
    """Under which everything of a user is recorded, also after a change of the name: see
    `UserAccount.key`."""
    return accounts.key(_identity(user.id, user.orm_user.created), user.name)


def lease_of(provisioner: Provisioner, user: User | None, server: str) -> Lease | None:
    """The newest open lease of a user's server."""
    if user is None:
        return None
    return provisioner.lease_of(account_of(provisioner.accounts, user), server)


def user_of(accounts: UserAccounts, users: UserDict, account: str) -> User | None:
    """The user of JupyterHub whose account it is; None where that was deleted."""
    identity = accounts.identity(account)
    # Without one, only the name says whose it is. The id may be the next user's by now.
    user = users.get(identity.jupyterhub_id if identity else accounts.name(account))
    return user if user is not None and account_of(accounts, user) == account else None


def account_named(accounts: UserAccounts, users: UserDict, name: str) -> str | None:
    """The account of a user, or the one that a deleted user of this name has left; None where
    nobody has the name any more."""
    if (user := users.get(name)) is not None:
        return account_of(accounts, user)
    account = accounts.named(name)
    # A user with another name by now is asked for by that.
    is_left = account is not None and user_of(accounts, users, account) is None
    return account if is_left else None


def names_now(db: Session, accounts: UserAccounts, keys: Collection[str]) -> Mapping[str, str]:
    """Account -> what JupyterHub's database calls its user at this moment, of those that it has,
    for JupyterHub's event loop: a query for each `MAX_NAMED_USERS`, whatever it has besides."""
    identities = {key: each for key in keys if (each := accounts.identity(key)) is not None}
    ids = sorted({each.jupyterhub_id for each in identities.values()})
    found: dict[int, tuple[Identity, str]] = {}
    with db.no_autoflush:  # JupyterHub may be in the middle of a change
        for begin in range(0, len(ids), MAX_NAMED_USERS):
            query = db.query(orm.User.id, orm.User.created, orm.User.name)
            query = query.filter(orm.User.id.in_(ids[begin : begin + MAX_NAMED_USERS]))
            found |= {row[0]: (_identity(row[0], row[1]), row[2]) for row in query}
    known = ((key, each, found.get(each.jupyterhub_id)) for key, each in identities.items())
    return {key: now[1] for key, each, now in known if now and now[0].is_same(each)}


def all_users(db: Session) -> Sequence[tuple[Identity, str]]:
    """The accounts and names of all users, for JupyterHub's event loop: one query."""
    query = db.query(orm.User.id, orm.User.created, orm.User.name)
    return [(_identity(user_id, created), name) for user_id, created, name in query]


def _identity(user_id: int, created: datetime | None) -> Identity:
    return Identity(user_id, created.replace(tzinfo=UTC) if created else None)
