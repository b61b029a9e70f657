"""What JupyterHub's `/hub/metrics` says of us: its registry is prometheus-client's default one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import REGISTRY, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from ...provisioner.gauges import Figures
from ...provisioner.provisioner import Provisioner

log = logging.getLogger(__name__)

SECOND_KEY_CLAIMS: Final = Counter(
    "ec2spawner_second_key_claims_total",
    "Claims of an instance by another key than the one it is bound to: somebody on it tries to "
    "act as its agent",
)

CLAIMS_LIMITED: Final = Counter(
    "ec2spawner_claims_limited_total",
    "Claims that were answered 429, because there were too many",
)

LEASE_CALLS_LIMITED: Final = Counter(
    "ec2spawner_lease_calls_limited_total",
    "Calls of agents about their lease that were answered 429, because there were too many",
)


class Standing:
    """How things stand when somebody looks: from memory, on the hub's loop, without a wait.

    No label names a user, a server or an instance: a hub of thousands has as many series as one of
    ten.
    """

    def __init__(self, provisioner: Provisioner) -> None:
        self._provisioner = provisioner

    def describe(self) -> Iterable[Metric]:
        """Names are not asked for at the registration, when little is known yet."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Current gauges; none if they fail, so that JupyterHub's own are still served."""
        try:
            return list(families(self._provisioner.figures()))
        except Exception:
            # JupyterHub's own metrics go on.
            log.exception("The figures of the provisioner cannot be told")
            return ()


def show(provisioner: Provisioner) -> Standing:
    """Tell of this provisioner from now on; end it with `REGISTRY.unregister`."""
    standing = Standing(provisioner)
    REGISTRY.register(standing)
    return standing


def hide(standing: Standing) -> None:
    """Remove the collector: the provisioner has stopped."""
    REGISTRY.unregister(standing)


def families(now: Figures) -> Iterator[Metric]:
    """The figures as Prometheus has them."""
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
        "How long the start that has waited longest is not ready yet; 0 without any",
        now.longest_wait,
    )
    rate = GaugeMetricFamily(
        "ec2spawner_usd_per_hour",
        "What runs costs now, USD/hour, without disks: the servers of users, and what is nobody's",
        labels=["account"],
    )
    rate.add_metric(["leases"], now.leases_usd_per_hour)
    rate.add_metric(["overhead"], now.overhead_usd_per_hour)
    yield rate
    yield GaugeMetricFamily(
        "ec2spawner_unknown_prices",
        "Running instances whose price is not known: in none of the sums in USD",
        now.unknown_prices,
    )
    spent = CounterMetricFamily(
        "ec2spawner_usd",
        "What was spent since the hub began, USD, estimated from prices, without disks",
        labels=["account"],
    )
    spent.add_metric(["leases"], now.leases_usd)
    spent.add_metric(["overhead"], now.overhead_usd)
    yield spent
    marks = GaugeMetricFamily(
        "ec2spawner_sold_out_marks",
        "What is known not to be had just now, by what the refusal speaks of",
        labels=["scope"],
    )
    for scope, number in now.sold_out.items():
        marks.add_metric([scope.value], number)
    yield marks
    for name, about, age in (
        ("ec2spawner_pass_age_seconds", "Since the last reconcile pass went through", now.pass_age),
        ("ec2spawner_listing_age_seconds", "Since the last complete listing", now.listing_age),
    ):
        if age is not None:
            yield GaugeMetricFamily(name, about, age)
