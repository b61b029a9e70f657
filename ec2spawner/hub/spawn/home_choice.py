"""What a user chose for their home: its size, a move to another zone, or a new volume.

A move and a new volume happen once, with the start for which they were chosen.
"""

from __future__ import annotations

import logging

from ...config import Options, Profile
from ...core.profiles.choices import Choice
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.error_hints import describe_error
from ...provisioner.model.leases.home_change import HomeChange
from ...provisioner.model.leases.lease import Home
from ...provisioner.model.leases.run import deleted_server
from ...provisioner.provisioner import Provisioner
from ..app.spawn_error import SpawnError

log = logging.getLogger(__name__)

EMPTY = "empty"
"""The value of `replace_home` for a new, empty home."""


async def plan_home(
    provisioner: Provisioner, user: str, server: str, choice: Choice[Profile], options: Options
) -> HomeChange:
    """What a start changes of its server's home, once it is admitted.

    Raises `SpawnError` if the choice is not possible, a temporary home would hide files, or EC2
    cannot be asked; and `StoreError`.
    """
    if choice.temporary_seconds is not None:
        _require_no_files(provisioner, user, server)
    home = provisioner.homes.of(user, server) if options.home.kind == "ebs" else None
    begins_empty = choice.replace_home == EMPTY and copies_home(options, server)
    if (choice.move_home or choice.replace_home) and not (home is None and begins_empty):
        change = await _chosen_change(provisioner, home, choice, options)
        if change.before != change.after:
            return change
    return await _first_home(provisioner, user, server, home, choice, options)


async def _chosen_change(
    provisioner: Provisioner, home: Home | None, choice: Choice[Profile], options: Options
) -> HomeChange:
    """The chosen move, or a new volume in the place of the lost one."""
    if home is None:
        raise SpawnError(
            "move_home and replace_home need a home on an EBS volume, and this server has none. "
            "Leave them out",
            reason="options",
        )
    if not choice.replace_home:
        return _move(provisioner, home, choice.move_home or "", options)
    try:
        snapshot_id = "" if choice.replace_home == EMPTY else choice.replace_home
        return await provisioner.homes.plan_replacement(home, snapshot_id)
    except CloudError as error:
        raise SpawnError(
            f"Your home cannot be changed as you chose: {error.message}",
            reason="home",
            status_code=503 if error.retryable else 400,
        ) from error


async def _first_home(
    provisioner: Provisioner,
    user: str,
    server: str,
    home: Home | None,
    choice: Choice[Profile],
    options: Options,
) -> HomeChange:
    """Plan a server's first home as a copy where the hub copies homes, unless its user chose an
    empty one or it is temporary.

    Where the hub copies none any more, a copy that was not made yet is given up: the home begins
    empty.
    """
    if choice.replace_home == EMPTY or choice.temporary_seconds is not None:
        return HomeChange(home, home)
    if not copies_home(options, server):
        if home is not None and home.is_being_copied:
            return provisioner.homes.plan_deletion(home)
        return HomeChange(home, home)
    wanted = choice.home_gib or options.home.size_gib
    try:
        return await provisioner.homes.plan_copy(user, server, wanted)
    except CloudError as error:
        raise SpawnError(
            f"This home cannot begin as a copy of another one: {describe_error(error)}",
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


def _move(provisioner: Provisioner, home: Home, zone: str, options: Options) -> HomeChange:
    if options.home.move == "never":
        raise SpawnError("move_home: this hub does not move homes. Leave it out", reason="options")
    if zone not in provisioner.market.zones.all():
        known = ", ".join(provisioner.market.zones.all())
        raise SpawnError(
            f"move_home: this hub does not use that zone. Send one of: {known}", reason="options"
        )
    return provisioner.homes.plan_move(home, zone)


async def release_home(provisioner: Provisioner, home_kind: str, user: str, server: str) -> None:
    """Called when a user or one of their servers is deleted in JupyterHub. Raises `StoreError`.

    Where its files are not kept, a new server of the name reaches none of its runs.
    """
    home = provisioner.homes.of(user, server)
    if home is None:
        if home_kind != "efs":  # there the folder stays
            await provisioner.runs.move(user, server, deleted_server(server))
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
    await provisioner.runs.move(user, server, deleted_server(server))
