"""Images, and how one is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class ImageQuery:
    """Which image to boot; exactly one of `image_id`, `name` and `parameter` is set."""

    image_id: str = ""
    name: str = ""
    """A pattern with `*`; the newest match counts."""
    owners: tuple[str, ...] = ()
    """Accounts whose images match a name: ids, `self` or `amazon`."""
    parameter: str = ""
    """Name of an SSM parameter that holds an image's id."""
    architecture: str = "x86_64"


@dataclass(frozen=True, slots=True)
class Image:
    """An AMI, as EC2 shows it."""

    image_id: str
    name: str = ""
    created_at: datetime | None = None
    """UTC."""
    architecture: str = ""
    root_device: str = ""
    driver: str = ""
    """Version of the NVIDIA driver, where the image says it; else empty."""
    root_gib: int = 0
    """Size of the snapshot of its root disk, in GiB: EC2 refuses a smaller disk. 0 is unknown."""
