"""All that a lease mounts: the home, which it cannot do without, and the rest, which it can.

They are mounted at the same time. At the end the home goes first: it is what must not be lost,
and nothing is mounted within it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Protocol

from ...wire import LeaseGrant
from ..command import run
from ..metadata.identity import Identity
from ..settings import Settings
from .data_volume import DataVolume
from .efs import EfsHome
from .home import Home
from .instance_store import Scratch
from .mount_points import MountError
from .s3_bucket import Bucket

log = logging.getLogger(__name__)

FLUSH_SECONDS = 20.0
"""For one flush: the release of the home waits for one that is under way."""

RELEASE_SECONDS = 20.0
"""For all but the home together: the hub waits for the end of a lease, for a limited time."""


class Mount(Protocol):
    """Something to mount besides the home; a server starts without what fails."""

    name: str
    """For people."""

    async def mount(self) -> None:
        """Raises `MountError`."""

    async def release(self) -> None:
        """Raises `MountError` when it was still in use."""


class Mounts:
    """The mounts of one lease. `mount` once, then `release` once."""

    def __init__(self, grant: LeaseGrant, settings: Settings, identity: Identity) -> None:
        self._home: Home | EfsHome
        self._home_path = str(settings.user.home)
        self._home_lasts = grant.home.kind != "none"
        self._can_be_flushed = False
        self._flushing = asyncio.Lock()
        if grant.home.kind == "efs":
            region = json.loads(identity.document)["region"]
            self._home = EfsHome(grant.home, settings, region)
        else:
            self._home = Home(grant.home, settings.devices, settings.user)
        self._scratch = Scratch(grant.scratch, settings) if grant.scratch else None
        self._others: list[Mount] = [
            *(DataVolume(each, settings) for each in grant.data),
            *(Bucket(each, settings) for each in grant.buckets),
            *([self._scratch] if self._scratch else []),
        ]
        self.missing: list[str] = []
        """What could not be mounted, in words for the user, who works without it."""

    async def mount(self) -> None:
        """Raises `HomeError`. What else cannot be mounted is in `missing`."""
        others = [asyncio.create_task(self._try(each), name=each.name) for each in self._others]
        try:
            await self._home.mount()
            self._can_be_flushed = self._home_lasts
            await asyncio.gather(*others)
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the notebook: SCRATCH, if there is one."""
        place = self._scratch.place if self._scratch else None
        return {"SCRATCH": str(place)} if place else {}

    async def flush(self) -> None:
        """Write down what is in the home, while it is in use: the machine may go at any moment."""
        async with self._flushing:
            if not self._can_be_flushed:
                return
            argv = ("sync", "--file-system", self._home_path)
            status, said = await run(*argv, seconds=FLUSH_SECONDS)
            if status != 0:
                log.error("the home was not written down: %s", said)

    async def release(self) -> None:
        """Write down and let go of everything; the user's processes must be gone.

        Raises `HomeError` when the home is still in use; its data is flushed even then.
        """
        async with self._flushing:  # or that would still use it
            self._can_be_flushed = False
        try:
            await self._home.release()
        finally:
            try:
                async with asyncio.timeout(RELEASE_SECONDS):
                    await asyncio.gather(*map(self._let_go, self._others))
            except TimeoutError:
                log.error("some mounts were not let go of in %.0f s", RELEASE_SECONDS)

    async def _try(self, mount: Mount) -> None:
        try:
            await mount.mount()
        except (MountError, OSError) as error:
            log.error("%s is missing: %s", mount.name, error)
            self.missing.append(f"{mount.name} is missing: {error}")

    async def _let_go(self, mount: Mount) -> None:
        try:
            await mount.release()
        except (MountError, OSError) as error:
            log.error("%s was still in use and was detached anyway: %s", mount.name, error)
