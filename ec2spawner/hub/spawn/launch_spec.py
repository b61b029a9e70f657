"""What instance a choice asks for: of a start, and of a place of the warm pool."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ...config import Options, Profile
from ...core.profiles.choices import Choice
from ...core.profiles.ebs_volumes import why_no_volumes
from ...core.profiles.profiles import InstanceType, resolve
from ...provisioner.model.cloud.cloud import CloudError
from ...provisioner.model.cloud.image import Image
from ...provisioner.model.cloud.launch import DataVolume, LaunchSpec
from ...provisioner.offers.instance_types import Catalogue
from ...provisioner.provisioner import Provisioner
from ..app.spawn_error import SpawnError
from .user_data import user_data


class NotOfferedInHomeZone(SpawnError):
    """The zone of the home does not offer the profile or has no subnet; another zone may."""


def launch_spec(
    choice: Choice[Profile],
    subnets: tuple[str, ...],
    image: Image,
    options: Options,
    provisioner: Provisioner,
    hub_api_url: str,
) -> LaunchSpec:
    """What is launched for a choice in one of these subnets. Equal choices give equal specs, so
    that an instance of the pool serves a start.

    Raises `SpawnError` if no zone of the hub offers the profile, and `NotOfferedInHomeZone` if only
    a zone without one of the subnets does.
    """
    profile = choice.profile
    spec = LaunchSpec(
        instance_types=(),
        subnets=subnets,
        image_id=image.image_id,
        markets=choice.markets,
        max_usd_per_hour=choice.max_usd_per_hour,
        # A newer image may have grown.
        disk_gib=max(asked_disk_gib(choice, options), image.root_gib),
        security_groups=options.security_groups,
        instance_profile=options.instance_profile,
        key_name=options.key_name,
        user_data=user_data(hub_api_url, options.agent_package),
        data_volumes=tuple(
            DataVolume(each.snapshot, each.path) for each in options.data_volumes_of(profile)
        ),
    )
    types = _types(provisioner, profile, options, provisioner.market.zones.of(spec))
    return replace(spec, instance_types=types)


def asked_disk_gib(choice: Choice[Profile], options: Options) -> int:
    """Size of the root disk in GiB, as it is chosen or configured."""
    return choice.disk_gib or options.disk(choice.profile)


async def current_image(provisioner: Provisioner) -> Image:
    """The image that instances boot. Raises `SpawnError` if none has been found yet."""
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


def _types(
    provisioner: Provisioner, profile: Profile, options: Options, zones: Collection[str]
) -> tuple[str, ...]:
    """The instance types of the profile in these zones, best first. Raises `SpawnError` if none."""
    catalogue = provisioner.market.catalogue
    # Profiles that a function returns are first seen here.
    catalogue.want(profile.instance_types)
    volumes = options.volumes_of(profile)
    types = _fitting(catalogue, profile, options.architecture, zones, volumes)
    if types:
        return types
    without = _fitting(catalogue, profile, options.architecture, zones, 0)
    if without:
        why = _why_no_volumes(catalogue, without[0], volumes)
        raise SpawnError(
            f"{why}. Choose another profile, or ask {options.contact} for other instance types",
            reason="volumes",
        )
    if profile.instance_types:
        machine = f"called {' or '.join(profile.instance_types)}"
    else:
        machine = f"with {profile.gpu_count} × {profile.gpu}" if profile.gpu else "of this size"
    said = f"EC2 does not offer a machine {machine} in {' or '.join(sorted(zones))}"
    error = SpawnError
    everywhere = provisioner.market.zones.all()
    if _fitting(catalogue, profile, options.architecture, everywhere, volumes):
        said += ", where your files are; another zone of this hub offers one"
        error = NotOfferedInHomeZone
    raise error(
        f"{said}. Choose another profile, or ask {options.contact} for help",
        reason="not-offered",
    )


def _fitting(
    catalogue: Catalogue,
    profile: Profile,
    architecture: str,
    zones: Collection[str],
    volumes: int,
) -> tuple[str, ...]:
    """Types of the profile that at least one of the zones offers, and that can have so many EBS
    volumes beside their own disk, as far as is known."""

    def is_here(name: str) -> bool:
        return any(catalogue.is_offered(name, zone) for zone in zones)

    known = catalogue.types
    if profile.instance_types:
        # Types that EC2 has not described yet are accepted: CreateFleet will refuse wrong ones.
        suits = [x for x in profile.instance_types if _runs(known.get(x), architecture)]
        able = [x for x in suits if not _why_no_volumes(catalogue, x, volumes)]
        return tuple(name for name in able if is_here(name))
    here = {name: kind for name, kind in known.items() if is_here(name)}
    return tuple(kind.name for kind in resolve(profile, here, architecture, volumes))


def _runs(kind: InstanceType | None, architecture: str) -> bool:
    return kind is None or kind.architecture == architecture


def _why_no_volumes(catalogue: Catalogue, name: str, volumes: int) -> str:
    kind = catalogue.types.get(name)
    return why_no_volumes(name, kind.max_volumes if kind else None, volumes)
