"""The dashboard and the alert rules in `configs/monitoring` use what the hub exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import promql_parser
import yaml
from jupyterhub import metrics as _hub_metrics  # noqa: F401 (registers JupyterHub's own)
from prometheus_client import REGISTRY
from prometheus_client.metrics_core import Metric

from ec2spawner.aws.calls import metrics as _aws_metrics  # noqa: F401 (registers the AWS calls')
from ec2spawner.core.alarms.alarm import Alarm, Kind
from ec2spawner.core.ledger.cost_rows import Purpose
from ec2spawner.core.starts.outcome import Outcome
from ec2spawner.hub.app.reporting.metrics import families
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.instance import InstanceState
from ec2spawner.provisioner.model.leases.lease import LeaseState
from tests.unit.provisioner.world import World

MONITORING = Path(__file__).resolve().parents[4] / "configs" / "monitoring"
DASHBOARD = json.loads((MONITORING / "grafana-dashboard.json").read_text("utf-8"))
RULES = yaml.safe_load((MONITORING / "prometheus-rules.yaml").read_text("utf-8"))

OF_PROMETHEUS = frozenset({"job", "instance"})
"""Labels that Prometheus adds to all that it scrapes."""

VALUES: Mapping[tuple[str, str], frozenset[str]] = {
    ("ec2spawner_start_seconds", "outcome"): frozenset(Outcome),
    ("ec2spawner_instances", "state"): frozenset(InstanceState),
    ("ec2spawner_leases", "state"): frozenset(LeaseState),
    ("ec2spawner_gpu_seconds", "purpose"): frozenset(Purpose),
    ("ec2spawner_gpus", "purpose"): frozenset(Purpose),
    ("ec2spawner_usd_per_hour", "purpose"): frozenset(Purpose),
    ("ec2spawner_aws_calls", "outcome"): frozenset(
        {"ok", "throttled", "queued", "refused", "failed"}
    ),
}
"""(family, label) -> its values, where there are few."""

_POSITIVE = (promql_parser.MatchOp.Equal, promql_parser.MatchOp.Re)

SUFFIXES: Mapping[str, Mapping[str, set[str]]] = {
    "counter": {"_total": set()},
    "histogram": {"_bucket": {"le"}, "_sum": set(), "_count": set()},
}
"""Type of a metric -> suffix of a sample's name -> the labels that only it has."""

GRID_COLUMNS = 24


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    for panel in panels():
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for rule in rules():
        yield rule["alert"], rule["expr"]


def parse(expression: str) -> promql_parser.Expr:
    """With a duration for Grafana's variables."""
    return promql_parser.parse(re.sub(r"\$__(rate_interval|range)", "5m", expression))


class Series:
    """Sample names and labels that `/hub/metrics` exports."""

    def __init__(self, world: World) -> None:
        self.labels: dict[str, set[str]] = {}
        self.family_of: dict[str, str] = {}
        for collector in list(REGISTRY._collector_to_names):
            labels = getattr(collector, "_labelnames", ())
            for metric in collector.collect():
                self._add(metric, labels)
        for metric in families(world.provisioner.figures()):
            self._add(metric, getattr(metric, "_labelnames", ()))

    def _add(self, metric: Metric, labels: Iterable[str]) -> None:
        for suffix, more in SUFFIXES.get(metric.type, {"": set()}).items():
            self.labels[metric.name + suffix] = {*labels, *more}
            self.family_of[metric.name + suffix] = metric.name


def selectors(expression: promql_parser.Expr) -> list[promql_parser.VectorSelector]:
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(expression, pre_visit=visit)
    return found


def grouped(expression: promql_parser.Expr) -> set[str]:
    found: set[str] = set()

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            found.update(node.modifier.labels)

    promql_parser.walk(expression, pre_visit=visit)
    return found


async def test_every_metric_and_label_is_exported_by_the_hub(world: World) -> None:
    await world.ready("ada")
    await world.complete_passes(1)
    series = Series(world)
    for where, text in expressions():
        expression = parse(text)
        used = selectors(expression)
        assert used, where
        known: set[str] = set(OF_PROMETHEUS)
        for selector in used:
            assert selector.name in series.labels, f"{where}: {selector.name}"
            labels = series.labels[selector.name] | OF_PROMETHEUS
            known |= labels
            for matcher in selector.matchers.matchers:
                assert matcher.name in labels, f"{where}: {selector.name} has no {matcher.name}"
                values = VALUES.get((series.family_of[selector.name], matcher.name))
                if values is not None and matcher.op in _POSITIVE:
                    wanted = set(matcher.value.split("|"))
                    assert wanted <= values, f"{where}: {matcher.name}={matcher.value}"
        assert grouped(expression) <= known, where


