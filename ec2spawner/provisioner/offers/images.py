"""The AMI that instances boot, looked up once a day and not at each start."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.image import Image
from ..state.state import State

log = logging.getLogger(__name__)

MAX_AGE = timedelta(days=1)
"""Age after which the image is looked up again. AWS publishes Deep Learning AMIs every one to two
weeks."""

RETRY_AFTER = timedelta(minutes=5)
"""Until a failed look-up is repeated, while the old image remains in use."""

TIMEOUT = 5.0
"""Seconds that a start waits for a newer image when it could use the old one."""


class ImageCache:
    """The newest image that matches the configuration."""

    def __init__(self, state: State, cloud: Cloud) -> None:
        self._cloud = cloud
        self._query = state.settings.image
        self._clock = state.clock
        self._image: Image | None = None
        self._lookup_due: datetime | None = None
        self._task: asyncio.Task[Image] | None = None

    @property
    def known(self) -> Image | None:
        """The image found last, whatever its age; None before the first look-up succeeds."""
        return self._image

    async def current(self) -> Image:
        """The image to boot. Concurrent starts share one look-up.

        The old image remains in use if a look-up fails or is slow. Raises `CloudError` if no image
        has been found yet.
        """
        old = self._image
        if old is None:
            return await asyncio.shield(self._lookup())
        if self._lookup_due is None or self._clock.now() >= self._lookup_due:
            await asyncio.wait({self._lookup()}, timeout=TIMEOUT)
        return self._image or old

    def doubt(self, image_id: str) -> None:
        """Drop an image that EC2 says does not exist: the next start looks it up again."""
        if self._image is not None and self._image.image_id == image_id:
            self._image = None

    async def close(self) -> None:
        """End the current look-up."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _lookup(self) -> asyncio.Task[Image]:
        """The current look-up. It continues if a start that waits for it is cancelled."""
        if self._task is None:
            self._task = asyncio.create_task(self._find(), name="ec2spawner image")
            self._task.add_done_callback(self._lookup_done)
        return self._task

    async def _find(self) -> Image:
        image = await self._cloud.find_image(self._query)
        if self._image is None or self._image.image_id != image.image_id:
            log.info("Instances boot %s (%s)", image.image_id, image.name or "without a name")
        self._image, self._lookup_due = image, self._clock.now() + MAX_AGE
        return image

    def _lookup_done(self, task: asyncio.Task[Image]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is None or self._image is None:
            return  # the error is raised to the starts that wait for the first image
        self._lookup_due = self._clock.now() + RETRY_AFTER
        if not isinstance(error, CloudError):
            log.error("Looking up the image failed", exc_info=error)
        else:
            log.warning(
                "Looking up the image failed, continuing with %s: %s", self._image.image_id, error
            )
