"""Prices of what exists beside an instance's time: disks, snapshots, public addresses. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

HOURS_PER_MONTH: Final = 730
"""Of an average month, as in AWS's price pages. The ledger counts the hours of the actual one:
`core.ledger.months`."""

DISK_USD_PER_GIB_MONTH: Final = 0.08
"""Of a gp3 volume in us-east-1 (AWS's EBS price page, November 2026); an estimate elsewhere."""

GP2_USD_PER_GIB_MONTH: Final = 0.10
"""Of a gp2 volume, there too (the same page)."""

SNAPSHOT_USD_PER_GIB_MONTH: Final = 0.05
"""Of what a snapshot in the standard tier stores, in us-east-1 (the same page)."""

ADDRESS_USD_PER_HOUR: Final = 0.005
"""Of a public IPv4 address, in every commercial region (AWS's VPC price page, November 2026)."""


@dataclass(frozen=True, slots=True)
class ResourcePrices:
    """List prices in one region; None is unknown. The hub makes gp2 volumes, and gp3 volumes with
    the performance that is free (3,000 IOPS, 125 MiB/s), so nothing else has a price here."""

    disk_usd_per_gib_month: float | None = None
    """Of a gp3 volume."""
    snapshot_usd_per_gib_month: float | None = None
    """Of what a snapshot in the standard tier stores."""
    address_usd_per_hour: float | None = None
    """Of a public IPv4 address in use."""
    gp2_usd_per_gib_month: float | None = None
    """Of a gp2 volume: homes may be some, an instance's own disks are not."""

    def or_else(self, other: ResourcePrices) -> ResourcePrices:
        """These, and those of `other` where these are unknown."""
        return ResourcePrices(
            _first(self.disk_usd_per_gib_month, other.disk_usd_per_gib_month),
            _first(self.snapshot_usd_per_gib_month, other.snapshot_usd_per_gib_month),
            _first(self.address_usd_per_hour, other.address_usd_per_hour),
            _first(self.gp2_usd_per_gib_month, other.gp2_usd_per_gib_month),
        )

    def volume_usd_per_gib_month(self, volume_type: str) -> float | None:
        """Of a volume of this type; None where it is unknown, as for types that the hub never
        makes."""
        known = {"gp3": self.disk_usd_per_gib_month, "gp2": self.gp2_usd_per_gib_month}
        return known.get(volume_type)

    def disk_usd_per_month(self, gib: float) -> float | None:
        """Of gp3 volumes of this size; those of nothing cost nothing."""
        price = self.disk_usd_per_gib_month if gib else 0.0
        return None if price is None else gib * price


def _first(one: float | None, other: float | None) -> float | None:
    return other if one is None else one
