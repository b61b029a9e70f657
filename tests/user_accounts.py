"""Users of JupyterHub without a JupyterHub, and accounts without a store."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import quote

from jupyterhub.user import User

from ec2spawner.provisioner.runtime.clock import Clock
from ec2spawner.provisioner.state.user_accounts import UserAccounts
from ec2spawner.provisioner.store.store import Store
from tests.stored import NOW


def bare_accounts(now: Callable[[], datetime] = lambda: NOW) -> UserAccounts:
    """Of users who have not been seen yet; they are stored nowhere."""
    write_behind = SimpleNamespace(begin=lambda subject, write: None)
    return UserAccounts(cast("Store", SimpleNamespace(write_behind=write_behind)), Clock(now))


def fake_user(name: str, *groups: str, **changes: Any) -> Any:
    """A user of JupyterHub; each name has another id."""
    given: dict[str, Any] = {
        "id": zlib.crc32(name.encode()) >> 1,
        "name": name,
        "groups": [SimpleNamespace(name=group) for group in groups],
        "created": None,
        "settings": {},
        "escaped_name": quote(name),
        "base_url": f"/user/{quote(name)}/",
    }
    given |= changes
    return SimpleNamespace(**given, orm_user=SimpleNamespace(created=given["created"]))


class Caller(User):
    """A fake user of JupyterHub's own class, which handlers ask for."""

    def __init__(self, name: str) -> None:
        self.orm_user = fake_user(name)


def fake_users(*users: Any) -> Mapping[int | str, Any]:
    """What finds these users by their names and ids, as JupyterHub's `UserDict`."""
    return {key: user for user in users for key in (user.id, user.name)}
