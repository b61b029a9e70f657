"""Which packets pass between an instance and the hub, and how its processes learn it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from . import packet_filter_on_instance

HUB_ADDRESS = "127.0.0.1"
"""Where hub and proxy are, and from where they connect to notebooks."""

Ports = tuple[tuple[int, int], ...]
"""Ranges of TCP ports, both ends included."""

ALL: Ports = ((0, 65535),)


@dataclass(frozen=True, slots=True)
class Passage:
    """What subnets and security groups of hub and instance let pass between them."""

    inbound: Ports
    """The instance's ports that the hub reaches."""
    outbound: tuple[Ports, Ports]
    """The hub's ports that the instance may call, and those that the hub admits."""

    @property
    def is_open(self) -> bool:
        """Whether everything passes."""
        return self.inbound == ALL and self.outbound == (ALL, ALL)


OPEN = Passage(ALL, (ALL, ALL))
SHUT = Passage((), ((), ()))


def install(folder: Path) -> None:
    """Write what the Pythons of instances with a closed port start with."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(packet_filter_on_instance.__file__, folder / "sitecustomize.py")


def environment(
    passage: Passage, address: str, unfiltered: Collection[int], folder: Path
) -> dict[str, str]:
    """The variables of an instance's processes; none where everything passes.

    `unfiltered` are ports of AWS: the metadata service and S3.
    """
    if passage.is_open:
        return {}
    rules = {
        "address": address,
        "hub": HUB_ADDRESS,
        "inbound": passage.inbound,
        "outbound": passage.outbound,
        "unfiltered": sorted(unfiltered),
    }
    return {packet_filter_on_instance.VARIABLE: json.dumps(rules), "PYTHONPATH": str(folder)}
