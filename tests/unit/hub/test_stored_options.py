"""The options that JupyterHub stores for later starts, in its own database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from jupyterhub import orm
from sqlalchemy.orm import Session

from ec2spawner.config import validate_options
from ec2spawner.hub.app import service
from ec2spawner.hub.app.spawn_error import SpawnError
from ec2spawner.hub.security.sealed_start import Seal
from ec2spawner.hub.spawn.user_options import drop_one_time_options, resolve
from ec2spawner.spawner import EC2Spawner
from tests.user_accounts import bare_accounts, fake_user


@pytest.fixture
def db() -> Iterator[Session]:
    session = orm.new_session_factory("sqlite:///:memory:")()
    yield session
    session.close()


def spawner_with(db: Session, options: dict[str, Any]) -> EC2Spawner:
    """As JupyterHub has it when it calls `start`: what was sent is stored."""
    user = orm.User(name="ada")
    stored = orm.Spawner(name="", user=user, user_options=options)
    db.add_all([user, stored])
    db.commit()
    return EC2Spawner(user=fake_user("ada"), db=db, orm_spawner=stored, user_options=options)


def stored_options(db: Session) -> object:
    """After another request of the hub has failed."""
    db.rollback()
    return db.query(orm.Spawner).one().user_options


def test_options_for_one_start_are_never_stored(db: Session) -> None:
    spawner = spawner_with(
        db, {"profile": "t4", "replace_home": "empty", "afresh": True, "session": "fresh"}
    )
    drop_one_time_options(spawner)
    assert stored_options(db) == {"profile": "t4"}
    assert spawner.user_options == {"profile": "t4"}


@pytest.fixture(autouse=True)
def _no_hub_is_left() -> Iterator[None]:
    yield
    service.publish(None)


async def test_refused_options_are_never_stored(db: Session) -> None:
    spawner = spawner_with(db, {"profile": "no-such-profile"})
    options = validate_options(
        {"region": "us-east-1", "subnets": ["subnet-1"], "profile_list": spawner.profile_list},
        cleanup_servers=False,
        environ={},
    )
    accounts = bare_accounts()
    running = service.HubService(options, Seal(b"x" * 32), verifier=None, accounts=accounts)
    service.publish(running)
    with pytest.raises(SpawnError):
        await resolve(spawner, spawner.user_options)
    assert stored_options(db) == {}
