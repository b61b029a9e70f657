"""The partition that a region's name belongs to."""

from __future__ import annotations

import pytest
from botocore.loaders import Loader

from ec2spawner.core.partitions import (
    currency,
    dns_suffix,
    ec2_principal,
    is_aws,
    why_prices_are_unknown,
)

PUBLIC = ("aws", "aws-cn", "aws-eusc", "aws-us-gov")


def test_the_domains_are_those_of_botocore() -> None:
    partitions = Loader().load_data("partitions")["partitions"]
    domains = {
        region: each["outputs"]["dnsSuffix"]
        for each in partitions
        if each["id"] in PUBLIC
        for region in each["regions"]
        if not region.endswith("-global")
    }
    assert {"cn-north-1", "eusc-de-east-1", "us-gov-west-1"} < domains.keys()
    assert {region: dns_suffix(region) for region in domains} == domains


def test_endpoints_of_aws_are_known_from_others() -> None:
    partitions = Loader().load_data("partitions")["partitions"]
    for each in partitions:
        if each["id"] in PUBLIC:
            for suffix in ("dnsSuffix", "dualStackDnsSuffix"):
                assert is_aws(f"https://ec2.region.{each['outputs'][suffix]}")
    assert is_aws("https://vpce-1-2.ec2.us-east-1.vpce.amazonaws.com")
    for other in ("http://ec2.us-east-1.amazonaws.com", "https://localhost:4566"):
        assert not is_aws(other)
    assert not is_aws("https://amazonaws.com.example.org")
    assert not is_aws("https://ec2.notamazonaws.com")


@pytest.mark.parametrize(
    ("region", "principal"),
    [
        ("us-east-1", "ec2.amazonaws.com"),
        ("us-gov-west-1", "ec2.amazonaws.com"),
        ("eusc-de-east-1", "ec2.amazonaws.com"),
        ("cn-north-1", "ec2.amazonaws.com.cn"),
    ],
)
def test_roles_are_passed_to_ec2_by_its_name_in_the_partition(region: str, principal: str) -> None:
    assert ec2_principal(region) == principal


@pytest.mark.parametrize(
    ("region", "coin", "said"),
    [
        ("eu-central-1", "USD", ""),
        ("us-gov-east-1", "USD", "on-demand prices"),
        ("cn-northwest-1", "CNY", "CNY"),
        ("eusc-de-east-1", "EUR", "EUR"),
    ],
)
def test_prices_are_unknown_with_a_reason(region: str, coin: str, said: str) -> None:
    assert currency(region) == coin
    why = why_prices_are_unknown(region)
    assert bool(why) == bool(said)
    assert said in why
