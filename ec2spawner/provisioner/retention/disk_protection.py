"""Keeps a retained instance's disk when the instance powers itself off.

Instances are launched to terminate then, so that one whose hub is gone costs nothing. A retained
one was promised to its user: if its agent fails after the next start, or finds no hub, it must
stop. Its disk is all that it costs from then on.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from ..model.cloud.cloud import Cloud, CloudError

log = logging.getLogger(__name__)

TRIES: Final = 3
"""Calls that EC2 may throttle or not answer, before the instance is stopped or started without."""


@dataclass(slots=True)
class DiskProtection:
    """Changes what a power-off does to retained instances, once for each."""

    cloud: Cloud
    _protected: set[str] = field(default_factory=set)
    """Instance ids. Those of an earlier process are protected again before their next start."""
    _failures: dict[str, int] = field(default_factory=dict)
    """By instance id: how often EC2 was too busy."""

    def forget_others(self, retained: Collection[str]) -> None:
        """Drop what is known of instances that are not retained any more."""
        self._protected &= set(retained)
        self._failures = {each: n for each, n in self._failures.items() if each in retained}

    async def protect(self, instance_id: str) -> None:
        """Let the instance stop when it powers itself off: before it is stopped or started.

        Raises `CloudError` where that is to be tried again. An error that remains is only logged:
        an instance that is not stopped costs money, and one that is not started is of no use.
        """
        if instance_id in self._protected:
            return
        try:
            await self.cloud.stop_on_power_off(instance_id)
        except CloudError as error:
            failures = self._failures[instance_id] = self._failures.get(instance_id, 0) + 1
            if error.retryable and failures < TRIES:
                raise
            log.error(
                "The disk of %s, which is kept for its user, is lost if the instance powers itself "
                "off after a start, because EC2 did not change its shutdown behavior: %s. The hub "
                "needs ec2:ModifyInstanceAttribute, as in configs/iam-policy.json",
                instance_id,
                error,
            )
        else:
            self._protected.add(instance_id)
