"""Who pays for users by their groups of now, also for those who are not logged in."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Set

from jupyterhub import orm
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from ...core.limits.scopes import Payers, group_scope, project_scope
from ...provisioner.state.user_accounts import UserAccounts
from .user_account import MAX_NAMED_USERS, names_now

log = logging.getLogger(__name__)


def default_payers(
    payers: Payers, db: Callable[[], Session], name_of: Callable[[str], str]
) -> Callable[[Collection[str]], Mapping[str, str]]:
    """Account -> the payer that the spawn page would choose first, of users who have one.

    `db` returns JupyterHub's session, which is used in its event loop only. One query reads the
    names of the members, because loading a thousand users takes a second. `name_of` says what an
    account is called at JupyterHub.
    """

    def of(accounts: Collection[str]) -> Mapping[str, str]:
        names = {account: name_of(account) for account in accounts}
        deciding = payers.deciding_groups
        groups = _groups(db(), deciding, names.values()) if deciding else {}
        found = {
            account: payers.of(account, name, groups.get(name, ()))
            for account, name in names.items()
        }
        return {account: choices[0] for account, choices in found.items() if choices}

    return of


def lost_payers(
    payers: Payers, db: Callable[[], Session], accounts: UserAccounts
) -> Callable[[Collection[tuple[str, str]]], Set[tuple[str, str]]]:
    """Returns, of pairs of an account and a payer, those that the user may no longer charge.

    Only of payers that are still configured, and of users whom JupyterHub knows, by whatever name:
    one who was deleted, or a database that does not answer, ends no server.
    """
    configured = {*map(group_scope, payers.groups), *map(project_scope, payers.projects)}

    def of(charges: Collection[tuple[str, str]]) -> Set[tuple[str, str]]:
        asked = {charge for charge in charges if charge[1] in configured}
        if not asked:
            return set()
        try:
            names = names_now(db(), accounts, {account for account, _ in asked})
            groups = _groups(db(), payers.deciding_groups, names.values())
        except SQLAlchemyError as error:
            log.warning("Who may charge which payer is not known now: %s", error)
            return set()

        def may(account: str, payer: str) -> bool:
            name = names.get(account)
            return name is None or payer in payers.of(account, name, groups.get(name, ()))

        return {charge for charge in asked if not may(*charge)}

    return of


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
