"""Our metrics in JupyterHub's `/hub/metrics`, whose registry is prometheus-client's default."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import REGISTRY, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from ....provisioner.gauges import Figures
from ....provisioner.provisioner import Provisioner

log = logging.getLogger(__name__)

SECOND_KEY_CLAIMS: Final = Counter(
    "ec2spawner_second_key_claims_total",
    "Claims of an instance with another key than the one it is bound to: a process on it tries "
    "to act as its agent",
)

CLAIMS_LIMITED: Final = Counter(
    "ec2spawner_claims_limited_total",
    "Claims that were answered 429 because there were too many",
)

LEASE_CALLS_LIMITED: Final = Counter(
    "ec2spawner_lease_calls_limited_total",
    "Calls of agents about their lease that were answered 429 because there were too many",
)


class ProvisionerCollector:
    """Collects the current gauges from memory, on the hub's event loop, without waiting.

    No label names a user, a server or an instance: a hub of thousands has as many series as one of
    ten.
    """

    def __init__(self, provisioner: Provisioner) -> None:
        self._provisioner = provisioner

    def describe(self) -> Iterable[Metric]:
        """No names at registration, when little is known yet."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Current gauges; none if they fail, so that JupyterHub's own are still served."""
        try:
            return list(families(self._provisioner.figures()))
        except Exception:
            # JupyterHub's own metrics must still be served.
            log.exception("The provisioner's metrics cannot be collected")
            return ()


@contextmanager
def on_metrics_endpoint(provisioner: Provisioner) -> Iterator[None]:
    """Show the gauges of this provisioner until the end of the block."""
    collector = ProvisionerCollector(provisioner)
    REGISTRY.register(collector)
    try:
        yield
    finally:
        REGISTRY.unregister(collector)


def families(now: Figures) -> Iterator[Metric]:
    """The figures as metric families of Prometheus."""
    instances = GaugeMetricFamily(
        "ec2spawner_instances",
        "Instances of this hub in the last listing",
        labels=["state", "market", "instance_type"],
    )
    for labels, number in now.instances.items():
        instances.add_metric(labels, number)
    yield instances
    leases = GaugeMetricFamily("ec2spawner_leases", "Servers that have not ended", labels=["state"])
    for state, number in now.leases.items():
        leases.add_metric([state.value], number)
    yield leases
    yield GaugeMetricFamily(
        "ec2spawner_longest_wait_seconds",
        "Age of the oldest start that is not ready yet; 0 without any",
        now.longest_wait,
    )
    gpus = GaugeMetricFamily(
        "ec2spawner_gpus",
        "GPUs of running instances: used, idle (of servers without work), or overhead (of no "
        "server that is ready)",
        labels=["purpose"],
    )
    for purpose, value in now.gpus.items():
        gpus.add_metric([purpose], value)
    yield gpus
    rate = GaugeMetricFamily(
        "ec2spawner_usd_per_hour",
        "Current cost of running instances and of all their disks, also of stopped ones that are "
        "retained, USD/hour: of leases, and of none; "
        "used, idle (servers without work), or overhead (no server that is ready)",
        labels=["account", "purpose"],
    )
    for (account, for_what), usd in now.usd_per_hour.items():
        rate.add_metric([account, for_what], usd)
    yield rate
    yield GaugeMetricFamily(
        "ec2spawner_unknown_prices",
        "Prices of running instances, their disks and addresses that are unknown: sums in USD are "
        "lower bounds",
        now.unknown_prices,
    )
    spent = CounterMetricFamily(
        "ec2spawner_usd",
        "Spent since the hub started, USD, estimated from prices",
        labels=["account"],
    )
    spent.add_metric(["leases"], now.leases_usd)
    spent.add_metric(["overhead"], now.overhead_usd)
    yield spent
    pool = GaugeMetricFamily(
        "ec2spawner_pool_instances",
        "Instances of the warm pool: target (how many shall wait), waiting, booting, "
        "stopped_target (how many shall wait stopped), stopped",
        labels=["profile", "market", "state"],
    )
    for labels, number in now.pool.items():
        pool.add_metric(labels, number)
    yield pool
    disks = GaugeMetricFamily(
        "ec2spawner_nearly_full_disks",
        "Disks of running servers that are nearly full, by what they lack: space or inodes",
        labels=["disk", "lacks"],
    )
    for (kind, lacks), number in now.nearly_full_disks.items():
        disks.add_metric([kind, lacks], number)
    yield disks
    marks = GaugeMetricFamily(
        "ec2spawner_sold_out_marks",
        "Offers that are marked as sold out, by the scope of the refusal",
        labels=["scope"],
    )
    for scope, number in now.sold_out.items():
        marks.add_metric([scope.value], number)
    yield marks
    alarms = GaugeMetricFamily(
        "ec2spawner_oldest_undelivered_alarm_seconds",
        "Age of the oldest alarm that a destination has not accepted; 0 without any",
        labels=["destination"],
    )
    for destination, age in now.undelivered_alarms.items():
        alarms.add_metric([destination], age)
    yield alarms
    for name, about, since in (
        ("ec2spawner_pass_age_seconds", "Since the last complete reconcile pass", now.pass_age),
        ("ec2spawner_listing_age_seconds", "Since the last complete listing", now.listing_age),
    ):
        if since is not None:
            yield GaugeMetricFamily(name, about, since)
