"""EC2's basic monitoring: CPUUtilization of running instances in CloudWatch, every five minutes.

EC2 writes a value for each five minutes in which the instance ran, the last ones included: who asks
CloudWatch finds until when it did, long after EC2 lists it no more.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from ..api.moto_backend import Moto

PERIOD: Final = timedelta(minutes=5)


def record_run(moto: Moto, instance_id: str, start: datetime, end: datetime) -> None:
    """Write a value for each period that the run touches. In moto's thread; instants in UTC."""
    from moto.cloudwatch.models import cloudwatch_backends

    backend = cloudwatch_backends[moto.account][moto.region]
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    at = epoch + (start - epoch) // PERIOD * PERIOD
    while at <= end:
        backend.put_metric_data(
            "AWS/EC2",
            [
                {
                    "MetricName": "CPUUtilization",
                    "Dimensions": [{"Name": "InstanceId", "Value": instance_id}],
                    "Timestamp": at.replace(tzinfo=None),  # as moto keeps them
                    "Value": 1.0,
                    "Unit": "Percent",
                }
            ],
        )
        at += PERIOD
