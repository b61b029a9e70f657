"""Which instance types can be in a placement group of EC2's strategy `cluster`. Pure."""

from __future__ import annotations

import re
from typing import Final

_EXCLUDED: Final = re.compile(r"(t\d|mac|c1\.|m[123]\.|vt1\.|[a-z0-9]+-flex\.)")
"""Starts of the names of those that cannot: burstable performance, Mac, the flex families, and some
of the oldest. From "Placement strategies for your placement groups" in the EC2 User Guide, and the
`PlacementGroupInfo` of DescribeInstanceTypes, read in November 2026."""


def fits_cluster_placement(instance_type: str) -> bool:
    """Whether EC2 launches the type into such a group. A family that is newer than this is taken
    to fit: EC2 refuses the launch otherwise."""
    return _EXCLUDED.match(instance_type) is None
