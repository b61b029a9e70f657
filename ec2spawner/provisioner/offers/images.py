"""Which image instances boot: looked up once a day, not once for each start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from ..model.cloud import (
    Cloud,
    CloudError,
    Image,
    ImageQuery,
)

log = logging.getLogger(__name__)

KEPT_FOR = timedelta(days=1)
"""AWS publishes Deep Learning AMIs every one to two weeks."""

RETRY_AFTER = timedelta(minutes=5)
"""Until a look-up that failed is repeated, while an old image serves on."""

TIMEOUT = 5.0
"""Seconds that a start waits for a newer image where it could have the old one."""


class ImageCache:
    """The newest image that the configuration means."""

    def __init__(self, cloud: Cloud, query: ImageQuery, *, now: Callable[[], datetime]) -> None:
        self._cloud = cloud
        self._query = query
        self._now = now
        self._image: Image | None = None
        self._ask_again_at: datetime | None = None
        self._looking: asyncio.Task[Image] | None = None

    @property
    def known(self) -> Image | None:
        """What was found last, however long ago; None before the first answer."""
        return self._image

    async def current(self) -> Image:
        """The image to boot. Starts that come at once share one look-up.

        An old one serves on where a newer look-up fails or takes long. Raises `CloudError` where
        there is none yet.
        """
        old = self._image
        if old is None:
            return await asyncio.shield(self._look_up())
        if self._ask_again_at is None or self._now() >= self._ask_again_at:
            await asyncio.wait({self._look_up()}, timeout=TIMEOUT)
        return self._image or old

    def doubt(self, image_id: str) -> None:
        """EC2 says that this image is gone: the next start looks for its successor first."""
        if self._image is not None and self._image.image_id == image_id:
            self._image = None

    def _look_up(self) -> asyncio.Task[Image]:
        """The one look-up under way; it goes on when a start that waits for it is cancelled."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._find(), name="ec2spawner image")
            self._looking.add_done_callback(self._looked_up)
        return self._looking

    async def _find(self) -> Image:
        image = await self._cloud.find_image(self._query)
        if self._image is None or self._image.image_id != image.image_id:
            log.info("Instances boot %s (%s)", image.image_id, image.name or "without a name")
        self._image, self._ask_again_at = image, self._now() + KEPT_FOR
        return image

    def _looked_up(self, task: asyncio.Task[Image]) -> None:
        self._looking = None
        error = None if task.cancelled() else task.exception()
        if error is None or self._image is None:
            return  # whoever waits for the first image is told by the error itself
        self._ask_again_at = self._now() + RETRY_AFTER
        if not isinstance(error, CloudError):
            log.error("Looking the image up failed", exc_info=error)
        else:
            log.warning(
                "Looking the image up failed, %s serves on: %s", self._image.image_id, error
            )
