"""Keeps the addresses of a user's servers in step with the user's name.

A server has its user's name in its address and in the permissions that its visitors need, from its
start to its end, and JupyterHub's object of a user has the address of the name with which it was
made. JupyterHub changes neither when it renames a user, see `docs/reference/upstream.md`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from jupyterhub.spawner import Spawner
from jupyterhub.user import User
from jupyterhub.utils import url_path_join

from ...provisioner.model.leases.lease import LIVE
from ...provisioner.provisioner import Provisioner
from ...wire import Stop
from .user_account import lease_of

RENAMED: Final = Stop(
    reason="hub",
    message="Your account was renamed, and this server still had the earlier name in its address",
    sleep="user",
)
"""The end of a server at whose address JupyterHub no longer finds it."""

STILL_STARTED: Final = (
    "A server of this account still runs under the account's earlier name, and is stopped within a "
    "minute. Try again then"
)


def why_not(provisioner: Provisioner, user: User) -> str:
    """Why a user cannot get another name now, for people; empty if that is possible.

    A running server would keep the old name: its owner could no longer log in there, and the next
    user of that name could.
    """
    running = [
        found.display_name or name or "the default server"
        for name, found in sorted(user.orm_spawners.items())
        if _runs(provisioner, user, name)
    ]
    if not running:
        return ""
    return (
        f"{user.name} cannot be renamed while servers run, because they have the name in their "
        f"address and their log-in. Stop first: {', '.join(running)}"
    )


def _runs(provisioner: Provisioner, user: User, name: str) -> bool:
    """Whether a server runs or starts; JupyterHub does not know those that move just then."""
    if name in user.spawners and user.spawners[name].active:
        return True
    lease = lease_of(provisioner, user, name)
    return lease is not None and lease.state in LIVE


def follow_name(user: User) -> bool:
    """Let servers start at the address of the name that their user has now.

    False while other servers run at that of an earlier name.
    """
    base_url = url_path_join(user.settings.get("base_url", "/"), "user", user.escaped_name) + "/"
    if user.base_url == base_url:
        return True
    if user.active:
        return False
    user.base_url = user.prefix = base_url
    user.spawners.clear()  # their routes have the earlier name
    return True


def has_other_address(spawner: Spawner) -> bool:
    """Whether a server runs at an address that is not the one of its user's name and its own."""
    if spawner.server is None:
        return False
    names = [spawner.user.name, *([spawner.name] if spawner.name else [])]
    return not unquote(spawner.server.base_url).endswith(f"/user/{'/'.join(names)}/")