async def test_instances_are_more_than_servers_only_where_some_have_none(world: World) -> None:
    """What the alert `InstancesWithoutServer` compares, whose form its expression has."""
    [rule] = [each["expr"] for each in rules() if each["alert"] == "InstancesWithoutServer"]
    instances, servers = selectors(parse(rule))
    assert (instances.name, servers.name) == ("ec2spawner_instances", "ec2spawner_leases")
    [state] = instances.matchers.matchers

    def without_server() -> float:
        now = {each.name: each.samples for each in families(world.provisioner.figures())}
        running = [x for x in now[instances.name] if re.fullmatch(state.value, x.labels["state"])]
        return sum(x.value for x in running) - sum(x.value for x in now[servers.name])

    await world.ready("ada")
    lease = await world.request("bob")
    await world.boot(2)
    await world.complete_passes(1)
    assert without_server() == 0, "it boots for bob"
    world.cloud.fail(
        "terminate", CloudError("UnauthorizedOperation", "no", retryable=False), times=100
    )
    await world.stop(lease)
    await world.complete_passes(1)
    assert len(world.cloud.running()) == 2
    assert without_server() == 1


async def test_a_destination_is_reported_for_as_long_as_it_accepts_no_alarm(world: World) -> None:
    """What `AlarmsNotAccepted` compares: pauses between attempts grow to more than an hour."""
    await world.restart(alarm_destinations=("dead", "ops"))
    [rule] = [each["expr"] for each in rules() if each["alert"] == "AlarmsNotAccepted"]
    [undelivered] = selectors(parse(rule))
    threshold = float(rule.rpartition(">")[2])

    def reported() -> set[str]:
        now = {each.name: each.samples for each in families(world.provisioner.figures())}
        samples = now[undelivered.name]
        return {x.labels["destination"] for x in samples if x.value > threshold}

    outbox, at = world.provisioner.alarms, world.provisioner.now()
    await outbox.add([Alarm(Kind.LEAK, "vol-1", "", "A volume was left over", "", at)])
    ops = outbox.due("ops", at)
    assert ops is not None
    await outbox.done(ops, at)
    for attempt in range(1, 31):
        dead = outbox.due("dead", world.provisioner.now())
        assert dead is not None
        assert dead.attempts == attempt - 1
        assert reported() == ({"dead"} if attempt > 1 else set())
        world.clock.advance(75 * 60)
        await outbox.failed(dead, world.provisioner.now())
    await outbox.done(dead, world.provisioner.now())
    assert reported() == set()


async def test_every_metric_of_the_hub_is_documented(world: World) -> None:
    await world.complete_passes(1)
    guide = (MONITORING.parents[1] / "docs" / "how-to" / "monitoring.md").read_text("utf-8")
    for metric in families(world.provisioner.figures()):
        assert metric.name in guide
    own = {m.name for m in REGISTRY.collect() if m.name.startswith("ec2spawner_")}
    assert not {name for name in own if name not in guide}


def test_legends_name_labels_that_the_query_keeps() -> None:
    for panel in panels():
        for target in panel["targets"]:
            named = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert named <= grouped(parse(target["expr"])), panel["title"]


def test_the_dashboard_works_with_any_data_source_and_any_number_of_hubs() -> None:
    names = [variable["name"] for variable in DASHBOARD["templating"]["list"]]
    assert names == ["datasource", "job"]
    for panel in panels():
        for each in [panel, *panel["targets"]]:
            assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
    for panel in panels():
        for target in panel["targets"]:
            for selector in selectors(parse(target["expr"])):
                assert 'job=~"$job"' in str(selector), panel["title"]


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= GRID_COLUMNS
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_alert_rules_say_how_urgent_they_are_and_what_happened() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"]
        if "for" in rule:
            assert promql_parser.parse_duration(rule["for"])
