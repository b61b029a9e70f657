"""Which instance types can have the EBS volumes that a server needs. Pure."""

from __future__ import annotations

import re
from typing import Final

_XEN: Final = re.compile(
    r"(c[134]|d2|f1|g2|g3s?|h1|i2|i3(?!\.metal)|m[1-4]|p[23]|r[34]|t[12]|x1e?)\."
)
"""Starts of the names of types on the Xen hypervisor: "Xen-based instance types" in the EC2 User
Guide, and `Hypervisor` of DescribeInstanceTypes, read in November 2026. No new ones are made."""


def is_xen(instance_type: str) -> bool:
    """Whether a volume appears on the type under a device name, and not as an NVMe device, by whose
    serial the agent knows which one it is."""
    return _XEN.match(instance_type) is not None


def why_no_volumes(instance_type: str, max_volumes: int | None, volumes: int) -> str:
    """Why the type cannot have so many EBS volumes beside its own disk, as a sentence without a
    full stop; empty if it can. `max_volumes`: EC2's limit, that disk included; None is unknown.
    """
    if not volumes:
        return ""
    if is_xen(instance_type):
        return (
            f"{instance_type} is not on AWS's Nitro System: it does not show which EBS volume is "
            "which, so that homes and data sets cannot be mounted"
        )
    if max_volumes is not None and volumes >= max_volumes:
        return (
            f"EC2 attaches at most {max_volumes} EBS volumes to {instance_type}, and a server "
            f"needs {volumes + 1}: its own disk, its home if that is a volume, and its data sets"
        )
    return ""
