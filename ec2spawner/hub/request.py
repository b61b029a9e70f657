"""From what a user picked to a lease on the waiting list."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from ..config import Options, Profile
from ..core.profiles import apply_user_options
from ..provisioner.cloud import LaunchSpec
from ..provisioner.keys import launch_key_of
from ..provisioner.lease import Lease, LeaseState
from ..provisioner.provisioner import Provisioner


class NowhereToStart(Exception):
    """The home's zone has no configured subnet any more."""


@dataclass(frozen=True, slots=True)
class Server:
    """Whose server, and which of theirs."""

    user: str
    name: str


def chosen_profile(
    options: Options, user_options: Mapping[str, object], groups: Collection[str]
) -> Profile:
    """The profile that form, REST or stored options mean. Raises `OptionsRefused`."""
    return apply_user_options(options.profile_list, user_options, groups)


def user_data(hub_api_url: str) -> str:
    """The same for every instance of a launch spec, and no secret: where the hub is.

    The agent is a unit of its own: cloud-init can finish, and at a shutdown the agent gets SIGTERM
    and the time to let go of the home. A notebook that runs out of memory does not end it.
    """
    return (
        "#!/bin/bash\n"
        "exec systemd-run --unit=ec2spawner-agent --collect"
        " --property=KillMode=mixed --property=TimeoutStopSec=60 --property=OOMPolicy=continue"
        " --property=EnvironmentFile=-/etc/ec2spawner/agent.env"
        f" ec2spawner-agent --hub-api-url {shlex.quote(hub_api_url)}\n"
    )


def new_lease(
    lease_id: str,
    server: Server,
    profile: Profile,
    *,
    options: Options,
    provisioner: Provisioner,
    hub_api_url: str,
    sealed_start: str,
    now: datetime,
) -> Lease:
    """A lease without an instance. Raises `NowhereToStart`."""
    spec = LaunchSpec(
        instance_types=tuple(kind.name for kind in options.instance_types(profile)),
        subnets=_subnets(provisioner, server, options.home.kind),
        image_id=options.image,
        markets=profile.markets,
        disk_gib=options.disk(profile),
        security_groups=options.security_groups,
        instance_profile=options.instance_profile,
        key_name=options.key_name,
        user_data=user_data(hub_api_url),
    )
    return Lease(
        lease_id=lease_id,
        user=server.user,
        server=server.name,
        profile=profile.slug,
        profile_name=profile.display_name,
        spec=spec,
        launch_key=launch_key_of(spec),
        home_kind=options.home.kind,
        home_gib=options.home.size_gib,
        idle=options.idle_policy(profile),
        state=LeaseState.WAITING,
        requested_at=now,
        sealed_start=sealed_start,
    )


def _subnets(provisioner: Provisioner, server: Server, home_kind: str) -> tuple[str, ...]:
    subnets = provisioner.subnets_for(server.user, server.name, home_kind=home_kind)
    if not subnets:
        home = provisioner.homes.of(server.user, server.name)
        raise NowhereToStart(
            f"Your files are in zone {home.zone if home else 'unknown'}, and this hub has no "
            "subnet there any more. Ask an admin to add one to c.EC2Spawner.subnets"
        )
    return subnets
