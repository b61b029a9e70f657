"""EC2 on a laptop: moto's records, a gateway in front of them, an instance runtime behind.

`EmbeddedEC2` runs in an event loop; `python -m ec2spawner.embedded` runs it as a program.
"""

from __future__ import annotations

from .server import EmbeddedEC2, Facts

__all__ = ["EmbeddedEC2", "Facts"]
