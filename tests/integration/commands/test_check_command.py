"""`ec2spawner check` finds what would not work, says how to fix it, and changes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.calls.client import Client
from ec2spawner.check.dry_runs import COPY_HOME, OF_EXISTING
from ec2spawner.check.facts.account import Account
from ec2spawner.core.tags import HOME, HUB, STORE
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest, LaunchSpec
from ec2spawner.provisioner.model.cloud.volume import VolumeSpec
from ec2spawner.wire import Market
from tests.forked_command import Ended
from tests.harness import CONFIG, Embedded
from tests.integration.commands.admin import Admin

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.usefixtures("known_at_once"),
]

CHANGING = ("Create", "Run", "Terminate", "Delete", "Attach", "Detach", "Modify", "Start", "Stop")


@dataclass(frozen=True)
class UnhealthyInstances:
    """A hub and an account with several faults at once, that do not hide each other."""

    arguments: tuple[str, ...] = ()
    controls: tuple[tuple[str, dict[str, Any]], ...] = ()
    """Orders to the embedded EC2, in force while the check runs; `*` is every subnet."""
    undo: tuple[tuple[str, dict[str, Any]], ...] = ()
    environment: dict[str, str | None] = field(default_factory=dict)
    demo: dict[str, Any] = field(default_factory=dict)


def denied(action: str) -> tuple[str, dict[str, Any]]:
    return "faults", {"action": action, "kind": "UnauthorizedOperation", "times": 1}


BROKEN: dict[str, UnhealthyInstances] = {
    "options": UnhealthyInstances(
        arguments=(
            "--EC2Spawner.subnet=['subnet-1']",
            "--EC2Spawner.subnets=[]",
            "--EC2Spawner.image=ubuntu",
            "--EC2Spawner.key_name=nobodys",
            "--EC2Spawner.hub_api_url=http://10.0.0.5:8081",
            (
                "--EC2Spawner.profile_list=[{'display_name': 'A', 'gpu': 'A1000'}, "
                "{'display_name': 'T4', 'gpu': 'T4'}]"
            ),
        ),
        controls=(("limits", {"quotas": {"spot": 0, "on-demand": 8}}),),
        undo=(("limits", {"quotas": {"spot": None, "on-demand": None}}),),
    ),
    "credentials": UnhealthyInstances(
        environment={
            "AWS_ACCESS_KEY_ID": None,
            "AWS_SECRET_ACCESS_KEY": None,
            "AWS_EC2_METADATA_DISABLED": "true",
            "HOME": "/nonexistent",
            "PATH": "/nonexistent",
        },
        arguments=("--EC2Spawner.store_url=sqlite:////nonexistent/ec2spawner.sqlite",),
    ),
    "account": UnhealthyInstances(
        arguments=(
            "--EC2Spawner.security_groups=['sg-0123456789abcdef0']",
            "--EC2Spawner.instance_profile=notebooks",
            "--EC2Spawner.key_name=nobodys",
            "--EC2Spawner.hub_api_url=http://hub.invalid:8081/hub/api",
            (
                "--EC2Spawner.profile_list=[{'display_name': 'Rare', 'instance_types': "
                "['zz9.huge']}, {'display_name': 'T4', 'gpu': 'T4'}, {'display_name': 'Slip', "
                "'instance_types': ['g4nd.xlarge']}]"
            ),
            "--EC2Spawner.home={'kind': 'efs', 'file_system': 'fs-0123456789abcdef0'}",
            (
                "--EC2Spawner.data_volumes=[{'snapshot': 'snap-0123456789abcdef0', "
                "'path': '/data/course'}]"
            ),
        ),
        controls=(
            denied("CreateFleet"),
            denied("DescribeSpotPriceHistory"),
            ("limits", {"quotas": {"spot": 0, "on-demand": 0}}),
            ("account", {"plan": "free"}),
        ),
        undo=(
            ("limits", {"quotas": {"spot": None, "on-demand": None}}),
            ("account", {"plan": "paid"}),
        ),
    ),
    "image": UnhealthyInstances(
        arguments=(
            "--test-alarms",
            "--EC2Spawner.alarms=['json://127.0.0.1:1/']",
            "--EC2Spawner.image=ami-0123456789abcdef0",
            "--EC2Spawner.limits={'hub': {'usd_per_hour': 0.01}}",
            "--EC2Spawner.warm_pool=[{'profile': 't4-16-gb', 'running': 1, 'usd_per_hour': 0.02}]",
            (
                "--EC2Spawner.discounts=[{'instance_type': 'g4dn.xlarge', 'usd_per_hour': 10, "
                "'count': 1}]"
            ),
        ),
        controls=(("addresses", {"subnet_id": "*", "available": 0}),),
        undo=(("addresses", {"subnet_id": "*", "available": None}),),
        demo={"hub_api_bind_url": "http://127.77.77.77:8081"},
    ),
    "subnet": UnhealthyInstances(
        arguments=(
            "--EC2Spawner.architecture=arm64",
            "--EC2Spawner.profile_list=[{'display_name': 'ARM', 'vcpus': 2}]",
            "--EC2Spawner.hub_api_url=http://127.77.77.78:8081/hub/api",
        ),
        demo={
            "subnets": ["subnet-0123456789abcdef0"],
            "hub_api_bind_url": "http://127.77.77.77:8081",
        },
    ),
}

FAULTS: dict[str, tuple[str, str, str, str]] = {
    "misspelt-option": (
        "options",
        "c.EC2Spawner.subnet",
        "there is no such option",
        "did you mean subnets",
    ),
    "no-credentials": ("credentials", "credentials", "no AWS credentials", "instance role"),
    "no-openssl": ("credentials", "openssl", "not on the PATH", "apt-get install openssl"),
    "no-folder-for-the-store": (
        "credentials",
        "store",
        "there is no folder /nonexistent",
        "c.EC2Spawner.store_url",
    ),
    "no-permission": (
        "account",
        "permission ec2:CreateFleet",
        "not granted",
        "configs/iam-policy.json",
    ),
    "security-group-gone": (
        "account",
        "security groups",
        "InvalidGroup.NotFound",
        "c.EC2Spawner.security_groups",
    ),
    "instance-profile-gone": (
        "account",
        "instance profile",
        "NoSuchEntity",
        "c.EC2Spawner.instance_profile",
    ),
    "key-pair-gone": ("account", "key pair", "InvalidKeyPair.NotFound", "c.EC2Spawner.key_name"),
    "quota-of-0": (
        "account",
        'quota of "T4"',
        "spot none (0 vCPUs, one g4dn.xlarge needs 4); on-demand none (0 vCPUs",
        "Running On-Demand G and VT instances",
    ),
    "free-plan": (
        "account",
        "plan of the account",
        "T4 cannot start",
        "change to the paid plan",
    ),
    "type-not-in-zones": (
        "account",
        'profile "Rare"',
        "EC2 has no instance type zz9.huge in this region",
        "ec2spawner prices",
    ),
    "type-misspelt": (
        "account",
        'profile "Slip"',
        "EC2 has no instance type g4nd.xlarge in this region",
        "did you mean g4dn.xlarge?",
    ),
    "file-system-gone": (
        "account",
        "EFS file system",
        "fs-0123456789abcdef0 has no mount target",
        "c.EC2Spawner.home",
    ),
    "snapshot-gone": (
        "account",
        "data volume snap-0123456789abcdef0",
        "InvalidSnapshot.NotFound",
        "data_volumes",
    ),
    "address-without-its-path": (
        "options",
        "c.EC2Spawner.hub_api_url",
        '"http://10.0.0.5:8081" does not end with /hub/api',
        'c.EC2Spawner.hub_api_url = "http://10.0.0.5:8081/hub/api"',
    ),
    "no-subnets": ("options", "c.EC2Spawner.subnets", "no subnet is given", "subnet-..."),
    "key-pair-gone-beside-a-wrong-option": (
        "options",
        "key pair",
        "InvalidKeyPair.NotFound",
        "c.EC2Spawner.key_name",
    ),
    "prices-unreadable": (
        "account",
        "prices spot",
        "UnauthorizedOperation",
        "ec2:DescribeSpotPriceHistory",
    ),
    "hub-name-unknown": (
        "account",
        "hub address",
        "hub.invalid has no address",
        'c.EC2Spawner.hub_api_url = "http://<private address of the hub>:8081/hub/api"',
    ),
    "image-gone": ("image", "image", "InvalidAMIID", "c.EC2Spawner.image"),
    "alarms-not-accepted": (
        "image",
        "alarms to json #1",
        "not accepted",
        "Apprise's documentation",
    ),
    "no-free-address": ("image", "subnets", "none has a free address", "larger subnets"),
    "subnet-of-nobody": (
        "subnet",
        "subnets",
        "InvalidSubnetID.NotFound",
        "c.EC2Spawner.subnets",
    ),
    "wrong-architecture": (
        "subnet",
        "image",
        "is for x86_64, not for arm64",
        "c.EC2Spawner.architecture",
    ),
    "hub-name-of-another": (
        "subnet",
        "hub address",
        "does not lead to where the hub listens",
        "c.EC2Spawner.hub_api_url",
    ),
}
"""Which check finds it, in which line, and words of its message and of the fix."""


async def order(embedded: Embedded, path: str, body: dict[str, Any]) -> None:
    every = embedded.described["subnets"] if body.get("subnet_id") == "*" else [None]
    for subnet in every:
        await embedded.control(path, {**body, "subnet_id": subnet} if subnet else body)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checked(admin: Admin, embedded: Embedded) -> dict[str, Ended]:
    """Each broken hub, checked once."""
    found: dict[str, Ended] = {}
    for name, broken in BROKEN.items():
        for control in broken.controls:
            await order(embedded, *control)
        try:
            found[name] = await admin.checks(
                *broken.arguments, environment=broken.environment, demo=broken.demo
            )
        finally:
            for control in broken.undo:
                await order(embedded, *control)
    return found


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("limits.hub.usd_per_hour", "USD 0.01 refuses every start: the cheapest of"),
        ("warm_pool[0].running", "c.EC2Spawner.limits.hub.usd_per_hour is 0.01"),
        ("discounts[0].usd_per_hour", 'USD 10 is more than "instance_type" g4dn.xlarge costs'),
    ],
)
async def test_what_no_price_fits_is_a_warning(
    checked: dict[str, Ended], option: str, said: str
) -> None:
    [finding] = [
        each
        for each in checked["image"].json["findings"]
        if each["name"] == f"c.EC2Spawner.{option}"
    ]
    assert (finding["code"], finding["state"]) == ("option", "warning")
    assert said in finding["said"]


@pytest.mark.parametrize("name", FAULTS)
async def test_a_seeded_fault_is_found_with_its_fix(checked: dict[str, Ended], name: str) -> None:
    broken, line, said, fix = FAULTS[name]
    ended = checked[broken]
    assert ended.status == 1, ended.output + ended.errors
    assert ended.json["passed"] is False
    findings = [f for f in ended.json["findings"] if f["name"] == line]
    assert [f["state"] for f in findings] == ["failed"], ended.output
    assert said in findings[0]["said"]
    assert fix in findings[0]["fix"]


async def test_check_passes_on_the_demo_and_changes_nothing(
    admin: Admin, embedded: Embedded
) -> None:
    before = len(await embedded.control("calls"))
    ended = await admin.checks()
    assert ended.status == 0, ended.output + ended.errors
    findings = {f["name"]: f for f in ended.json["findings"]}
    assert not [f for f in findings.values() if f["state"] == "failed"]
    assert findings["subnets"]["state"] == "ok"
    assert findings["plan of the account"]["said"] == "AWS's paid plan (ACTIVE)"
    assert findings["permission ec2:RunInstances"]["state"] == "ok"
    assert findings["image"]["said"].startswith(embedded.described["image_id"])
    assert await embedded.instances() == []
    calls = (await embedded.control("calls"))[before:]
    changing = [c for c in calls if c["action"].startswith(CHANGING)]
    assert changing, "launch permissions are tried"
    assert "ok" not in {c["outcome"] for c in changing}


@pytest.mark.nightly(
    guard="tests/unit/check/test_check_report.py::test_findings_are_grouped_by_section"
)
async def test_without_json_the_output_is_a_table(admin: Admin) -> None:
    ended = await admin.types("check", f"--config={CONFIG}")
    assert ended.status == 0, ended.output + ended.errors
    assert "✓ ok" in ended.output
    assert "Nothing was started or changed." in ended.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("c = get_config()\nc.JupyterHub.bind_url = undefined_name\n", "line 2: NameError"),
        ('import sys\nsys.exit("not today")\n', "line 2: SystemExit: not today"),
        ("c = \n", "line 1: SyntaxError"),
        ('c.JupyterHub.spawner_class = "ec3"\n', "'ec3' could not be imported"),
        (None, "does not exist"),
    ],
)
async def test_a_file_that_is_broken_or_not_there_is_a_finding(
    admin: Admin, text: str | None, said: str
) -> None:
    path = admin.directory / ("nowhere_config.py" if text is None else "broken_config.py")
    if text is not None:
        path.write_text(text)
    ended = await admin.types("check", f"--config={path}", "--json")
    assert ended.status == 1
    assert "Traceback" not in ended.errors
    [finding] = ended.json["findings"]
    assert said in finding["said"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--config=.",), "is a folder"),
        ((f"--config={CONFIG}", "--nonsense=1"), "there is no option --nonsense=1"),
        ((f"--config={CONFIG}", "--EC2Spawner.region"), "expected one argument"),
    ],
)
async def test_a_wrong_command_line_is_a_finding(
    admin: Admin, arguments: tuple[str, ...], said: str
) -> None:
    ended = await admin.types("check", "--json", *arguments)
    assert ended.status == 1
    [finding] = ended.json["findings"]
    assert said in finding["said"]
    assert finding["fix"]


async def test_output_of_the_configuration_file_is_kept_out_of_the_result(admin: Admin) -> None:
    talkative = admin.directory / "talkative_config.py"
    talkative.write_text(f'print("hello")\n{CONFIG.read_text()}')
    ended = await admin.types("check", f"--config={talkative}", "--json")
    assert ended.json["passed"] is True
    assert "hello" in ended.errors


async def test_permissions_on_the_hubs_own_resources_are_tried_and_nothing_is_terminated(
    admin: Admin, embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in embedded.credentials.items():
        monkeypatch.setenv(name, value)
    described = embedded.described
    zone, tags = f"{described['region']}a", {HUB: "demo", STORE: "another"}
    cloud = EC2Cloud(described["region"], described["ec2_endpoint"])
    [subnet] = [s for s, z in (await cloud.zones_of(described["subnets"])).items() if z == zone]
    spec = LaunchSpec(
        ("g4dn.xlarge",), (subnet,), described["image_id"], (Market.ON_DEMAND,), disk_gib=75
    )
    request = LaunchRequest(
        "check", Market.ON_DEMAND, 1, spec, tags, offers=(("g4dn.xlarge", subnet),)
    )
    answer = await cloud.launch(request)
    home = await cloud.create_volume("home", zone, VolumeSpec(8), tags | {HOME: "home-1"})
    await cloud.create_snapshot(home.volume_id, tags)
    copying = admin.directory / "copying_config.py"
    copying.write_text(f'{CONFIG.read_text()}\nc.EC2Spawner.home = {{"named_servers": "copy"}}\n')
    try:
        ended = await admin.types("check", f"--config={copying}", "--json")
        assert ended.status == 0, ended.output
        states = {f["name"]: f["state"] for f in ended.json["findings"]}
        for action in (*OF_EXISTING, COPY_HOME):
            assert states[f"permission {action}"] == "ok", ended.output
        assert states["permission ec2:CreateFleet"] == "ok", "tried with the template of the hub"
        assert states["permission ec2:CreateSecurityGroup"] == "ok", "the demo has clusters"
        [instance] = await embedded.instances()
        assert instance["instance_id"] == answer.instances[0].instance_id
    finally:
        await cloud.terminate([each.instance_id for each in answer.instances])
        await cloud.close()


async def test_a_wrong_option_does_not_hide_other_findings(
    checked: dict[str, Ended],
) -> None:
    found = {f["name"]: f for f in checked["options"].json["findings"]}
    assert {"c.EC2Spawner.subnet", "c.EC2Spawner.image"} <= found.keys()
    assert 'c.EC2Spawner.profile_list[0].gpu ("A")' in found
    assert found["credentials"]["state"] == "ok"
    assert found["subnets"]["state"] == found["image"]["state"] == "unproved"
    assert found['profile "T4"']["state"] == "ok", "in any zone of the region"
    assert found['quota of "T4"']["state"] == "warning"
    assert "on-demand 2 (8 vCPUs" in found['quota of "T4"']["said"]
    assert found["prices spot"]["state"] == "ok"
    assert "hub address" not in found, "its option is wrong, and was named"


async def test_mount_targets_are_found_by_their_network_interfaces(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in embedded.credentials.items():
        monkeypatch.setenv(name, value)
    described, file_system = embedded.described, "fs-0a1b2c3d4e5f60718"
    client = Client(described["region"], described["ec2_endpoint"])
    try:
        for subnet in described["subnets"][:2]:
            await asyncio.to_thread(
                embedded.client().create_network_interface,
                SubnetId=subnet,
                Description=f"EFS mount target for {file_system} (fsmt-0123456789abcdef0)",
            )
        targets = await Account(client).mount_targets(file_system)
        assert {target.zone for target in targets} == set(described["zones"][:2])
        assert await Account(client).mount_targets(file_system[:-1]) == []
    finally:
        await client.close()
