"""Terminations that EC2 has refused, until one is accepted or the instance has ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...model.cloud.cloud import CloudError
from ...model.cloud.instance import GONE, Instance
from ...runtime.clock import Clock
from .instance_cache import InstanceCache


@dataclass(slots=True)
class _Refused:
    since: float
    """Uptime of the first refusal, in seconds."""
    error: CloudError
    """EC2's last one."""


class RefusedTerminations:
    """Since when EC2 refuses to terminate an instance. In memory: each pass tries again."""

    def __init__(self, instances: InstanceCache, clock: Clock) -> None:
        self._instances = instances
        self._clock = clock
        self._refused: dict[str, _Refused] = {}
        """By instance id."""

    def refused(self, instance_ids: Iterable[str], error: CloudError) -> None:
        """A call for these has failed: those that it has ended are found by a listing."""
        self._refused = {x: found for x, found in self._refused.items() if self._lasts(x)}
        for instance_id in instance_ids:
            found = self._refused.setdefault(instance_id, _Refused(self._clock.uptime(), error))
            found.error = error

    def accepted(self, instance_ids: Iterable[str]) -> None:
        """EC2 has taken the call."""
        for instance_id in instance_ids:
            self._refused.pop(instance_id, None)

    def lasting(self, seconds: float) -> Iterator[tuple[Instance, float, CloudError]]:
        """Instances that still run and were refused for so long: since when, in seconds, and EC2's
        last error."""
        for instance_id, found in list(self._refused.items()):
            lasted = self._clock.uptime() - found.since
            if lasted >= seconds and self._lasts(instance_id):
                yield self._instances.listed[instance_id], lasted, found.error

    def _lasts(self, instance_id: str) -> bool:
        """Whether the last listing shows it, and not as ended."""
        instance = self._instances.listed.get(instance_id)
        return instance is not None and instance.state not in GONE
