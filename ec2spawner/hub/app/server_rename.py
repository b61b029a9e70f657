"""Renames a server in our records when JupyterHub does: its home, retained instance and runs."""

from __future__ import annotations

import logging

from tornado.web import HTTPError

from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.provisioner import Provisioner
from ...provisioner.store.store import StoreError

log = logging.getLogger(__name__)


async def rename_server(
    provisioner: Provisioner, home_kind: str, user: str, server: str, new: str
) -> None:
    """Move the records of a stopped server to its new name.

    Raises `HTTPError` if that is not possible: JupyterHub then keeps the old name.
    """
    if reason := _why_not(provisioner, home_kind, user, server, new):
        raise HTTPError(409, f"The server cannot be renamed: {reason}")
    home = provisioner.homes.of(user, server)
    try:
        await provisioner.rename_retained(user, server, new)
        if (
            home is not None
        ):  # last: if JupyterHub keeps the old name, the files must still be under it
            await provisioner.homes.rename(home, new)
    except StoreError as error:
        log.error("%s/%s could not be renamed: %s", user, server, error)
        raise HTTPError(
            503,
            "The hub cannot write to its database, so the server keeps its name. Try again later",
        ) from error
    try:
        await provisioner.runs.move(user, server, new)
    except StoreError as error:  # it holds nevertheless, and each pass retries
        log.error("The runs of %s/%s, now %s, are not stored yet: %s", user, server, new, error)
    if home is not None:
        provisioner.spawn(_tag(provisioner), f"tags of {home.home_id}")


def _why_not(provisioner: Provisioner, home_kind: str, user: str, server: str, new: str) -> str:
    """Why a server cannot get the new name, for people; empty if it can."""
    if home_kind == "efs":
        return (
            "its files are on EFS, in a folder named after the server. Create a server with "
            "the new name and copy the files there"
        )
    if provisioner.lease_of(user, server) is not None:
        return "it is still stopping. Try again in a minute"
    home = provisioner.homes.of(user, server)
    if home is not None and home.move is not None:
        return "its files are being moved to another zone. Start the server once, then try again"
    if provisioner.homes.of(user, new) is not None:
        return (
            f"the files of an earlier server named {new!r} are kept. Choose another name, or "
            "create a server with that name to see them"
        )
    return ""


async def _tag(provisioner: Provisioner) -> None:
    try:
        await provisioner.homes.list_volumes()
    except (CloudError, StoreError) as error:
        log.warning("The tags of a renamed home are set after the next listing: %s", error)
