"""Times of a start, and what names an image."""

from __future__ import annotations

from collections.abc import Iterator

from ..options import Options
from ..problem import Problem
from .beside import JupyterHubOptions


def start_problems(options: Options, hub: JupyterHubOptions) -> Iterator[Problem]:
    """Timeouts that another one is always before, and owners of an image with an id."""
    limit = hub.start_timeout
    for name in ("boot_timeout", "ready_timeout"):
        seconds = getattr(options, name)
        if limit is not None and seconds > limit:
            yield Problem(
                f"c.EC2Spawner.{name}",
                f"{seconds:g} s are never over: JupyterHub gives up a start after "
                f"c.EC2Spawner.start_timeout, {limit:g} s",
                f"c.EC2Spawner.start_timeout = {seconds + 300:.0f}, or shorten {name}",
            )
    image = options.image
    if "owners" in image.model_fields_set and not image.name:
        named = "id" if image.id else "parameter"
        yield Problem(
            "c.EC2Spawner.image.owners",
            f'is for images that are found by "name", and "{named}" names one',
            'leave it out, or write "name": "notebooks-*" instead',
        )
