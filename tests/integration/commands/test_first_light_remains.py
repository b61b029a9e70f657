"""What first-light deletes of earlier runs, and what it never believes to be gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from rich.console import Console

from ec2spawner.aws.ec2 import EC2Cloud
from ec2spawner.core.tags import HUB, STORE
from ec2spawner.first_light.cleanup import Owner, Waits, delete_everything
from ec2spawner.first_light.earlier_runs import delete_remains
from ec2spawner.first_light.preparation import NotStarted
from ec2spawner.first_light.run_folder import Run, RunFolder, interrupted
from ec2spawner.first_light.steps import Steps
from tests.harness import Embedded

pytestmark = pytest.mark.asyncio(loop_scope="module")

HUB_NAME = "demo"
QUICK = Waits(settled=0.0, unsettled=0.0, pause=0.05, timeout=30.0)


@dataclass
class KilledRun:
    """A run that was killed when it had made a volume and a launch template."""

    embedded: Embedded
    store_id: str

    def create(self) -> KilledRun:
        tags = [{"Key": HUB, "Value": HUB_NAME}, {"Key": STORE, "Value": self.store_id}]
        self.ec2.create_volume(
            AvailabilityZone="us-east-1a",
            Size=1,
            TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
        )
        self.ec2.create_launch_template(
            LaunchTemplateName=self.store_id,
            LaunchTemplateData={"InstanceType": "m5.large"},
            TagSpecifications=[{"ResourceType": "launch-template", "Tags": tags}],
        )
        return self

    @property
    def ec2(self) -> Any:
        return self.embedded.client()

    @property
    def account_id(self) -> str:
        return str(self.embedded.client("sts").get_caller_identity()["Account"])

    @property
    def owner(self) -> Owner:
        return Owner(HUB_NAME, self.store_id)

    def left(self) -> set[str]:
        """Kinds of what exists."""
        mine = [{"Name": f"tag:{STORE}", "Values": [self.store_id]}]
        found = {
            "volume": self.ec2.describe_volumes(Filters=mine)["Volumes"],
            "template": self.ec2.describe_launch_templates(Filters=mine)["LaunchTemplates"],
        }
        return {kind for kind, each in found.items() if each}

    def remembered(self, account_id: str = "", endpoint_url: str = "") -> Path:
        """The folder that it left."""
        described = self.embedded.described
        folder = RunFolder.create()
        folder.write(
            Run(
                account_id=account_id or self.account_id,
                region=described["region"],
                endpoint_url=endpoint_url or described["ec2_endpoint"],
                hub_name=HUB_NAME,
                store_id=self.store_id,
            )
        )
        folder.close(delete=False)
        return folder.path


@pytest_asyncio.fixture(loop_scope="module")
async def killed(
    embedded: Embedded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> AsyncIterator[KilledRun]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name, value in embedded.credentials.items():
        monkeypatch.setenv(name, value)
    await embedded.control("lag", {"seconds": 0})
    yield KilledRun(embedded, request.node.name[-30:])
    await embedded.clear_faults()


@pytest_asyncio.fixture(loop_scope="module")
async def cloud(killed: KilledRun) -> AsyncIterator[EC2Cloud]:
    described = killed.embedded.described
    made = EC2Cloud(described["region"], described["ec2_endpoint"])
    yield made
    await made.close()


def steps() -> Steps:
    return Steps(Console(), lambda: 0.0, quiet=True)


async def test_a_listing_that_fails_stops_no_other_deletion_and_is_reported(
    killed: KilledRun, cloud: EC2Cloud
) -> None:
    await asyncio.to_thread(killed.create)
    refused = {"action": "DescribeVolumes", "kind": "UnauthorizedOperation", "times": 1000}
    await killed.embedded.control("faults", refused)
    waits = Waits(pause=0.2, timeout=1.0)
    left = await delete_everything(cloud, killed.owner, lambda _: None, 0.0, waits)
    await killed.embedded.clear_faults()
    assert "volumes cannot be listed" in left
    assert "UnauthorizedOperation" in left
    assert await asyncio.to_thread(killed.left) == {"volume"}
    assert await delete_everything(cloud, killed.owner, lambda _: None, 0.0, QUICK) == ""
    assert await asyncio.to_thread(killed.left) == set()


async def test_what_listings_did_not_show_yet_is_deleted_too(killed: KilledRun) -> None:
    await killed.embedded.control("lag", {"seconds": 1.0})
    await asyncio.to_thread(killed.create)
    await killed.embedded.control("lag", {"seconds": 0})
    folder = killed.remembered()
    waits = Waits(settled=0.0, unsettled=1.8, pause=0.1)
    await delete_remains(interrupted(), steps(), waits)
    assert await asyncio.to_thread(killed.left) == set()
    assert not folder.exists()


async def test_a_run_is_remembered_until_its_clean_up_has_ended(killed: KilledRun) -> None:
    await asyncio.to_thread(killed.create)
    refused = {"action": "DeleteVolume", "kind": "UnauthorizedOperation", "times": 1000}
    await killed.embedded.control("faults", refused)
    folder = killed.remembered()
    clean_up = asyncio.create_task(delete_remains(interrupted(), steps(), QUICK))
    while "template" in await asyncio.to_thread(killed.left):
        await asyncio.sleep(0.05)
    clean_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await clean_up
    assert folder.exists()
    await killed.embedded.clear_faults()
    await delete_remains(interrupted(), steps(), QUICK)
    assert await asyncio.to_thread(killed.left) == set()
    assert not folder.exists()


async def test_credentials_of_another_account_prove_nothing(killed: KilledRun) -> None:
    await asyncio.to_thread(killed.create)
    folder = killed.remembered(account_id="999999999999")
    with pytest.raises(NotStarted, match=f"999999999999.*{killed.account_id}"):
        await delete_remains(interrupted(), steps(), QUICK)
    assert folder.exists()
    assert await asyncio.to_thread(killed.left) == {"volume", "template"}


async def test_where_aws_does_not_answer_the_folder_is_named_and_stays(killed: KilledRun) -> None:
    folder = killed.remembered(endpoint_url="http://127.0.0.1:1/")
    with pytest.raises(NotStarted, match=f"EndpointConnectionError.*{folder}"):
        await delete_remains(interrupted(), steps(), QUICK)
    assert folder.exists()
