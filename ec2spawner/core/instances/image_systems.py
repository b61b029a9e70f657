"""What a stock image's operating system brings: its Python and its user. Pure.

Versions are those of the distributions' own `python3`. AWS's Deep Learning AMIs name their system
in the image's name, such as "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 2026...",
and in the name of their SSM parameter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MIN_PYTHON: Final = (3, 11)
"""The oldest Python that ec2spawner runs on."""


@dataclass(frozen=True, slots=True)
class ImageSystem:
    """An operating system that AWS publishes images of."""

    name: str
    python: tuple[int, int]
    """Of its `python3`."""
    user: str
    """The one who logs in by ssh, and whose home notebooks have."""
    installs_newer_python: bool = True
    """Whether its own packages have a Python that is new enough."""

    @property
    def has_python(self) -> bool:
        """Whether ec2spawner runs on its `python3`."""
        return self.python >= MIN_PYTHON

    @property
    def works(self) -> bool:
        """Whether ec2spawner can be installed on it at boot."""
        return self.has_python or self.installs_newer_python


_SYSTEMS: Final = (
    (r"ubuntu[ -]?(?:server )?26\.04|resolute", ImageSystem("Ubuntu 26.04", (3, 14), "ubuntu")),
    (r"ubuntu[ -]?(?:server )?24\.04|noble", ImageSystem("Ubuntu 24.04", (3, 12), "ubuntu")),
    (r"ubuntu[ -]?(?:server )?22\.04|jammy", ImageSystem("Ubuntu 22.04", (3, 10), "ubuntu")),
    (
        r"ubuntu[ -]?(?:server )?20\.04|focal",
        ImageSystem("Ubuntu 20.04", (3, 8), "ubuntu", installs_newer_python=False),
    ),
    (
        r"amazon[ -]linux[ -]2023|al2023",
        ImageSystem("Amazon Linux 2023", (3, 9), "ec2-user"),
    ),
    (
        r"amazon[ -]linux[ -]2(?!\d)|amzn2-|\bal2\b",
        ImageSystem("Amazon Linux 2", (3, 7), "ec2-user", installs_newer_python=False),
    ),
)


def image_system(*texts: str) -> ImageSystem | None:
    """By an image's name, its description and its SSM parameter, in this order; None if none of
    them names a system of this table."""
    for text in texts:
        for pattern, system in _SYSTEMS:
            if re.search(pattern, text, re.I):
                return system
    return None
