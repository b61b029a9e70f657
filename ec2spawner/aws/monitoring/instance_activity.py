"""Until when instances ran that EC2 no longer lists, from CloudWatch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from ..calls.client import Answer, Client

PERIOD: Final = timedelta(minutes=5)
"""EC2's basic monitoring publishes CPUUtilization of a running instance every five minutes, and
CloudWatch keeps these values for 63 days."""

MAX_QUERIES: Final = 500
"""Metrics in one GetMetricData call."""


class InstanceActivity:
    """What CloudWatch knows of instances."""

    client: Client

    async def ran_until(
        self, instance_ids: Sequence[str], since: datetime, until: datetime
    ) -> Mapping[str, datetime]:
        """Instance id -> the end of the last five minutes with a value, UTC, at most `until`.

        Without those of which CloudWatch has none since `since`. Raises `CloudError`.
        """
        found: dict[str, datetime] = {}
        for start in range(0, len(instance_ids), MAX_QUERIES):
            some = instance_ids[start : start + MAX_QUERIES]
            ends = await self.client.call(
                "get_metric_data",
                _last_values,
                service="cloudwatch",
                MetricDataQueries=[
                    _query(number, instance_id) for number, instance_id in enumerate(some)
                ],
                StartTime=since - PERIOD,
                EndTime=until + PERIOD,
                ScanBy="TimestampDescending",
            )
            for number, last in ends.items():
                found[some[number]] = min(last + PERIOD, until)
        return found


def _query(number: int, instance_id: str) -> Mapping[str, Any]:
    return {
        "Id": f"m{number}",
        "MetricStat": {
            "Metric": {
                "Namespace": "AWS/EC2",
                "MetricName": "CPUUtilization",
                "Dimensions": [{"Name": "InstanceId", "Value": instance_id}],
            },
            "Period": int(PERIOD.total_seconds()),
            "Stat": "SampleCount",
        },
    }


def _last_values(answer: Answer) -> Mapping[int, datetime]:
    """Number of the query -> the time of its latest value; later pages have earlier ones only."""
    return {
        int(result["Id"][1:]): max(result["Timestamps"]).astimezone(UTC)
        for result in answer["MetricDataResults"]
        if result["Timestamps"]
    }
