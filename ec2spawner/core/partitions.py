"""AWS's partitions: separate clouds, with names and currencies of their own. Pure.

A region's name begins with its partition's prefix. Domains are those of botocore's
`partitions.json`, of the partitions `aws`, `aws-cn`, `aws-eusc` and `aws-us-gov`; the isolated ones
(`aws-iso` and others) are not supported. Prices in China and in the European Sovereign Cloud are in
other currencies, which nothing here converts.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

_DNS_SUFFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {"cn": "amazonaws.com.cn", "eusc": "amazonaws.eu"}
)
"""First word of a region's name -> domain of its services, where it is not `amazonaws.com`."""

_OF_AWS: Final = (
    "amazonaws.com",
    "api.aws",
    "amazonaws.com.cn",
    "api.amazonwebservices.com.cn",
    "amazonaws.eu",
    "api.amazonwebservices.eu",
)
"""Domains of services, those for both IPv4 and IPv6 included."""

_CURRENCIES: Final[Mapping[str, str]] = MappingProxyType({"cn": "CNY", "eusc": "EUR"})


def dns_suffix(region: str) -> str:
    """The domain of a region's services, such as `amazonaws.com.cn`."""
    return _DNS_SUFFIXES.get(_first_word(region), "amazonaws.com")


def is_aws(endpoint: str) -> bool:
    """Whether the URL of a service is AWS's own, in any partition, also by a VPC endpoint."""
    url = urlsplit(endpoint)
    host = url.hostname or ""
    return url.scheme == "https" and any(host.endswith(f".{each}") for each in _OF_AWS)


def ec2_principal(region: str) -> str:
    """EC2's name in trust policies and in `iam:PassedToService`.

    China's has the suffix of its domain, as "Identity and Access Management" in the user guide of
    AWS China says; that of the European Sovereign Cloud has not.
    """
    return "ec2.amazonaws.com.cn" if _first_word(region) == "cn" else "ec2.amazonaws.com"


def currency(region: str) -> str:
    """The currency of all prices of a region, such as `USD`."""
    return _CURRENCIES.get(_first_word(region), "USD")


def is_commercial(region: str) -> bool:
    """Whether the region is of the partition `aws`."""
    return currency(region) == "USD" and not is_gov_cloud(region)


def is_gov_cloud(region: str) -> bool:
    """Whether the region is of AWS GovCloud (US), whose partition has no Price List API."""
    return region.startswith("us-gov-")


def why_prices_are_unknown(region: str) -> str:
    """Why prices of a region cannot be shown, and what follows; empty where they can."""
    if currency(region) != "USD":
        return (
            f"prices in {region} are in {currency(region)}, and this hub counts in USD: prices and "
            "costs are unknown, and a user's price limit buys nothing"
        )
    if is_gov_cloud(region):
        return (
            f"the Price List API does not exist in the partition of {region}: on-demand prices "
            "and the costs of on-demand servers are unknown, spot prices are known"
        )
    return ""


def _first_word(region: str) -> str:
    return region.partition("-")[0]
