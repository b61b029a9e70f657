"""What agents of older protocols cannot do: images are older than their hub.

The hub speaks `PROTOCOL` and the one before. A lease whose instance has the older agent goes
without what it can do without; where it cannot, its start fails in words, at once: each other
instance of the same image would be as unfit.
"""

from __future__ import annotations

from ....wire import PROTOCOL
from .lease import Lease

SPOKEN = (PROTOCOL, PROTOCOL - 1)


def what_it_lacks(lease: Lease, protocol: int) -> str:
    """What the lease needs and an agent of this protocol cannot do; empty for nothing."""
    if protocol < 2 and (lease.home_kind == "efs" or lease.mounts.efs):
        return "homes on EFS"
    if protocol < 2 and (lease.spec.data_volumes or lease.mounts.buckets):
        return "data volumes and buckets"
    return ""


def too_old_for(what: str) -> str:
    """In words for the person whose start fails, with the fix for the admin."""
    return (
        f"The image's ec2spawner is too old for {what}. An admin must bake a new image with the "
        "hub's version of ec2spawner and name it in c.EC2Spawner.image"
    )


def why_unfit(protocol: int, *, needs: int = SPOKEN[-1]) -> str:
    """Why the hub cannot work with an agent of this protocol, likewise; empty where it can.

    `needs` is the oldest protocol that can do what every server of this hub needs.
    """
    if protocol > SPOKEN[0]:
        return (
            f"The image's ec2spawner is newer than the hub's: it speaks protocol {protocol}, and "
            f"the hub {_spoken()}. An admin must upgrade the hub, or name an image with the hub's "
            "version of ec2spawner in c.EC2Spawner.image"
        )
    if protocol < SPOKEN[-1]:
        return too_old_for(f"this hub: it speaks protocol {protocol}, and the hub {_spoken()}")
    if protocol < needs:
        return too_old_for("c.JupyterHub.internal_ssl")
    return ""


def _spoken() -> str:
    return " and ".join(map(str, SPOKEN))
