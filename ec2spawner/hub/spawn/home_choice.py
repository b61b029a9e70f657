"""What a user chose of their home: its size, a move to another zone, a new one for a lost one.

A move and a new volume happen once, by the start for which they were chosen, and by no later one.
"""

from __future__ import annotations

import logging

from ...config import Options, Profile
from ...core.profiles.choices import Choice
from ...provisioner.model.cloud import CloudError
from ...provisioner.model.lease import Home
from ...provisioner.provisioner import Provisioner
from ..app.spawn_error import SpawnError

log = logging.getLogger(__name__)

EMPTY = "empty"
"""What `replace_home` says for a new home without files."""


async def apply_home_choice(
    provisioner: Provisioner, user: str, server: str, choice: Choice[Profile], options: Options
) -> None:
    """Let the move or the new volume begin that was chosen.

    Raises `SpawnError` for what cannot be, `StoreError`.
    """
    if not (choice.move_home or choice.replace_home):
        return
    home = provisioner.homes.of(user, server) if options.home.kind == "ebs" else None
    if home is None:
        raise SpawnError(
            "move_home and replace_home: this server has no home on a volume. Leave them out",
            reason="options",
        )
    try:
        if choice.replace_home:
            snapshot_id = "" if choice.replace_home == EMPTY else choice.replace_home
            await provisioner.homes.replace_gone(home, snapshot_id)
        else:
            await _move(provisioner, home, choice.move_home or "", options)
    except CloudError as error:
        raise SpawnError(
            f"That cannot be done with your home: {error.message}",
            reason="home",
            status_code=503 if error.retryable else 400,
        ) from error


async def _move(provisioner: Provisioner, home: Home, zone: str, options: Options) -> None:
    if options.home.move == "never":
        raise SpawnError("move_home: homes do not move on this hub. Leave it out", reason="options")
    if zone not in provisioner.market.zones.all():
        known = ", ".join(provisioner.market.zones.all())
        raise SpawnError(
            f"move_home: this hub uses no such zone. Send one of: {known}", reason="options"
        )
    await provisioner.homes.move(home, zone)


def home_size_gib(
    provisioner: Provisioner, user: str, server: str, choice: Choice[Profile], options: Options
) -> int:
    """How large the home shall be, in GiB: what was chosen; else what it is, or the default."""
    if choice.home_gib is not None:
        return choice.home_gib
    home = provisioner.homes.of(user, server) if options.home.kind == "ebs" else None
    return max(options.home.size_gib, home.size_gib if home else 0)


async def release_home(provisioner: Provisioner, user: str, server: str) -> None:
    """A user or one of their servers is deleted for good. Raises `StoreError`."""
    home = provisioner.homes.of(user, server)
    if home is None:
        return
    if not provisioner.settings.home.delete_forever:
        log.info(
            "%s/%s is deleted in JupyterHub; the home %s is kept, and costs money. "
            'c.EC2Spawner.home = {"delete_forever": True} would delete it',
            user,
            server,
            home.volume_id,
        )
        return
    log.warning(
        "%s/%s is deleted in JupyterHub, and so is the home %s", user, server, home.volume_id
    )
    await provisioner.homes.delete(home)
