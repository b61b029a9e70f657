"""Turns a user's choice into a lease for the waiting list."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ...config import Options, Profile
from ...core.ledger.cost_rows import user_payer
from ...core.names import home_folder
from ...core.offers.spot_wait import Wait, longest_wait
from ...core.profiles.choices import Choice
from ...core.profiles.profiles import InstanceType, resolve
from ...core.sleep.rules import SleepRules
from ...provisioner.model.cloud import CloudError, DataVolume, Image, LaunchSpec
from ...provisioner.model.launch_key import launch_key_of
from ...provisioner.model.lease import Lease, LeaseState
from ...provisioner.model.mounts import Mounts
from ...provisioner.offers.instance_types import Catalogue
from ...provisioner.provisioner import Provisioner
from ...wire import BucketMount, HomeMount, IdlePolicy
from ..app.spawn_error import SpawnError
from .home_choice import apply_home_choice, home_size_gib
from .user_data import user_data

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Server:
    """A server of a user; an empty name is the default server."""

    user: str
    name: str


class NotOfferedInHomeZone(SpawnError):
    """The zone of the home does not offer the profile or has no subnet; another zone may."""


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
) -> Lease:
    """A lease without an instance yet; JupyterHub expects its server within `start_timeout`
    seconds.

    Raises `SpawnError` if no zone offers the profile or the image is unknown, and
    `NotOfferedInHomeZone` if the home's zone has no subnet or does not offer the profile.
    """
    profile = choice.profile
    image = await _image(provisioner)
    await apply_home_choice(provisioner, server.user, server.name, choice, options)
    spec = LaunchSpec(
        instance_types=(),
        subnets=_subnets(provisioner, server, options.home.kind),
        image_id=image.image_id,
        markets=choice.markets,
        max_usd_per_hour=choice.max_usd_per_hour,
        disk_gib=_disk_gib(choice, options, image),
        security_groups=options.security_groups,
        instance_profile=options.instance_profile,
        key_name=options.key_name,
        user_data=user_data(hub_api_url, options.agent_package),
        data_volumes=tuple(
            DataVolume(each.snapshot, each.path) for each in options.data_volumes_of(profile)
        ),
    )
    types = _types(provisioner, profile, options, provisioner.market.zones.of(spec))
    spec = replace(spec, instance_types=types)
    return Lease(
        lease_id=lease_id,
        user=server.user,
        server=server.name,
        profile=profile.slug,
        profile_name=profile.display_name,
        spec=spec,
        launch_key=launch_key_of(spec),
        home_kind=options.home.kind,
        home_gib=home_size_gib(provisioner, server.user, server.name, choice, options),
        idle=idle,
        state=LeaseState.WAITING,
        requested_at=provisioner.now(),
        sealed_start=sealed_start,
        image=image,
        after_stop=options.after_stop_of(profile),
        sleep=sleep,
        mounts=mounts_of(server, options, profile),
        wait=_wait(choice, provisioner.now(), start_timeout),
        # A user who is renamed still pays.
        payer="" if choice.payer == user_payer(server.user) else choice.payer,
    )


def _disk_gib(choice: Choice[Profile], options: Options, image: Image) -> int:
    """Size of the root disk in GiB, raised to the image's own where a newer image has grown."""
    asked = choice.disk_gib or options.disk(choice.profile)
    if asked < image.root_gib:
        log.warning(
            "The root disk of %s has %d GiB, so servers of profile %r get that instead of %d GiB: "
            "raise disk_gib",
            image.image_id,
            image.root_gib,
            choice.profile.slug,
            asked,
        )
    return max(asked, image.root_gib)


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


def _subnets(provisioner: Provisioner, server: Server, home_kind: str) -> tuple[str, ...]:
    subnets = provisioner.homes.subnets_for(server.user, server.name, home_kind=home_kind)
    if not subnets:
        home = provisioner.homes.of(server.user, server.name)
        raise NotOfferedInHomeZone(
            f"Your files are in zone {home.zone if home else 'unknown'}, and this hub has no "
            "subnet there any more, so your server cannot start. Ask an admin to add one to "
            "c.EC2Spawner.subnets",
            reason="home",
        )
    return subnets


def _types(
    provisioner: Provisioner, profile: Profile, options: Options, zones: Collection[str]
) -> tuple[str, ...]:
    """The instance types of the profile in these zones, best first. Raises `SpawnError` if none."""
    # Profiles that a function returns are first seen here.
    provisioner.market.catalogue.want(profile.instance_types)
    types = _fitting(provisioner.market.catalogue, profile, options.architecture, zones)
    if types:
        return types
    if profile.instance_types:
        machine = f"called {' or '.join(profile.instance_types)}"
    else:
        machine = f"with {profile.gpu_count} × {profile.gpu}" if profile.gpu else "of this size"
    said = f"EC2 does not offer a machine {machine} in {' or '.join(sorted(zones))}"
    error = SpawnError
    if _fitting(
        provisioner.market.catalogue, profile, options.architecture, provisioner.market.zones.all()
    ):
        said += ", where your files are; another zone of this hub offers one"
        error = NotOfferedInHomeZone
    raise error(
        f"{said}. Choose another profile, or ask {options.contact} for help",
        reason="not-offered",
    )


def _fitting(
    catalogue: Catalogue, profile: Profile, architecture: str, zones: Collection[str]
) -> tuple[str, ...]:
    """Types of the profile that at least one of the zones offers, as far as is known."""

    def is_here(name: str) -> bool:
        return any(catalogue.is_offered(name, zone) for zone in zones)

    known = catalogue.types
    if profile.instance_types:
        # Types that EC2 has not described yet are accepted: CreateFleet will refuse wrong ones.
        suits = [x for x in profile.instance_types if _runs(known.get(x), architecture)]
        return tuple(name for name in suits if is_here(name))
    here = {name: kind for name, kind in known.items() if is_here(name)}
    return tuple(kind.name for kind in resolve(profile, here, architecture))


def _runs(kind: InstanceType | None, architecture: str) -> bool:
    return kind is None or kind.architecture == architecture


async def _image(provisioner: Provisioner) -> Image:
    try:
        return await provisioner.market.images.current()
    except CloudError as error:
        advice = (
            "Try again in a minute" if error.retryable else "Tell an admin; the hub's log has more"
        )
        raise SpawnError(
            f"The hub cannot find the image for servers, so none can start. {advice}",
            reason="image",
            log_message=str(error),
            status_code=503,
        ) from error
