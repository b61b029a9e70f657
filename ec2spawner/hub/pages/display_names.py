"""Display names of servers and profiles, for pages whose calls of the API name them by slugs."""

from __future__ import annotations

from jupyterhub import orm
from sqlalchemy.orm import Session

from ...config import Options

Names = dict[str, dict[str, str] | dict[str, dict[str, str]]]


def display_names(db: Session, options: Options | None, user: str = "") -> Names:
    """`profiles`: slug -> name; `servers`: user -> server -> name, of this user or of all. For
    JupyterHub's event loop: one query.

    Only names that differ from the slug, and those of now: a page that is left open shows the slug
    of a server that is made later. Profiles that are a function of the user are not known.
    """
    query = db.query(orm.User.name, orm.Spawner.name, orm.Spawner.display_name)
    query = query.join(orm.Spawner, orm.Spawner.user_id == orm.User.id)
    query = query.filter(orm.Spawner.name != "", orm.Spawner.display_name != orm.Spawner.name)
    if user:
        query = query.filter(orm.User.name == user)
    servers: dict[str, dict[str, str]] = {}
    for owner, server, name in query:
        servers.setdefault(owner, {})[server] = name
    profiles = {each.slug: each.display_name for each in options.profiles} if options else {}
    return {"profiles": profiles, "servers": servers}
