"""CloudWatch: one call that publishes a hub's figures as custom metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..calls.client import Client

Unit = Literal["Count", "Seconds", "None"]
"""Of CloudWatch's units those in use; it has none for money."""


@dataclass(frozen=True, slots=True)
class Datum:
    """One value of one metric, now."""

    name: str
    value: float
    unit: Unit = "Count"
    dimensions: Mapping[str, str] = field(default_factory=dict)


async def put_metrics(client: Client, namespace: str, data: Sequence[Datum]) -> None:
    """Publish at most 1000 values in one call, the limit of PutMetricData. Raises `CloudError`.

    Never repeated: the next minute has newer values.
    """
    await client.call(
        "put_metric_data",
        lambda _: None,
        service="cloudwatch",
        attempts=1,
        Namespace=namespace,
        MetricData=[
            {
                "MetricName": each.name,
                "Value": each.value,
                "Unit": each.unit,
                "Dimensions": [{"Name": n, "Value": v} for n, v in each.dimensions.items()],
            }
            for each in data
        ],
    )
