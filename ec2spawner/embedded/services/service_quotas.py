"""Service Quotas: EC2's vCPU quotas, as the embedded EC2 enforces them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.offers.quotas import Quota
from ..api.json_service import page
from ..api.protocol import EC2Error
from ..instances.quotas import Quotas

SERVICE_CODE = "ec2"

ACTIONS = frozenset({"GetServiceQuota", "ListServiceQuotas", "RequestServiceQuotaIncrease"})

UNLIMITED_VCPUS = 100_000
"""What is shown of a quota that is not limited here: AWS has no word for it."""


class ServiceQuotas:
    """Answers ListServiceQuotas, GetServiceQuota and RequestServiceQuotaIncrease.

    Nobody decides about a request: it stays open.
    """

    def __init__(self, quotas: Quotas, account: str, region: str) -> None:
        self._quotas = quotas
        self._requested: dict[str, float] = {}
        self._prefix = f"arn:aws:servicequotas:{region}:{account}:{SERVICE_CODE}"

    async def answer(self, action: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Quotas in vCPUs; raises Service Quotas' errors for anything else."""
        if action not in ACTIONS:
            raise EC2Error("UnknownOperationException", f"The embedded EC2 has no {action}.")
        if asked.get("ServiceCode") != SERVICE_CODE:
            raise EC2Error("NoSuchResourceException", f"There is {SERVICE_CODE} here alone.")
        shown = [self._shown(quota, vcpus) for quota, vcpus in self._quotas]
        if action != "ListServiceQuotas":
            code = asked.get("QuotaCode")
            for quota in shown:
                if quota["QuotaCode"] == code:
                    return (
                        {"Quota": quota}
                        if action == "GetServiceQuota"
                        else self._request(quota, asked)
                    )
            raise EC2Error("NoSuchResourceException", f"There is no quota {code} of EC2 here.")
        rows, token = page(
            shown, asked, "IllegalArgumentException", "InvalidPaginationTokenException"
        )
        return {"Quotas": list(rows), **token}

    def _request(self, quota: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
        """Raises what AWS says to a second request, and to one for less."""
        code, desired = quota["QuotaCode"], float(asked.get("DesiredValue", 0))
        if code in self._requested:
            raise EC2Error(
                "ResourceAlreadyExistsException",
                "Only one open service quota increase request is allowed per quota.",
            )
        if desired <= quota["Value"]:
            raise EC2Error(
                "IllegalArgumentException",
                "You must provide a quota value greater than the current quota value.",
            )
        self._requested[code] = desired
        names = ("ServiceCode", "ServiceName", "QuotaArn", "QuotaCode", "QuotaName")
        shown = {name: quota[name] for name in names}
        return {"RequestedQuota": {**shown, "DesiredValue": desired, "Status": "PENDING"}}

    def _shown(self, quota: Quota, vcpus: int | None) -> dict[str, Any]:
        return {
            "ServiceCode": SERVICE_CODE,
            "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
            "QuotaArn": f"{self._prefix}/{quota.code}",
            "QuotaCode": quota.code,
            "QuotaName": quota.name,
            "Value": float(UNLIMITED_VCPUS if vcpus is None else vcpus),
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }
