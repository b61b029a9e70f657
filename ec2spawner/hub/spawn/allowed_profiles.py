"""Which profiles a user may start: all of the list, or those that are open to their groups."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ...config import Options, Profile
from ...core.ledger.cost_rows import user_payer
from ...core.profiles.choices import Choice, OptionsRefused, apply_user_options
from ...provisioner.model.leases.costs import payer_of
from ...provisioner.model.leases.lease import Lease
from . import server_options
from .server_options import result_of

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner

log = logging.getLogger(__name__)


async def allowed_profiles(options: Options, spawner: Spawner) -> tuple[Profile, ...]:
    """The profiles of `options` that the server's user may start; `options` are `options_for`'s."""
    groups = {group.name for group in spawner.user.groups}
    deadline = asyncio.get_running_loop().time() + server_options.HOOK_TIMEOUT
    return tuple([p for p in options.profiles if await _is_allowed(p, spawner, groups, deadline)])


async def _is_allowed(
    profile: Profile, spawner: Spawner, groups: set[str], deadline: float
) -> bool:
    """By a list of groups or by a function; a function that fails allows no profile."""
    if not callable(profile.groups):
        return not profile.groups or not groups.isdisjoint(profile.groups)
    try:
        async with asyncio.timeout_at(deadline):
            return bool(await result_of(profile.groups(spawner)))
    except Exception:
        log.exception(
            "The function `groups` of profile %s failed for %s, so the profile is not offered",
            profile.slug,
            spawner._log_name,
        )
        return False


async def choose(
    options: Options, account: str, spawner: Spawner, user_options: Mapping[str, object]
) -> Choice[Profile]:
    """What a user's options mean, from the form, REST or an earlier start; `options` are
    `options_for`'s. Raises `OptionsRefused`."""
    allowed = await allowed_profiles(options, spawner)
    sizes = options.home.user_may_choose if options.home.kind == "ebs" else None
    own, by_name = user_payer(account), user_payer(spawner.user.name)
    payers = [by_name if x == own else x for x in payers_of(options, account, spawner)]
    if user_options.get("payer") == own:
        user_options = {**user_options, "payer": by_name}
    choice = apply_user_options(options.profiles, allowed, user_options, sizes, payers)
    return replace(choice, payer=own) if choice.payer == by_name else choice


def payers_of(options: Options, account: str, spawner: Spawner) -> tuple[str, ...]:
    """Who may pay for the server of this user, the default first; empty if nobody may."""
    groups = {group.name for group in spawner.user.groups}
    return options.payers.payers().of(account, spawner.user.name, groups)


def payer_from(server: Lease, options: Options, spawner: Spawner) -> str:
    """Who pays for what this server asks for: the server's own payer and no other of the user's,
    because everyone with access to the server can ask. Raises `OptionsRefused` if the user may no
    longer charge it."""
    own = payer_of(server)
    if own not in payers_of(options, server.user, spawner):
        shown = user_payer(spawner.user.name) if own == user_payer(server.user) else own
        raise OptionsRefused(
            f"payer: this server is charged to {shown}, which may not pay for it any more. Stop "
            "the server and start it again, with another payer"
        )
    return own
