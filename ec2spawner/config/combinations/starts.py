"""Times of a start, and what names an image."""

from __future__ import annotations

from collections.abc import Iterator

from ..options import Options
from ..problem import Problem
from .beside import JupyterHubOptions


def start_problems(options: Options, hub: JupyterHubOptions) -> Iterator[Problem]:
    """Timeouts that another one is always before, and owners of an image with an id."""
    limit = hub.start_timeout
    longer = {
        name: seconds
        for name in ("boot_timeout", "ready_timeout")
        if limit is not None and (seconds := getattr(options, name)) > limit
    }
    if longer:
        names = " and ".join(f"{name} ({seconds:g} s)" for name, seconds in longer.items())
        yield Problem(
            "c.EC2Spawner.start_timeout",
            f"{limit:g} s, after which JupyterHub gives up a start, are over before {names}, which "
            "then has no effect",
            f"c.EC2Spawner.start_timeout = {max(longer.values()) + 300:.0f}, or shorten the other",
        )
    image = options.image
    if "owners" in image.model_fields_set and not image.name:
        named = "id" if image.id else "parameter"
        yield Problem(
            "c.EC2Spawner.image.owners",
            f'is for images that are found by "name", and "{named}" names one',
            'leave it out, or write "name": "notebooks-*" instead',
        )
