"""How long GPUs are paid for, and whether anybody uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ...core.ledger.cost_rows import Purpose
from ...core.profiles.profiles import InstanceType
from ..model import metrics
from ..offers.discount_coverage import BILLED
from ..offers.instance_types import Catalogue
from ..state.state import State
from .purpose import purpose_now

MIN_SECONDS: Final = 1.0
"""Between two counts: in a burst of starts passes follow each other within milliseconds, and one
count takes 9 ms with 2000 instances."""


@dataclass(slots=True)
class GpuTime:
    """Counts GPU-seconds from pass to pass, by uptime: what the hub did not see is not counted."""

    state: State
    catalogue: Catalogue
    _counted_at: float | None = None
    """Uptime in seconds."""

    async def reconcile(self, now: datetime) -> None:
        """Never raises and never waits."""
        uptime = self.state.clock.uptime()
        if self._counted_at is not None:
            seconds = uptime - self._counted_at
            if seconds < MIN_SECONDS:
                return
            for purpose, gpus in gpus_by_purpose(self.state, self.catalogue.types).items():
                metrics.GPU_SECONDS.labels(purpose).inc(gpus * seconds)
        self._counted_at = uptime


def gpus_by_purpose(state: State, types: Mapping[str, InstanceType]) -> Mapping[Purpose, float]:
    """GPUs of the running instances of the last listing, by what they are for.

    Without those of instance types that are not known.
    """
    leases = {lease.instance_id: lease for lease in state.leases.open() if lease.instance_id}
    found = dict.fromkeys(Purpose, 0.0)
    for instance in state.instances.listed.values():
        if instance.state in BILLED and instance.instance_type in types:
            purpose = purpose_now(state, leases.get(instance.instance_id))
            found[purpose] += _gpus(types[instance.instance_type])
    return found


def _gpus(kind: InstanceType) -> float:
    """A share of one counts as that share."""
    return kind.gpu_count or kind.gpu_partition
