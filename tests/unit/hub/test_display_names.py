"""Names of servers and profiles on pages."""

from __future__ import annotations

from jupyterhub import orm

from ec2spawner.hub.pages.display_names import display_names

from .test_cluster_refusal import options_with


def test_pages_know_the_names_of_servers_and_profiles() -> None:
    db = orm.new_session_factory("sqlite:///:memory:")()
    for user in ("ann", "bob"):
        db.add(orm.User(name=user))
    db.commit()
    named = (("ann", "lab-x1", "My lab"), ("ann", "", ""), ("bob", "lab", "lab"), ("bob", "a", "A"))
    for user, server, name in named:
        owner = db.query(orm.User).filter_by(name=user).one()
        db.add(orm.Spawner(name=server, display_name=name, user=owner))
    db.commit()
    options = options_with()
    found = display_names(db, options)
    assert found["servers"] == {"ann": {"lab-x1": "My lab"}, "bob": {"a": "A"}}
    assert found["profiles"] == {each.slug: each.display_name for each in options.profiles}
    assert display_names(db, None, "bob") == {"profiles": {}, "servers": {"bob": {"a": "A"}}}
