"""Instances that are broken: their agent reports it with its claim, and they never get a lease.

The start that would have got such an instance gets another one, and counts it as a replacement: an
image or instance type whose agents always report it ends the start after `replacements`. Where the
image's driver works on no instance of a type, the type is not bought with that image for an hour.

A stopped instance that is retained for its user holds their data. It is stopped once more, never
terminated for this, and EC2 mostly starts it on other hardware.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from ...core.instances.gpu_drivers import Driver, KernelModules
from ...core.tags import LEASE
from ...wire import Fault, ImageDriver, Stop
from ..instances.claims import Claimant, Claims, InstanceUnwanted
from ..instances.demand import would_serve
from ..model.cloud.instance import Instance
from ..model.leases.lease import Lease, LeaseState
from ..offers.offers import Offers
from ..retention.restart_failure import OTHER_HARDWARE, broken
from ..state.state import State

log = logging.getLogger(__name__)

ANOTHER: Final = "The GPU of the machine is broken; another one is started"

KEPT_AGAIN: Final = 1
"""How often a retained instance is stopped and restarted for one start: each takes minutes."""


@dataclass(slots=True)
class UnhealthyInstances:
    """Turns away instances that report that they are broken."""

    state: State
    claims: Claims
    offers: Offers

    async def turn_away(self, claimant: Claimant, key: str, wait: float, fault: Fault) -> bool:
        """End an instance whose agent says that it is broken, and replace it.

        It never had a lease, so its cost is overhead. Nothing happens where it has one: what a
        user's own machine says of itself later moves nobody. True then; False where it shall say so
        again: no listing shows the instance within `wait` seconds, or it is being stopped, to be
        kept. Raises `ClaimRefused`, and `InstanceUnwanted` once it is turned away.
        """
        instance = await self.claims.admit_in_time(claimant, key, wait)
        if instance is None:
            return False
        if self.state.leases.of_instance(instance.instance_id) is not None:
            return True
        why = fault.reason
        kept = self.state.retained.get(instance.instance_id)
        if kept is not None and kept.is_of_pool:
            kept = None  # it has nobody's files, and has had no user
        # On an instance that has had a user, they may be root: what it reports of its type must
        # not keep others from that type.
        is_new = kept is None and LEASE not in instance.tags
        of_type = is_new and self._is_of_type(instance, fault.driver)
        if of_type:
            self.offers.learn_unusable(instance, self._why_unsupported(instance, fault.driver))
        if kept is not None and kept.then == "stop":
            await self._stop_once_more(instance, claimant, why)
            # An answer of 410 would make it power itself off, which deletes an unprotected disk.
            await self.state.claims.wait(instance.instance_id, wait)
            return False
        kind = instance.instance_type
        log.error("%s says that it is broken: %r (%s)", instance.instance_id, why, kind)
        lease = would_serve(self.state, instance, claimant.pending_time)
        self.state.claims.turn_away([instance.instance_id])
        if lease is not None:
            is_last = of_type and {*lease.spec.instance_types} == {instance.instance_type}
            await self._replace(lease, why, 0 if is_last else self.state.settings.replacements)
        self.state.wake()
        raise InstanceUnwanted("this machine is broken")

    def _is_of_type(self, instance: Instance, driver: ImageDriver | None) -> bool:
        """Whether each instance of its type with its image has this fault.

        Not because its driver did not load in time, or a GPU is dead: another one may work.
        """
        if driver is not None and driver.branch is None:
            return True
        return bool(self._why_unsupported(instance, driver))

    def _why_unsupported(self, instance: Instance, driver: ImageDriver | None) -> str:
        """Empty where the driver supports the type's GPU, or is not known."""
        if driver is None or driver.branch is None:
            return ""
        modules = KernelModules(driver.modules) if driver.modules else None
        known = Driver(driver.branch, modules, driver.grid)
        return self.offers.why_unsupported(instance.instance_type, known)

    async def _stop_once_more(self, instance: Instance, claimant: Claimant, why: str) -> None:
        """The start that it was for waits for another boot of it, or ends."""
        lease = would_serve(self.state, instance, claimant.pending_time)
        if lease is None:
            return  # for nobody, or said before: a pass stops it
        log.error("%s, which is kept, says that it is broken: %r", instance.instance_id, why)
        await self.state.retained.take_start_back(instance.instance_id)
        if lease.replaced < min(self.state.settings.replacements, KEPT_AGAIN):
            message, number = OTHER_HARDWARE, lease.replaced + 1
            await self.state.leases.send_back(lease.lease_id, message, why, replaced=number)
        else:
            await self.state.end(lease.lease_id, Stop(reason="failed", message=broken(why)))
        self.state.wake()

    async def _replace(self, lease: Lease, why: str, limit: int) -> None:
        if lease.state is not LeaseState.WAITING:
            return
        if lease.replaced < limit:
            await self.state.leases.send_back(
                lease.lease_id, ANOTHER, why, replaced=lease.replaced + 1
            )
            return
        message = (
            f"{_machines(lease.replaced + 1)} Try again later, or with another profile; an admin "
            f"should look at the image. {why}"
        )
        await self.state.end(lease.lease_id, Stop(reason="failed", message=message[:500]))


def _machines(number: int) -> str:
    if number == 1:
        return "The machine for your server is broken."
    return f"None of {number} machines could serve you; the last one is broken."
