"""The hub's figures in CloudWatch, once a minute, where the admin names a namespace.

The same figures as the gauges of `/hub/metrics`, with fewer labels: CloudWatch charges for each
combination of a metric and its dimensions.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from ....aws.calls.client import Client
from ....aws.monitoring.cloudwatch import Datum, put_metrics
from ....provisioner.gauges import Figures
from ....provisioner.model.cloud.cloud import CloudError
from ....provisioner.provisioner import Provisioner
from ....provisioner.runtime.supervise import Supervised

log = logging.getLogger(__name__)

INTERVAL: Final = 60.0
"""Seconds: CloudWatch's standard resolution is a minute."""

DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException"})
"""Codes of CloudWatch's two protocols."""

PERMISSION: Final = "allow cloudwatch:PutMetricData for this namespace, see configs/README.md"


class CloudWatchMetrics:
    """Publishes what `Provisioner.figures` says."""

    def __init__(self, client: Client, namespace: str, hub: str, provisioner: Provisioner) -> None:
        """`hub` is the value of the dimension Hub."""
        self._client = client
        self._namespace = namespace
        self._hub = hub
        self._provisioner = provisioner
        self._failing = ""
        """Code of the last failure; empty after a success."""

    async def run(self) -> None:
        """Publish every `INTERVAL`, until cancelled."""
        supervised = Supervised("Publishing metrics to CloudWatch")
        clock = asyncio.get_running_loop().time
        due = clock()
        while True:
            with supervised:
                await self.publish()
            # On a schedule: the duration of calls must not leave a minute without a value.
            due = max(due + INTERVAL, clock())
            await asyncio.sleep(due - clock())

    async def publish(self) -> None:
        """Publish the figures of now; a failure is logged once, until its cause is another."""
        found = list(data(self._provisioner.figures(), self._hub))
        try:
            await put_metrics(self._client, self._namespace, found)
        except CloudError as error:
            if error.code != self._failing:
                fix = PERMISSION if error.code in DENIED else "none needed, it is tried again"
                log.warning("Metrics do not reach CloudWatch: %s. Fix: %s", error, fix)
            self._failing = error.code
            return
        if self._failing:
            log.info("Metrics reach CloudWatch again")
        self._failing = ""


def data(now: Figures, hub: str) -> Iterator[Datum]:
    """The figures as values of CloudWatch's metrics; what is unknown is left out."""
    own = {"Hub": hub.encode("ascii", "replace").decode()}  # CloudWatch takes nothing else
    instances: Counter[str] = Counter()
    for (state, _, _), number in now.instances.items():
        instances[state] += number
    for state, number in instances.items():
        yield Datum("Instances", number, dimensions={**own, "State": state})
    for lease_state, number in now.leases.items():
        yield Datum("Servers", number, dimensions={**own, "State": lease_state.value})
    for purpose, gpus in now.gpus.items():
        yield Datum("GPUs", gpus, dimensions={**own, "Purpose": purpose})
    cost: defaultdict[str, float] = defaultdict(float)
    for (_, for_what), usd in now.usd_per_hour.items():
        cost[for_what] += usd
    for name, usd in cost.items():
        yield Datum("UsdPerHour", usd, "None", {**own, "Purpose": name})
    yield Datum("UnknownPrices", now.unknown_prices, dimensions=own)
    yield Datum("SoldOutMarks", sum(now.sold_out.values()), dimensions=own)
    yield Datum("LongestWait", now.longest_wait, "Seconds", own)
    for name, age in (("PassAge", now.pass_age), ("ListingAge", now.listing_age)):
        if age is not None:
            yield Datum(name, age, "Seconds", own)
