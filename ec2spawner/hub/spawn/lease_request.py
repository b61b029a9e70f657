"""Turns a user's choice into a lease for the waiting list."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ...config import Options, Profile
from ...core.instances.retention_rules import AfterStop
from ...core.ledger.cost_rows import user_payer
from ...core.names import home_folder
from ...core.offers.spot_wait import Wait, longest_wait
from ...core.profiles.choices import Choice
from ...core.sleep.rules import SleepRules
from ...provisioner.model.launch_key import launch_key_of
from ...provisioner.model.leases.home_change import HomeChange
from ...provisioner.model.leases.lease import Home, Lease, LeaseState
from ...provisioner.model.leases.mounts import Mounts
from ...provisioner.model.shared_values import shared
from ...provisioner.provisioner import Provisioner
from ...wire import BucketMount, HomeMount, IdlePolicy
from .home_choice import plan_home
from .idle_policy import at_most
from .launch_spec import NotOfferedInHomeZone, asked_disk_gib, current_image, launch_spec

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Server:
    """A server of a user; an empty name is the default server."""

    user: str
    name: str


async def new_lease(
    lease_id: str,
    server: Server,
    choice: Choice[Profile],
    *,
    options: Options,
    idle: IdlePolicy,
    sleep: SleepRules,
    provisioner: Provisioner,
    hub_api_url: str,
    sealed_start: str,
    start_timeout: float,
) -> tuple[Lease, HomeChange]:
    """A lease without an instance yet, and what becomes of the server's home with it. Nothing holds
    before both are admitted; JupyterHub expects the server within `start_timeout` seconds.

    Raises `SpawnError` if no zone offers the profile, the image is unknown or the home cannot be
    what was chosen, and `NotOfferedInHomeZone` if the home's zone has no subnet or does not offer
    the profile.
    """
    profile = choice.profile
    image = await current_image(provisioner)
    change = await plan_home(provisioner, server.user, server.name, choice, options)
    subnets = _subnets(provisioner, change.after)
    spec = shared(launch_spec(choice, subnets, image, options, provisioner, hub_api_url))
    if (asked := asked_disk_gib(choice, options)) < spec.disk_gib:
        log.warning(
            "The root disk of %s has %d GiB, so servers of profile %r get that instead of %d GiB: "
            "raise disk_gib",
            image.image_id,
            image.root_gib,
            profile.slug,
            asked,
        )
    lease = Lease(
        lease_id=lease_id,
        user=server.user,
        server=server.name,
        profile=profile.slug,
        profile_name=profile.display_name,
        spec=spec,
        launch_key=launch_key_of(spec),
        home_kind=options.home.kind,
        home_gib=_home_gib(choice, options, change.after),
        idle=idle,
        state=LeaseState.WAITING,
        requested_at=provisioner.now(),
        sealed_start=sealed_start,
        image=image,
        after_stop=shared(options.after_stop_of(profile)),
        sleep=shared(sleep),
        mounts=mounts_of(server, options, profile),
        wait=_wait(choice, provisioner.now(), start_timeout),
        # A user who is renamed still pays.
        payer="" if choice.payer == user_payer(server.user) else choice.payer,
    )
    seconds = choice.temporary_seconds
    return (lease if seconds is None else _temporary(lease, seconds)), change


def _home_gib(choice: Choice[Profile], options: Options, home: Home | None) -> int:
    """The size of the home: the chosen one, else its own, at least the default."""
    return choice.home_gib or max(options.home.size_gib, home.size_gib if home else 0)


def _temporary(lease: Lease, seconds: float) -> Lease:
    """The same for a server of which nothing is left after so many seconds.

    EFS has no folder that the hub could delete: its home is on the instance's own disk then.
    """
    return replace(
        lease,
        home_kind="none" if lease.home_kind == "efs" else lease.home_kind,
        mounts=replace(lease.mounts, efs=None, temporary_home=True),
        idle=at_most(lease.idle, seconds),
        sleep=replace(lease.sleep, save_seconds=0.0),
        after_stop=AfterStop(),
    )


def _wait(choice: Choice[Profile], now: datetime, start_timeout: float) -> Wait | None:
    if not choice.waits:
        return None
    return Wait(now + timedelta(seconds=longest_wait(start_timeout)), choice.otherwise)


def mounts_of(server: Server, options: Options, profile: Profile) -> Mounts:
    """What the instance mounts besides a home on EBS and data volumes."""
    home = options.home
    efs = None
    if home.kind == "efs":
        efs = HomeMount(
            kind="efs",
            file_system=home.file_system,
            access_point=home.access_point,
            directory=f"{home.root}/{home_folder(server.user, server.name)}".lstrip("/"),
            tls=home.tls,
            iam=home.tls and bool(options.instance_profile),
        )
    return Mounts(
        efs=efs,
        buckets=tuple(
            BucketMount(
                bucket=each.bucket, prefix=each.prefix, path=each.path, read_only=each.read_only
            )
            for each in options.buckets_of(profile)
        ),
        scratch=options.scratch or "",
    )


def _subnets(provisioner: Provisioner, home: Home | None) -> tuple[str, ...]:
    subnets = provisioner.homes.subnets_of(home)
    if not subnets:
        raise NotOfferedInHomeZone(
            f"Your files are in zone {home.zone if home else 'unknown'}, and this hub has no "
            "subnet there any more, so your server cannot start. Ask an admin to add one to "
            "c.EC2Spawner.subnets",
            reason="home",
        )
    return subnets
