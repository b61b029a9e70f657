"""Lets the provisioner know what the instances of the warm pool would be."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from ...config import Options, Profile
from ...core.profiles.choices import MARKETS_OF, Choice
from ...provisioner.model.cloud.launch import LaunchSpec
from ...provisioner.provisioner import Provisioner
from ...provisioner.runtime.supervise import Supervised
from ..app.spawn_error import SpawnError
from .launch_spec import current_image, launch_spec

log = logging.getLogger(__name__)

INTERVAL: Final = 15.0
"""Seconds between two looks at the image and at what the zones offer. Both are in memory, and a
start takes what is new at once: until then no instance of the pool fits it."""

TYPES_TIMEOUT: Final = 60.0
"""Seconds after the hub's start for EC2 to say which types it has. With the bundled table alone the
instances that wait may fit no place, and would be replaced."""


@dataclass(frozen=True, slots=True)
class PoolSpecs:
    """What a start of each profile of the pool with default choices would launch."""

    options: Options
    provisioner: Provisioner
    hub_api_url: str

    async def run(self) -> None:
        """Run until cancelled."""
        supervised = Supervised("What the warm pool wants")
        if self.provisioner.pool.profiles:
            await self._types_read()
        while True:
            with supervised:
                await self.refresh()
            await self.provisioner.pool.specs_wanted(INTERVAL)

    async def refresh(self) -> None:
        """Say it once. While no image is known nothing is said: the pool stays as it is, though
        after a restart for 5 minutes only."""
        pool, homes_bind = self.provisioner.pool, self.options.home.kind == "ebs"
        if not (profiles := pool.profiles) or callable(self.options.profile_list):
            pool.set_specs({}, {}, homes_bind=homes_bind)
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
        pool.set_specs(specs, problems, homes_bind=homes_bind)

    async def _types_read(self) -> None:
        """Return when EC2 has said which types it has, or has not in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TYPES_TIMEOUT):
                while self.provisioner.market.catalogue.read_at is None:
                    await asyncio.sleep(0.5)


def _default(profile: Profile) -> Choice[Profile]:
    """What a user gets who chooses nothing but the profile."""
    return Choice(profile, MARKETS_OF[profile.market])
