"""The cluster of a server: which workers its user wants. Stored with the server's lease."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..cloud.launch import LaunchSpec
from .mounts import Mounts


@dataclass(frozen=True, slots=True)
class Cluster:
    """Worker leases beside a server's lease, the *head*: of the same owner, payer and image."""

    workers: int
    """How many; 0 once the cluster was stopped."""
    engine: str
    """What runs the work: `ray` or `torchrun`."""
    profile: str
    """Slug of the workers' profile."""
    profile_name: str
    spec: LaunchSpec
    address: str = ""
    """`host:port` of the engine on the server's instance, which workers join."""
    sealed_start: str = ""
    """What a worker is started with, sealed with a key of the hub; empty once the server's lease
    has ended, when only the shape of the cluster is of use."""
    mounts: Mounts = field(default_factory=Mounts)
    last_number: int = 0
    """Of the worker that was added last. No number is used twice."""
    idle_seconds: float = 0.0
    """Idle time of the workers' profile; 0 is none, then that of the server counts."""
    first_number: int = 1
    """Of the first worker since its user asked for workers last."""
    stopped_because: str = ""
    """Why the hub stopped it, in words; empty while it runs, and where its user did."""
    workers_before: int = 0
    """How many there were when the hub stopped it because it was idle."""
    security_group: str = ""
    """Id of the group that lets its nodes reach each other; empty before it is made, and once it is
    deleted."""
    placement_group: str = ""
    """Name of its placement group; empty before it is made, and once it is deleted."""
    groups_ready: bool = False
    """Whether workers can be launched into its groups: those that its spec needs exist, and the
    server's instance has the security group. False again before the first of them is removed."""

    @property
    def worker_groups(self) -> tuple[str, ...]:
        """The security groups of a worker; empty until the groups of the cluster are ready for what
        its spec needs now: an earlier cluster of the server may have needed less."""
        if not (self.groups_ready and self._is_placed(self.spec)):
            return ()
        return (*self.spec.security_groups, self.security_group)

    def has_groups_of(self, spec: LaunchSpec) -> bool:
        """Whether the groups are ready that a worker's spec has to name, and it names them."""
        return (
            self.groups_ready
            and self.security_group in spec.security_groups
            and self._is_placed(spec)
        )

    def _is_placed(self, spec: LaunchSpec) -> bool:
        return spec.placement_group in {"", self.placement_group}

    @property
    def offered_workers(self) -> int:
        """How many a later start of the server offers again: idleness is no change of mind."""
        return self.workers or self.workers_before

    def shape(self) -> Cluster:
        """What a later start of the server offers again."""
        return replace(self, address="", sealed_start="")
