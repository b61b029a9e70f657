"""Launch templates that have served their time, over real HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.compute import templates
from ec2spawner.provisioner.model.cloud.instance import GONE
from ec2spawner.provisioner.model.cloud.launch import LaunchRequest, LaunchSpec
from ec2spawner.wire import Market

from .embedded_ec2 import SMALL, Embedded
from .scripted_ec2 import ScriptedEC2, error, ok


class Account:
    """A hub of its own in the shared embedded EC2, with a clock that the test moves."""

    def __init__(self, embedded: Embedded, hub: str) -> None:
        self.embedded = embedded
        self.hub, self.store = hub, str(uuid4())
        self.now = datetime.now(UTC)
        self.cloud = self.restarted()
        self.ec2 = embedded.client("ec2")

    def restarted(self) -> EC2Cloud:
        return EC2Cloud(self.embedded.region, self.embedded.endpoint, now=lambda: self.now)

    async def launch(self, **changes: Any) -> None:
        store = changes.pop("store", self.store)
        spec = LaunchSpec(
            instance_types=(SMALL,),
            subnets=self.embedded.subnets[:1],
            image_id=self.embedded.image_id,
            markets=(Market.ON_DEMAND,),
            disk_gib=80,
        )
        offers = ((SMALL, self.embedded.subnets[0]),)
        tags = {"ec2spawner:hub": self.hub, "ec2spawner:store": store}
        request = LaunchRequest(
            str(uuid4()), Market.ON_DEMAND, 1, replace(spec, **changes), tags, offers
        )
        answer = await self.cloud.launch(request)
        assert answer.instances, answer.errors

    async def clean(self, days: float) -> int:
        """Delete what was not used for so many days."""
        before = self.now - timedelta(days=days)
        return await self.cloud.delete_old_templates(self.hub, self.store, before)

    def templates(self, hub: str = "") -> int:
        described = self.ec2.describe_launch_templates(MaxResults=200)["LaunchTemplates"]
        return sum(
            {"Key": "ec2spawner:hub", "Value": hub or self.hub} in each["Tags"]
            for each in described
        )


@pytest.fixture
async def account(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Account]:
    hub = f"hub-{uuid4()}"
    for variable, value in embedded.key_of(hub).items():
        monkeypatch.setenv(variable, value)
    account = Account(embedded, hub)
    yield account
    listed = await account.cloud.list_instances(account.hub)
    await account.cloud.terminate([one.instance_id for one in listed if one.state not in GONE])
    await account.cloud.close()


async def test_unused_templates_are_deleted_and_created_again_when_needed(
    account: Account,
) -> None:
    await account.launch()
    assert await account.clean(days=7) == 0
    account.now += timedelta(days=8)
    assert await account.clean(days=7) == 1
    assert account.templates() == 0
    await account.launch()
    assert account.templates() == 1
    assert set(account.embedded.calls("CreateFleet")) == {"ok"}, "asked with what was deleted"


async def test_templates_used_since_are_kept(account: Account) -> None:
    await account.launch(disk_gib=81)
    await account.launch(disk_gib=82)
    account.now += timedelta(days=8)
    await account.launch(disk_gib=82)
    assert await account.clean(days=7) == 1
    assert account.templates() == 1
    made = len(account.embedded.calls("CreateLaunchTemplate"))
    await account.launch(disk_gib=82)
    assert len(account.embedded.calls("CreateLaunchTemplate")) == made, "it had been deleted"


async def test_templates_of_another_store_or_hub_are_kept(account: Account) -> None:
    other = f"another-{account.hub}"
    await account.launch(store=str(uuid4()))
    tags = [{"Key": "ec2spawner:hub", "Value": other}]
    account.ec2.create_launch_template(
        LaunchTemplateName=other,
        LaunchTemplateData={"ImageId": account.embedded.image_id},
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],
    )
    account.now += timedelta(days=8)
    assert await account.clean(days=7) == 0
    assert account.templates() == 1
    assert account.templates(other) == 1


async def test_a_restarted_hub_cleans_up_after_itself(account: Account) -> None:
    await account.launch()
    account.now += timedelta(days=8)
    await account.cloud.close()
    account.cloud = account.restarted()
    assert await account.clean(days=7) == 1


def listed(*names: str) -> str:
    items = "".join(
        f"<item><launchTemplateId>lt-{name}</launchTemplateId><launchTemplateName>{name}"
        f"</launchTemplateName><createTime>2026-01-0{name}T00:00:00Z</createTime></item>"
        for name in names
    )
    return f"<launchTemplates>{items}</launchTemplates>"


async def test_old_templates_in_use_do_not_protect_unused_ones(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "MAX_DELETED", 1)
    for disk_gib in (81, 82, 83):
        await account.launch(disk_gib=disk_gib)
    account.now += timedelta(days=8)
    await account.launch(disk_gib=81)
    await account.launch(disk_gib=82)
    assert await account.clean(days=7) == 1
    assert account.templates() == 2


async def test_a_template_deleted_by_others_meanwhile_is_no_error(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "MAX_DELETED", 2)
    ec2.will("DescribeLaunchTemplates", ok(listed("3", "1", "2")))
    gone = error("InvalidLaunchTemplateId.NotFound")
    ec2.will("DeleteLaunchTemplate", gone, ok())
    before = datetime(2026, 6, 1, tzinfo=UTC)
    assert await cloud.delete_old_templates("every*hub", "store", before) == 1
    [call] = ec2.made("DescribeLaunchTemplates")
    filters = {call[f"Filter.{n}.Name"]: call[f"Filter.{n}.Value.1"] for n in (1, 2)}
    assert filters == {"tag:ec2spawner:hub": "every\\*hub", "tag:ec2spawner:store": "store"}
    deleted = [call["LaunchTemplateId"] for call in ec2.made("DeleteLaunchTemplate")]
    assert deleted == ["lt-1", "lt-2"], "the oldest first, and no more than that at a time"
