"""What a user chose for their home: its size, a move to another zone, or a new volume.

A move and a new volume happen once, with the start for which they were chosen.
"""

from __future__ import annotations

import logging

from ...config import Options, Profile
from ...core.profiles.choices import Choice
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.error_hints import describe_error
from ...provisioner.model.leases.lease import Home
from ...provisioner.provisioner import Provisioner
from ..app.spawn_error import SpawnError

log = logging.getLogger(__name__)

EMPTY = "empty"
"""The value of `replace_home` for a new, empty home."""


async def apply_home_choice(
    provisioner: Provisioner, user: str, server: str, choice: Choice[Profile], options: Options
) -> None:
    """Begin the chosen move, or replace the lost volume.

    Raises `SpawnError` if that is not possible, or a temporary home would hide files; and
    `StoreError`.
    """
    if choice.temporary_seconds is not None:
        _require_no_files(provisioner, user, server)
    if not (choice.move_home or choice.replace_home):
        return
    home = provisioner.homes.of(user, server) if options.home.kind == "ebs" else None
    if home is None and choice.replace_home == EMPTY and copies_home(options, server):
        return  # it begins empty: see `begin_copy`
    if home is None:
        raise SpawnError(
            "move_home and replace_home need a home on an EBS volume, and this server has none. "
            "Leave them out",
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
            f"Your home cannot be changed as you chose: {error.message}",
            reason="home",
            status_code=503 if error.retryable else 400,
        ) from error


def _require_no_files(provisioner: Provisioner, user: str, server: str) -> None:
    home = provisioner.homes.of(user, server)
    if home is not None and not home.is_temporary:
        raise SpawnError(
            "temporary: this server has a home with files. Start a server of another user or "
            "name, or leave it out",
            reason="options",
        )


def copies_home(options: Options, server: str) -> bool:
    """Whether a new home of this server begins as a copy of the default server's."""
    return server != "" and options.home.kind == "ebs" and options.home.named_servers == "copy"


async def begin_copy(
    provisioner: Provisioner, user: str, server: str, choice: Choice[Profile], options: Options
) -> None:
    """Where the hub copies homes, let this server's first one begin as a copy, unless its user
    chose an empty one or it is temporary. Where it copies none any more, a copy that was not made
    yet is given up: the home begins empty.

    Raises `SpawnError` if EC2 cannot be asked whether there is a home, and `StoreError`.
    """
    if choice.replace_home == EMPTY or choice.temporary_seconds is not None:
        return
    if not copies_home(options, server):
        home = provisioner.homes.of(user, server) if options.home.kind == "ebs" else None
        if home is not None and home.is_being_copied:
            await provisioner.homes.delete(home)
        return
    wanted = choice.home_gib or options.home.size_gib
    try:
        await provisioner.homes.begin_copy(user, server, wanted)
    except CloudError as error:
        raise SpawnError(
            f"The home of your default server cannot be copied: {describe_error(error)}",
            reason="home",
            status_code=503 if error.retryable else 400,
        ) from error


async def _move(provisioner: Provisioner, home: Home, zone: str, options: Options) -> None:
    if options.home.move == "never":
        raise SpawnError("move_home: this hub does not move homes. Leave it out", reason="options")
    if zone not in provisioner.market.zones.all():
        known = ", ".join(provisioner.market.zones.all())
        raise SpawnError(
            f"move_home: this hub does not use that zone. Send one of: {known}", reason="options"
        )
    await provisioner.homes.move(home, zone)


def home_size_gib(
    provisioner: Provisioner, user: str, server: str, choice: Choice[Profile], options: Options
) -> int:
    """The size of the home in GiB: the chosen one, else its current one, else the default."""
    if choice.home_gib is not None:
        return choice.home_gib
    home = provisioner.homes.of(user, server) if options.home.kind == "ebs" else None
    return max(options.home.size_gib, home.size_gib if home else 0)


async def release_home(provisioner: Provisioner, user: str, server: str) -> None:
    """Called when a user or one of their servers is deleted in JupyterHub. Raises `StoreError`."""
    home = provisioner.homes.of(user, server)
    if home is None:
        return
    if not (provisioner.settings.home.delete_forever or home.is_temporary):
        log.info(
            "%s/%s was deleted in JupyterHub; the home %s is kept and continues to cost money. "
            'c.EC2Spawner.home = {"delete_forever": True} would delete it',
            user,
            server,
            home.volume_id,
        )
        return
    log.warning(
        "%s/%s was deleted in JupyterHub; deleting the home %s", user, server, home.volume_id
    )
    await provisioner.homes.delete(home)
