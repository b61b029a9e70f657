"""`c.EC2Spawner.clusters`: the clusters that users may have for their notebooks."""

from __future__ import annotations

from pydantic import Field

from ...wire.cluster import MAX_WORKERS
from ..values import Words


class ClustersConfig(Words):
    """What all users may have; limits bind workers as they bind servers."""

    max_workers: int = Field(
        default=0,
        ge=0,
        le=MAX_WORKERS,
        description="How many workers one cluster may have. 0 allows no clusters.",
        examples=[8],
    )
