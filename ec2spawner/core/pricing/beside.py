"""What comes with an instance and costs as long as it exists. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Beside:
    """Prices of an instance's own disks and public address, 0 where there is none or its price is
    unknown."""

    disk_usd_per_hour: float = 0.0
    """Of an average month."""
    address_usd_per_hour: float = 0.0

    @property
    def usd_per_hour(self) -> float:
        """Price of disks and address together."""
        return self.disk_usd_per_hour + self.address_usd_per_hour

    @property
    def name(self) -> str:
        """Words for what is paid, after “its”; empty where that is nothing."""
        disk = "disk" if self.disk_usd_per_hour else ""
        address = "public address" if self.address_usd_per_hour else ""
        return " and ".join(filter(None, (disk, address)))


NOTHING: Final = Beside()
