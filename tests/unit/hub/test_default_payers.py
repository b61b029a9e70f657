"""Homes are charged to whom their users' servers would be, by JupyterHub's groups of now."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jupyterhub import orm
from sqlalchemy import event
from sqlalchemy.orm import Session

from ec2spawner.core.limits.scopes import Members, Payers
from ec2spawner.hub.app.default_payers import default_payers, lost_payers
from ec2spawner.hub.app.user_account import all_users
from ec2spawner.provisioner.model.user_account import Identity
from ec2spawner.provisioner.state.user_accounts import UserAccounts
from tests.user_accounts import bare_accounts

USERS = ("ada", "bob", "eve", "gone")


@pytest.fixture
def db() -> Iterator[Session]:
    session = orm.new_session_factory("sqlite:///:memory:")()
    ada, bob, eve = (orm.User(name=name) for name in USERS[:3])
    session.add_all([orm.Group(name="lab", users=[ada, bob]), orm.Group(name="class", users=[bob])])
    session.add(eve)
    session.commit()
    yield session
    session.close()


def seen(db: Session) -> UserAccounts:
    """The accounts of all users, and of one who is gone."""
    accounts = bare_accounts()
    for identity, name in [*all_users(db), (Identity(99, None), "gone")]:
        accounts.key(identity, name)
    return accounts


@pytest.mark.parametrize(
    ("payers", "expected"),
    [
        (Payers(), {name: f"user:{name}" for name in USERS}),
        (
            Payers(groups=("class", "lab")),
            {"ada": "group:lab", "bob": "group:class", "eve": "user:eve", "gone": "user:gone"},
        ),
        (
            Payers(projects={"nlp": Members(frozenset({"eve"}), frozenset({"class"}))}),
            {"ada": "user:ada", "bob": "project:nlp", "eve": "project:nlp", "gone": "user:gone"},
        ),
        (Payers(user=False, groups=("lab",)), {"ada": "group:lab", "bob": "group:lab"}),
    ],
)
def test_the_first_choice_of_the_spawn_page_pays(
    db: Session, payers: Payers, expected: dict[str, str]
) -> None:
    assert default_payers(payers, lambda: db, str)(USERS) == expected


def test_a_new_member_is_known_at_once(db: Session) -> None:
    of = default_payers(Payers(groups=("lab",)), lambda: db, str)
    assert of(["eve"]) == {"eve": "user:eve"}
    db.query(orm.Group).filter_by(name="lab").one().users.append(
        db.query(orm.User).filter_by(name="eve").one()
    )
    db.commit()
    assert of(["eve"]) == {"eve": "group:lab"}


def test_one_users_payer_is_found_without_reading_all_members(db: Session) -> None:
    """A hub has thousands, and its event loop waits meanwhile."""
    asked: list[object] = []

    @event.listens_for(db.get_bind(), "before_cursor_execute")
    def note(_c: object, _cursor: object, _sql: str, values: object, *_: object) -> None:
        if values:
            asked.append(values)

    of = default_payers(Payers(groups=("lab",)), lambda: db, str)
    assert of(["bob"]) == {"bob": "group:lab"}
    assert asked == [("lab", "bob")]
    assert of([*USERS, *(f"user{number}" for number in range(200))])["bob"] == "group:lab"
    assert asked[1:] == [("lab",)]


def test_who_leaves_a_group_may_no_longer_charge_it(db: Session) -> None:
    projects = {"nlp": Members(frozenset({"eve"}), frozenset({"class"}))}
    of = lost_payers(Payers(groups=("lab",), projects=projects), lambda: db, seen(db))
    charges = {(user, payer) for user in USERS for payer in ("group:lab", "project:nlp")}
    assert of(charges) == {("ada", "project:nlp"), ("eve", "group:lab")}, "who is gone is unknown"
    assert of({("eve", "group:no-more")}) == set(), "the admin has changed who may pay"
    lab = db.query(orm.Group).filter_by(name="lab").one()
    lab.users.remove(db.query(orm.User).filter_by(name="bob").one())
    db.commit()
    assert of({("ada", "group:lab"), ("bob", "group:lab")}) == {("bob", "group:lab")}


def test_a_rename_ends_nothing(db: Session) -> None:
    of = lost_payers(Payers(groups=("lab",)), lambda: db, seen(db))
    db.query(orm.User).filter_by(name="ada").one().name = "anna"
    db.add(orm.User(name="ada"))
    db.commit()
    assert of({("ada", "group:lab")}) == set()


def test_many_users_are_asked_for_in_several_queries(db: Session) -> None:
    db.add_all([orm.User(name=f"u{number}") for number in range(250)])
    db.commit()
    of = lost_payers(Payers(groups=("lab",)), lambda: db, seen(db))
    charges = {(f"u{number}", "group:lab") for number in range(250)}
    assert of(charges | {("ada", "group:lab"), ("gone", "group:lab")}) == charges


def test_a_database_that_does_not_answer_ends_nothing(db: Session) -> None:
    of = lost_payers(Payers(groups=("lab",)), lambda: db, seen(db))
    orm.Base.metadata.drop_all(db.get_bind())
    assert of({("eve", "group:lab")}) == set()


def test_reading_writes_no_half_of_a_change_of_jupyterhubs(db: Session) -> None:
    db.add(orm.User(name="new"))
    assert default_payers(Payers(groups=("lab",)), lambda: db, str)(["ada"]) == {"ada": "group:lab"}
    assert db.new


def test_the_names_of_all_users_are_read(db: Session) -> None:
    assert {name for _, name in all_users(db)} == {"ada", "bob", "eve"}
