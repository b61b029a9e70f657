"""All mounts of a lease: the home, which is required, and the others, which are optional.

They are mounted concurrently. At the end the home is unmounted first: it must not be lost, and
nothing is mounted inside it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Protocol

from ...wire import LeaseGrant
from ..command import run
from ..metadata.identity import Identity
from ..settings import Settings
from .data_volume import DataVolume
from .dirty_pages import bound_dirty_pages
from .efs import EfsHome
from .home import Home
from .instance_store import Scratch
from .mount_points import MountError
from .s3_bucket import Bucket

log = logging.getLogger(__name__)

FLUSH_SECONDS = 20.0
"""For one flush: unmounting the home waits for a flush in progress."""

RELEASE_SECONDS = 20.0
"""For all mounts except the home together: the hub waits only `stop_timeout` for a lease's end."""


class Mount(Protocol):
    """An optional mount: the server starts even if it fails."""

    name: str
    """For people."""

    async def mount(self) -> None:
        """Raises `MountError`."""

    async def release(self) -> None:
        """Raises `MountError` if it was still in use."""


class Mounts:
    """The mounts of one lease. `mount` once, then `release` once."""

    def __init__(self, grant: LeaseGrant, settings: Settings, identity: Identity) -> None:
        self._home: Home | EfsHome
        self._grant = grant
        self._root = settings.root
        self._home_path = str(settings.user.home)
        self._home_persists = grant.home.kind != "none"
        # A simulated instance shares its kernel with others.
        self._bounds_dirty_pages = self._home_persists and settings.metadata_is_amazon
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
        """What could not be mounted, as sentences for the user."""

    async def mount(self) -> None:
        """Raises `HomeError`. Failures of other mounts are in `missing`."""
        others = [asyncio.create_task(self._try(each), name=each.name) for each in self._others]
        try:
            if self._bounds_dirty_pages:
                await asyncio.to_thread(bound_dirty_pages)
            await self._home.mount()
            self._can_be_flushed = self._home_persists
            await asyncio.gather(*others)
        finally:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    @property
    def volumes(self) -> tuple[tuple[Path, str, bool], ...]:
        """(folder, the user's path for it, whether it is read-only), for a container."""
        folders = [(each.path, True) for each in self._grant.data]
        folders += [(each.path, each.read_only) for each in self._grant.buckets]
        folders += [(self._grant.scratch, False)] if self._scratch and self._scratch.place else []
        return (
            (Path(self._home_path), self._home_path, False),
            *((place, path, ro) for path, ro in folders if (place := self._place(path)).is_dir()),
        )

    def _place(self, path: str) -> Path:
        """Where the user's path is here: below another root on simulated instances."""
        return self._root.joinpath(path.lstrip("/"))

    @property
    def environment(self) -> dict[str, str]:
        """Variables for the notebook: SCRATCH, if there is an instance store."""
        place = self._scratch.place if self._scratch else None
        return {"SCRATCH": str(place)} if place else {}

    async def flush(self) -> None:
        """Flush the home while it is in use: the instance may be terminated at any moment."""
        async with self._flushing:
            if not self._can_be_flushed:
                return
            argv = ("sync", "--file-system", self._home_path)
            status, output = await run(*argv, seconds=FLUSH_SECONDS)
            if status != 0:
                log.error("the home was not flushed: %s", output)

    async def release(self) -> None:
        """Flush and unmount everything; the user's processes must have ended.

        Raises `HomeError` if the home was still in use; its data is flushed even then.
        """
        async with self._flushing:  # a flush in progress still uses the home
            self._can_be_flushed = False
        try:
            await self._home.release()
        finally:
            try:
                async with asyncio.timeout(RELEASE_SECONDS):
                    await asyncio.gather(*map(self._release, self._others))
            except TimeoutError:
                log.error("some mounts were not unmounted within %.0f s", RELEASE_SECONDS)

    async def _try(self, mount: Mount) -> None:
        try:
            await mount.mount()
        except (MountError, OSError) as error:
            log.error("%s is missing: %s", mount.name, error)
            self.missing.append(f"{mount.name} is missing: {error}")

    async def _release(self, mount: Mount) -> None:
        try:
            await mount.release()
        except (MountError, OSError) as error:
            log.error("%s was still in use when it was unmounted: %s", mount.name, error)
