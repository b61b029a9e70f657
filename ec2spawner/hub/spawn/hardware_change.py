"""A running server that its user continues on other hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ...core.names import lease_id as new_lease_id
from ...core.profiles.choices import ONCE, OptionsRefused
from ...core.sleep.continuation import TakenOver
from ...provisioner.lifecycle.server_moves import CannotMove
from ...provisioner.model.leases.lease import LeaseState
from ...provisioner.provisioner import Provisioner
from ..app.service import HubService
from ..app.user_account import account_of
from .allowed_profiles import choose, payer_from, payers_of
from .idle_policy import policy_of
from .lease_request import Server, new_lease
from .server_options import options_for_page
from .sleep_choice import sleep_environment

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


async def continue_on(
    running: HubService,
    provisioner: Provisioner,
    spawner: Spawner,
    hub_api_url: str,
    user_options: Mapping[str, object],
) -> None:
    """Buy another instance for a running server, which moves there once it is booted.

    The choice is validated and admitted as that of a start; nothing of it is stored before the
    server runs there. Without a `payer` among the options the server keeps its own. Raises
    `CannotMove`, `OptionsRefused`, `ProfileListError`, `SpawnError`, `SealBroken`, `LimitReached`
    and `StoreError`; then the server is left as it is.
    """
    account, name = account_of(provisioner.accounts, spawner.user), spawner.name
    lease = provisioner.lease_of(account, name)
    if lease is None or lease.state is not LeaseState.READY:
        raise CannotMove("this server does not run, or is being stopped")
    if lease.mounts.temporary_home:
        raise CannotMove("this server is temporary, and so are its files; stop it first")
    if once := sorted(user_options.keys() & set(ONCE)):
        raise OptionsRefused(f"{once[0]}: not for a server that continues; stop it first")
    options = await options_for_page(running.options, spawner)
    if "payer" not in user_options:
        # It keeps its payer: also the user, whose default may be a group.
        own = payer_from(lease, options, spawner)
        if len(payers_of(options, account, spawner)) > 1:
            user_options = {"payer": own, **user_options}
    choice = await choose(options, account, spawner, user_options)
    chosen_idle = choice.server_idle_seconds
    idle = await policy_of(options, provisioner, spawner, choice.profile, chosen_idle, choice.payer)
    # What its start left asleep stays asleep.
    rules = replace(options.sleep_rules_of(choice.profile), wake=lease.sleep.wake)
    start = running.seal.open(lease.sealed_start)
    start = replace(
        start,
        environment=start.environment | dict(sleep_environment(rules)),
        user_options=dict(user_options),
    )
    found, home = await new_lease(
        new_lease_id(),
        Server(account, name),
        choice,
        options=options,
        idle=idle,
        sleep=rules,
        provisioner=provisioner,
        hub_api_url=hub_api_url,
        sealed_start=running.seal.close(start),
        start_timeout=spawner.start_timeout,
    )
    over = TakenOver(trigger="hardware")
    # Whoever works meanwhile is not kept waiting for spot: it is there now, or it is not.
    found = replace(found, continues=lease.lease_id, taken_over=over, wait=None)
    await provisioner.moves.begin(found, home)
