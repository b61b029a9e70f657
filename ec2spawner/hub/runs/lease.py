"""The lease of a run whose turn has come, as for a start of its user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...config import Options, Profile
from ...core.instances.retention_rules import AfterStop
from ...core.ledger.cost_rows import user_payer
from ...core.names import lease_id as new_lease_id
from ...core.profiles.choices import Choice
from ...core.sleep.rules import SleepRules
from ...provisioner.model.cloud.launch import LaunchSpec
from ...provisioner.model.launch_key import launch_key_of
from ...provisioner.model.leases.home_change import HomeChange
from ...provisioner.model.leases.lease import Lease
from ...provisioner.model.leases.mounts import Mounts
from ...provisioner.model.leases.run import Run
from ...provisioner.model.leases.worker import without_stop
from ...provisioner.model.shared_values import shared
from ...provisioner.provisioner import Provisioner
from ...wire import Market
from ..app.service import HubService
from ..security.sealed_start import NotebookStart
from ..spawn.allowed_profiles import choose
from ..spawn.idle_policy import policy_of, within_limits
from ..spawn.lease_request import Server, mounts_of, new_lease
from ..spawn.server_options import options_for_page
from .submission import chosen

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner

COMMAND: Final = ("python3", "-P", "-m", "ec2spawner.run_executor")
"""Run by the Python of the image's agent, which is the first on the PATH of its notebooks."""


class WaitsForPrice(Exception):
    """No spot instance costs as little as the run waits for; the message says so."""


async def run_lease(
    running: HubService,
    provisioner: Provisioner,
    spawner: Spawner,
    run: Run,
    environment: Mapping[str, str],
    hub_api_url: str,
) -> tuple[Lease, HomeChange]:
    """The lease of a run's next attempt, by the configuration of now, and what becomes of its home.

    Raises `WaitsForPrice`, `OptionsRefused`, `ProfileListError`, `SpawnError`, `StoreError`.
    """
    options = await options_for_page(running.options, spawner)
    # Named, since without a payer it is the user's default, such as a group.
    payer = run.payer or user_payer(run.user)
    choice = await choose(options, run.user, spawner, chosen(run.profile, payer))
    idle = await policy_of(options, provisioner, spawner, choice.profile, None, choice.payer)
    limits = provisioner.settings.limits
    start = NotebookStart(dict(environment), list(COMMAND), api_token="", base_url="/")
    lease, home = await new_lease(
        new_lease_id(),
        Server(run.user, run.home),
        choice,
        options=options,
        idle=within_limits(without_stop(idle), limits, run.user, choice.payer),
        sleep=SleepRules(save_seconds=0.0, after_interruption="stop"),
        provisioner=provisioner,
        hub_api_url=hub_api_url,
        sealed_start=running.seal.close(start),
        start_timeout=spawner.start_timeout,
    )
    lease = replace(
        lease, run=run.number, after_stop=AfterStop(), mounts=_mounts(run, options, choice)
    )
    price = run.spot_price_at(provisioner.now())
    if price is not None:
        spec = _at_its_price(lease.spec, price, provisioner)
        lease = replace(lease, spec=spec, launch_key=launch_key_of(spec))
    return lease, home


def _mounts(run: Run, options: Options, choice: Choice[Profile]) -> Mounts:
    """A home on EFS is that of the run's own server: it may have several writers."""
    return mounts_of(Server(run.user, run.server), options, choice.profile)


def _at_its_price(spec: LaunchSpec, price: float, provisioner: Provisioner) -> LaunchSpec:
    """Restricted to spot at this price in USD/hour. Raises `WaitsForPrice`."""
    most = min(price, spec.max_usd_per_hour or price)
    restricted = shared(replace(spec, markets=(Market.SPOT,), max_usd_per_hour=most))
    if not provisioner.market.offers.all_for(restricted):
        raise WaitsForPrice(f"Waits for a spot instance at {price:.3f} USD/hour or less")
    return restricted
