"""What a hub reads of an account and a region, through boto3: prices, quotas, what is there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from ec2spawner.core.offers.quotas import QUOTAS
from ec2spawner.data import instance_types

LINUX = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "regionCode": "us-east-1",
}


def code(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as refused:
        call()
    return refused.value.response["Error"]["Code"]


# --- the Price List API -----------------------------------------------------------------------


def products(lab: Any, kind: str = "TERM_MATCH", **filters: str) -> list[Any]:
    pages = (
        lab.client("pricing")
        .get_paginator("get_products")
        .paginate(
            ServiceCode="AmazonEC2",
            Filters=[{"Type": kind, "Field": f, "Value": v} for f, v in filters.items()],
            PaginationConfig={"PageSize": 10},
        )
    )
    return [json.loads(text) for page in pages for text in page["PriceList"]]


def usd(product: Any) -> float:
    (term,) = product["terms"]["OnDemand"].values()
    (dimension,) = term["priceDimensions"].values()
    assert dimension["unit"] == "Hrs"
    price = dimension["pricePerUnit"]["USD"]
    assert isinstance(price, str)
    return float(price)


def test_the_price_of_an_instance_type_on_demand(lab: Any) -> None:
    (found,) = products(lab, instanceType="g4dn.xlarge", **LINUX)

    assert usd(found) == instance_types()["g4dn.xlarge"].on_demand_usd_per_hour
    attributes = found["product"]["attributes"]
    assert attributes["instanceType"] == "g4dn.xlarge"
    assert attributes["vcpu"] == "4"
    assert attributes["usagetype"] == "BoxUsage:g4dn.xlarge"


def test_all_prices_by_pages(lab: Any) -> None:
    found = products(lab, **LINUX)

    priced = {
        name: known.on_demand_usd_per_hour
        for name, known in instance_types().items()
        if known.on_demand_usd_per_hour is not None
    }
    shown = {p["product"]["attributes"]["instanceType"]: usd(p) for p in found}
    assert len(found) == len(shown)
    assert shown == pytest.approx(priced)


def test_without_a_filter_other_products_are_listed(lab: Any) -> None:
    def prices(*without: str) -> set[float]:
        kept = {field: value for field, value in LINUX.items() if field not in without}
        return {usd(product) for product in products(lab, instanceType="g5.xlarge", **kept)}

    listed = instance_types()["g5.xlarge"].on_demand_usd_per_hour
    assert prices() == {listed}
    assert min(prices("capacitystatus")) == 0
    assert max(prices("tenancy")) > listed
    assert max(prices("operatingSystem")) > listed
    assert products(lab, **{**LINUX, "regionCode": "eu-west-1"}) == []
    assert len(products(lab, kind="ANY_OF", instanceType="g5.xlarge,g5.2xlarge")) == 10


def test_an_unknown_filter_is_refused(lab: Any) -> None:
    assert code(lambda: products(lab, instancetype="g5.xlarge")) == "InvalidParameterException"
    assert code(lambda: products(lab, kind="LIKE", vcpu="4")) == "InvalidParameterException"
    pricing = lab.client("pricing")
    assert code(lambda: pricing.get_products(ServiceCode="AmazonS3")) == "NotFoundException"
    assert code(
        lambda: pricing.get_products(ServiceCode="AmazonEC2", NextToken="no such page")
    ) == ("InvalidNextTokenException")


def test_an_on_demand_price_can_be_set_and_decides_what_a_fleet_takes(lab: Any) -> None:
    order = {"instance_type": "g6.2xlarge", "usd_per_hour": 0.01, "market": "on-demand"}
    listed = instance_types()["g6.2xlarge"].on_demand_usd_per_hour
    lab.control("prices", order)
    try:
        (found,) = products(lab, instanceType="g6.2xlarge", **LINUX)
        template = lab.template("dearer-is-cheaper")
        answer = lab.fleet(template, market="on-demand", types=("g6.xlarge", "g6.2xlarge"))
    finally:
        lab.control("prices", order | {"usd_per_hour": listed})
    assert usd(found) == 0.01
    assert answer["Instances"][0]["InstanceType"] == "g6.2xlarge"


def test_the_price_list_can_fail(lab: Any) -> None:
    lab.control("faults", {"action": "GetProducts", "kind": "AccessDeniedException"})

    assert code(lambda: products(lab, **LINUX)) == "AccessDeniedException"
    assert lab.control("calls")[-1] | {"time": ""} == {
        "time": "",
        "action": "GetProducts",
        "outcome": "AccessDeniedException",
    }


# --- spot prices ------------------------------------------------------------------------------


def test_price_history_takes_constant_time_per_type(
    lab: Any,
) -> None:
    """Pages are served as they are asked for: nothing is computed again for each page."""
    names = [name for name, known in instance_types().items() if known.gpu][:30]

    def seconds_for_each(types: Sequence[str]) -> float:
        pages = lab.ec2.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=types,
            ProductDescriptions=["Linux/UNIX"],
            StartTime=datetime.now(UTC) - timedelta(days=7),
            PaginationConfig={"PageSize": 300},
        )
        # Of client and server, which are one process here.
        began = time.process_time()
        rows = [row for page in pages for row in page["SpotPriceHistory"]]
        taken = time.process_time() - began
        pools = {(row["InstanceType"], row["AvailabilityZone"]) for row in rows}
        assert {name for name, _ in pools} == {*types}
        assert len(rows) > 20 * len(pools)
        return taken / len(rows)

    few = seconds_for_each(names[:3])
    assert seconds_for_each(names) < 5 * few


# --- quotas -----------------------------------------------------------------------------------


def test_quotas_by_code_and_by_list(lab: Any) -> None:
    lab.control("limits", {"quotas": {"spot": {"g": 0}, "on-demand": {"g": 96}}})
    client = lab.client("service-quotas")

    pages = client.get_paginator("list_service_quotas").paginate(
        ServiceCode="ec2", PaginationConfig={"PageSize": 5}
    )
    listed = {quota["QuotaCode"]: quota for page in pages for quota in page["Quotas"]}
    spot = client.get_service_quota(ServiceCode="ec2", QuotaCode="L-3819A6DF")["Quota"]

    assert spot["QuotaName"] == "All G and VT Spot Instance Requests"
    assert spot["Value"] == 0
    assert listed["L-DB2E81BA"]["QuotaName"] == "Running On-Demand G and VT instances"
    assert listed["L-DB2E81BA"]["Value"] == 96
    assert listed["L-1216C47A"]["Value"] == 100_000
    assert listed.keys() == {quota.code for quota in QUOTAS.values()}


def test_an_unknown_quota_is_an_error(lab: Any) -> None:
    client = lab.client("service-quotas")

    unknown = {"ServiceCode": "ec2", "QuotaCode": "L-00000000"}
    assert code(lambda: client.get_service_quota(**unknown)) == "NoSuchResourceException"
    assert code(lambda: client.list_service_quotas(ServiceCode="s3")) == "NoSuchResourceException"
    lab.control("faults", {"action": "ListServiceQuotas", "kind": "AccessDeniedException"})
    assert code(lambda: client.list_service_quotas(ServiceCode="ec2")) == "AccessDeniedException"


# --- reservations -----------------------------------------------------------------------------


def test_reserved_instances_are_the_configured_ones(lab: Any) -> None:
    assert lab.ec2.describe_reserved_instances()["ReservedInstances"] == []
    soon, past = (datetime.now(UTC) + timedelta(days=days) for days in (30, -1))
    lab.control(
        "reservations",
        {
            "reservations": [
                {"instance_type": "g5.xlarge", "count": 4, "usd_per_hour": 0.63},
                {
                    "instance_type": "g6.xlarge",
                    "count": 1,
                    "usd_per_hour": 0.2,
                    "upfront_usd": 1000.0,
                    "until": soon.isoformat(),
                    "zone": "us-east-1b",
                },
                {
                    "instance_type": "g4dn.xlarge",
                    "count": 1,
                    "usd_per_hour": 0.1,
                    "until": past.isoformat(),
                },
            ]
        },
    )

    active = [{"Name": "state", "Values": ["active"]}]
    regional, zonal = lab.ec2.describe_reserved_instances(Filters=active)["ReservedInstances"]

    assert regional["InstanceType"] == "g5.xlarge"
    assert regional["InstanceCount"] == 4
    assert regional["Scope"] == "Region"
    assert "AvailabilityZone" not in regional
    assert regional["RecurringCharges"] == [{"Amount": 0.63, "Frequency": "Hourly"}]
    assert regional["End"] > datetime.now(UTC) + timedelta(days=360)
    assert zonal["Scope"] == "Availability Zone"
    assert zonal["AvailabilityZone"] == "us-east-1b"
    assert zonal["FixedPrice"] == 1000
    assert abs(zonal["End"] - soon) < timedelta(seconds=1)
    every = lab.ec2.describe_reserved_instances()["ReservedInstances"]
    assert [found["State"] for found in every] == ["active", "active", "retired"]
    unknown = [{"Name": "colour", "Values": ["red"]}]
    assert (
        code(lambda: lab.ec2.describe_reserved_instances(Filters=unknown))
        == "InvalidParameterValue"
    )


# --- what is there ----------------------------------------------------------------------------


def test_caller_identity_and_assumed_roles(lab: Any) -> None:
    caller = lab.client("sts").get_caller_identity()
    iam = lab.client("iam")
    iam.create_instance_profile(InstanceProfileName="here")

    assert caller["Account"] == lab.facts.account
    assert caller["Arn"].startswith(f"arn:aws:sts::{lab.facts.account}:")
    assert iam.get_instance_profile(InstanceProfileName="here")["InstanceProfile"]["Arn"] == (
        f"arn:aws:iam::{lab.facts.account}:instance-profile/here"
    )
    assert code(lambda: iam.get_instance_profile(InstanceProfileName="gone")) == "NoSuchEntity"


def test_regions_and_zones(lab: Any) -> None:
    regions = lab.ec2.describe_regions()["Regions"]
    zones = lab.ec2.describe_availability_zones()["AvailabilityZones"]

    assert {"us-east-1", "eu-central-1"} <= {region["RegionName"] for region in regions}
    assert [zone["ZoneName"] for zone in zones] == lab.facts.zones
    assert {zone["State"] for zone in zones} == {"available"}


def test_subnets_groups_and_keys(lab: Any) -> None:
    subnets = lab.ec2.describe_subnets(SubnetIds=lab.facts.subnets)["Subnets"]
    assert {s["SubnetId"]: s["AvailabilityZone"] for s in subnets} == dict(
        zip(lab.facts.subnets, lab.facts.zones, strict=True)
    )
    assert len({subnet["VpcId"] for subnet in subnets}) == 1
    nobodys = "subnet-0123456789abcdef0"
    assert code(lambda: lab.ec2.describe_subnets(SubnetIds=[nobodys])) == "InvalidSubnetID.NotFound"

    found = lab.ec2.describe_security_groups(GroupIds=[lab.facts.security_group])
    assert found["SecurityGroups"][0]["VpcId"] == subnets[0]["VpcId"]
    assert (
        code(lambda: lab.ec2.describe_security_groups(GroupIds=["sg-0123456789abcdef0"]))
        == "InvalidGroup.NotFound"
    )

    lab.ec2.create_key_pair(KeyName="admin")
    assert lab.ec2.describe_key_pairs(KeyNames=["admin"])["KeyPairs"][0]["KeyName"] == "admin"
    assert (
        code(lambda: lab.ec2.describe_key_pairs(KeyNames=["nobodys"])) == "InvalidKeyPair.NotFound"
    )


def test_types_and_their_zones(lab: Any) -> None:
    def offered(**filters: list[str]) -> set[tuple[str, str]]:
        pages = lab.ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone",
            Filters=[{"Name": n.replace("_", "-"), "Values": v} for n, v in filters.items()],
            PaginationConfig={"PageSize": 100},
        )
        return {
            (found["InstanceType"], found["Location"])
            for page in pages
            for found in page["InstanceTypeOfferings"]
        }

    def named(*values: str) -> set[str]:
        names = {"Name": "instance-type", "Values": values}
        shown = lab.ec2.describe_instance_types(Filters=[names])["InstanceTypes"]
        return {each["InstanceType"] for each in shown}

    assert offered(instance_type=["p4de.24xlarge"]) == {
        ("p4de.24xlarge", "us-east-1b"),
        ("p4de.24xlarge", "us-east-1c"),
    }
    in_e = {name for name, _ in offered(location=["us-east-1e"])}
    assert "p5.48xlarge" in in_e
    assert "g5.xlarge" not in in_e

    described = lab.ec2.describe_instance_types(InstanceTypes=["g4dn.xlarge"])["InstanceTypes"]
    assert described[0]["VCpuInfo"]["DefaultVCpus"] == 4
    assert described[0]["GpuInfo"]["Gpus"][0]["Name"] == "T4"
    assert (
        code(lambda: lab.ec2.describe_instance_types(InstanceTypes=["z9.huge"]))
        == "InvalidInstanceType"
    )
    assert named("t3.micro", "g4dn.?xlarge", "z9.huge") == {
        "t3.micro",
        "g4dn.2xlarge",
        "g4dn.4xlarge",
        "g4dn.8xlarge",
    }
    assert named("p4d*") == {"p4d.24xlarge", "p4de.24xlarge"}
    assert named("p4d", "*.huge") == set()


def test_the_image_by_id_by_name_and_by_parameter(lab: Any) -> None:
    by_name = lab.ec2.describe_images(
        Owners=["amazon"],
        Filters=[
            {"Name": "name", "Values": ["Deep Learning OSS Nvidia Driver AMI GPU PyTorch *"]},
            {"Name": "architecture", "Values": ["x86_64"]},
            {"Name": "state", "Values": ["available"]},
        ],
    )["Images"]
    ssm = lab.client("ssm")
    prefix = "/aws/service/deeplearning/ami"
    name = "oss-nvidia-driver-gpu-pytorch-2.7-ubuntu-22.04/latest/ami-id"

    assert [image["ImageId"] for image in by_name] == [lab.facts.image_id]
    assert by_name[0]["RootDeviceName"] == "/dev/sda1"
    assert by_name[0]["Architecture"] == "x86_64"
    found = ssm.get_parameter(Name=f"{prefix}/x86_64/{name}")["Parameter"]
    assert found["Value"] == lab.facts.image_id
    assert code(lambda: ssm.get_parameter(Name=f"{prefix}/arm64/{name}")) == "ParameterNotFound"
    assert code(lambda: ssm.get_parameter(Name="/nobodys")) == "ParameterNotFound"
