"""Lets the provisioner know what the instances of the warm pool would be."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from ...config import Options, Profile
from ...core.profiles.choices import MARKETS_OF, Choice
from ...provisioner.model.cloud import LaunchSpec
from ...provisioner.provisioner import Provisioner
from ...provisioner.runtime.supervise import Supervised
from ..app.spawn_error import SpawnError
from .launch_spec import current_image, launch_spec

log = logging.getLogger(__name__)

INTERVAL: Final = 15.0
"""Seconds between two looks at the image and at what the zones offer. Both are in memory, and a
start takes what is new at once: until then no instance of the pool fits it."""


@dataclass(frozen=True, slots=True)
class PoolSpecs:
    """What a start of each profile of the pool with default choices would launch."""

    options: Options
    provisioner: Provisioner
    hub_api_url: str

    async def run(self) -> None:
        """Run until cancelled."""
        supervised = Supervised("What the warm pool wants")
        while True:
            with supervised:
                await self.refresh()
            await self.provisioner.pool.specs_wanted(INTERVAL)

    async def refresh(self) -> None:
        """Say it once. While no image is known nothing is said, and the pool stays as it is."""
        pool = self.provisioner.pool
        if not (profiles := pool.profiles) or callable(self.options.profile_list):
            return
        try:
            image = await current_image(self.provisioner)
        except SpawnError as error:
            log.warning("The warm pool stays as it is: %s", error.jupyterhub_message)
            return
        specs: dict[str, LaunchSpec] = {}
        problems: dict[str, str] = {}
        for profile in self.options.profiles:
            if profile.slug not in profiles:
                continue
            try:
                specs[profile.slug] = launch_spec(
                    _default(profile),
                    tuple(self.options.subnets),
                    image,
                    self.options,
                    self.provisioner,
                    self.hub_api_url,
                )
            except SpawnError as error:
                problems[profile.slug] = error.jupyterhub_message
        wanted = {name for spec in specs.values() for name in spec.instance_types}
        self.provisioner.market.want(wanted)
        homes_bind = self.options.home.kind == "ebs"
        pool.set_specs(specs, problems, homes_bind=homes_bind)


def _default(profile: Profile) -> Choice[Profile]:
    """What a user gets who chooses nothing but the profile."""
    return Choice(profile, MARKETS_OF[profile.market])
