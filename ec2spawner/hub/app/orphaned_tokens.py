"""Revokes server tokens that JupyterHub has lost track of.

JupyterHub makes a server's token before it calls `start`, and revokes the one that the spawner
knows when the server stops. If the hub is killed in between, nothing records which token it was.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jupyterhub import orm
from jupyterhub.utils import url_escape_path, url_path_join
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner

log = logging.getLogger(__name__)


async def renew_client(spawner: Spawner) -> None:
    """Let a server that continues log users in: the secret of its OAuth client is its own token.

    JupyterHub sets another one before each start, and the server's own after it, but without the
    client's scopes; a hub that is killed in between leaves the other one.
    """
    user, provider = spawner.user, spawner.user.settings.get("oauth_provider")
    if provider is None or not spawner.api_token:
        return
    callback = url_path_join(user.url, url_escape_path(spawner.name), "oauth_callback")
    said = f"Server at {url_path_join(user.base_url, spawner.name, '/')}"
    try:
        scopes = await spawner._get_oauth_client_allowed_scopes()
        provider.add_client(
            spawner.oauth_client_id, spawner.api_token, callback, scopes, description=said
        )
        user.db.commit()
    except (SQLAlchemyError, ValueError, KeyError) as error:
        user.db.rollback()
        log.error("%s may not be able to log users in: %s", spawner._log_name, error)


def revoke_left_tokens(spawner: Spawner) -> None:
    """Revoke every token that was made for this server, which has just stopped."""
    user = spawner.user
    # As `User.spawn` names them.
    base_url = url_path_join(user.base_url, url_escape_path(spawner.name), "/")
    try:
        tokens = user.db.query(orm.APIToken).filter_by(
            user_id=user.orm_user.id, note=f"Server at {base_url}"
        )
        left = tokens.all()
        for token in left:
            user.db.delete(token)
        if left:
            user.db.commit()
            log.info("%s: revoked %d tokens of an earlier start", spawner._log_name, len(left))
    except SQLAlchemyError as error:
        user.db.rollback()
        log.error("Tokens of %s may not have been revoked: %s", spawner._log_name, error)
