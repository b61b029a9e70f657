"""The account's quotas, from Service Quotas."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.offers.quotas import ListedQuota
from ..calls.client import Answer, Client, entries


class Quotas:
    """EC2's quotas of one region."""

    client: Client

    async def quotas(self) -> Sequence[ListedQuota]:
        """All of them, as Service Quotas lists them. Raises `CloudError`."""
        return await list_quotas(self.client)


async def list_quotas(client: Client) -> Sequence[ListedQuota]:
    """EC2's quotas of the account and region. Raises `CloudError`."""
    return await client.pages(
        "list_service_quotas",
        entries("Quotas", _quota),
        service="service-quotas",
        ServiceCode="ec2",
    )


def _quota(quota: Answer) -> ListedQuota:
    return ListedQuota(quota["QuotaCode"], quota["QuotaName"], float(quota["Value"]))
