"""A home's volume: attached once, to one instance, and let go of without complaint."""

from __future__ import annotations

import asyncio

import pytest

from ec2spawner.aws import EC2Cloud
from ec2spawner.aws.calls.batcher import SPACING
from ec2spawner.aws.storage import volumes
from ec2spawner.provisioner.model.cloud.cloud import CloudError
from ec2spawner.provisioner.model.cloud.volume import Volume, VolumeSpec
from tests.harness import until

from .scripted_ec2 import Call, Reply, ScriptedEC2, error, ok

ME, OTHER = "i-0000000000000000a", "i-0000000000000000b"


def volume(state: str, holder: str = "", attachment: str = "attached") -> str:
    attached = (
        f"<item><instanceId>{holder}</instanceId><status>{attachment}</status></item>"
        if holder
        else ""
    )
    return (
        "<volumeId>vol-1</volumeId><size>20</size><availabilityZone>us-east-1a</availabilityZone>"
        f"<status>{state}</status><volumeType>gp3</volumeType><attachmentSet>{attached}</attachmentSet>"
        "<tagSet><item><key>ec2spawner:home</key><value>home-1</value></item></tagSet>"
    )


def shown(*described: str) -> Reply:
    items = "".join(f"<item>{one}</item>" for one in described)
    return ok(f"<volumeSet>{items}</volumeSet>")


ATTACHED = shown(volume("in-use", ME))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "PAUSES", (0.01,))
    monkeypatch.setattr(volumes, "LAST_PAUSE", 0.02)
    monkeypatch.setattr(volumes, "POLL_WITHIN", 0.02)
    monkeypatch.setattr(volumes, "CONFIRM_WITHIN", 0.02)


async def test_create(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("CreateVolume", ok(volume("creating")))
    spec, tags = VolumeSpec(20), {"ec2spawner:hub": "class"}
    made = await cloud.create_volume("home-token", "us-east-1a", spec, tags)
    assert made == Volume(
        "vol-1", "us-east-1a", 20, "creating", None, {"ec2spawner:home": "home-1"}
    )
    (call,) = ec2.calls
    expected = {
        "AvailabilityZone": "us-east-1a",
        "Size": "20",
        "VolumeType": "gp3",
        "Encrypted": "true",
        "ClientToken": "home-token",
        "TagSpecification.1.ResourceType": "volume",
        "TagSpecification.1.Tag.1.Key": "ec2spawner:hub",
        "TagSpecification.1.Tag.1.Value": "class",
    }
    assert expected.items() <= call.items()
    assert "MultiAttachEnabled" not in call


@pytest.mark.parametrize(
    ("source", "spec", "encryption"),
    [
        ("true", VolumeSpec(20), {}),
        ("true", VolumeSpec(20, encrypted=False), {}),
        ("true", VolumeSpec(20, kms_key="alias/a"), {"Encrypted": "true", "KmsKeyId": "alias/a"}),
        ("false", VolumeSpec(20), {"Encrypted": "true"}),
        ("false", VolumeSpec(20, encrypted=False), {}),
    ],
)
async def test_a_copy_asks_for_encryption_only_where_it_would_not_be_that_of_its_source(
    cloud: EC2Cloud, ec2: ScriptedEC2, source: str, spec: VolumeSpec, encryption: dict[str, str]
) -> None:
    ec2.will("DescribeVolumes", shown(f"{volume('in-use', ME)}<encrypted>{source}</encrypted>"))
    ec2.will("CopyVolumes", shown(volume("creating")))
    of = await cloud.volume("vol-1")
    assert of is not None
    made = await cloud.copy_volume("home-token", of, spec, {"ec2spawner:hub": "class"})
    assert (made.volume_id, made.zone, made.state) == ("vol-1", "us-east-1a", "creating")
    call = ec2.calls[-1]
    expected = {
        "SourceVolumeId": "vol-1",
        "Size": "20",
        "VolumeType": "gp3",
        "ClientToken": "home-token",
        "TagSpecification.1.Tag.1.Key": "ec2spawner:hub",
    }
    assert expected.items() <= call.items()
    assert {name: call[name] for name in ("Encrypted", "KmsKeyId") if name in call} == encryption
    assert not {"AvailabilityZone", "MultiAttachEnabled"} & call.keys()


async def test_create_as_the_admin_says_from_a_snapshot(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("CreateVolume", ok(volume("creating")), ok(volume("creating")))
    spec = VolumeSpec(30, snapshot_id="snap-1", volume_type="gp2", kms_key="alias/ours")
    await cloud.create_volume("token", "us-east-1b", spec, {})
    plain = VolumeSpec(30, encrypted=False, kms_key="alias/ours")
    await cloud.create_volume("token-2", "us-east-1b", plain, {})
    asked, unencrypted = ec2.calls
    expected = {"SnapshotId": "snap-1", "VolumeType": "gp2", "KmsKeyId": "alias/ours"}
    assert expected.items() <= asked.items()
    assert not {"Encrypted", "KmsKeyId", "SnapshotId"} & unencrypted.keys()


async def test_one_volume_is_described(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("DescribeVolumes", ATTACHED, shown())
    found = await cloud.volume("vol-1")
    assert found is not None
    assert found.attached_to == ME
    assert await cloud.volume("vol-1") is None


async def test_growing_returns_once_the_size_is_available(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("ModifyVolume", ok())
    grown = shown(volume("in-use", ME).replace("<size>20<", "<size>40<"))
    ec2.will("DescribeVolumes", ATTACHED, grown)
    await cloud.modify_volume("vol-1", 40)
    assert ec2.actions == ["ModifyVolume", "DescribeVolumes", "DescribeVolumes"]
    assert ec2.calls[0]["Size"] == "40"


async def test_a_modification_too_soon_has_its_own_error(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("ModifyVolume", error("VolumeModificationRateExceeded", "Wait at least 6 hours"))
    with pytest.raises(CloudError) as failed:
        await cloud.modify_volume("vol-1", 40)
    assert failed.value.code == "VolumeModificationRateExceeded"
    assert not failed.value.retryable


# --- snapshots -------------------------------------------------------------------------------

SNAPSHOT = (
    "<snapshotId>snap-1</snapshotId><volumeId>vol-1</volumeId><status>{status}</status>"
    "<startTime>2026-11-20T12:00:00.000Z</startTime><progress>{progress}</progress>"
    "<volumeSize>20</volumeSize>"
    "<tagSet><item><key>ec2spawner:home</key><value>home-1</value></item></tagSet>"
)


async def test_a_snapshot_is_created_once_and_tagged_in_the_call(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("CreateSnapshot", ok(SNAPSHOT.format(status="pending", progress="")))
    made = await cloud.create_snapshot("vol-1", {"ec2spawner:hub": "class"})
    assert (made.snapshot_id, made.state, made.percent) == ("snap-1", "pending", 0)
    assert made.tags == {"ec2spawner:home": "home-1"}
    expected = {
        "VolumeId": "vol-1",
        "TagSpecification.1.ResourceType": "snapshot",
        "TagSpecification.1.Tag.1.Key": "ec2spawner:hub",
        "TagSpecification.1.Tag.1.Value": "class",
    }
    assert expected.items() <= ec2.calls[0].items()


async def test_creating_a_snapshot_is_never_retried_by_the_client(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    """EC2 has no token for it, so a repetition could make a second one."""
    ec2.will("CreateSnapshot", error("InternalError", "oh", status=500))
    with pytest.raises(CloudError) as failed:
        await cloud.create_snapshot("vol-1", {})
    assert failed.value.retryable
    assert ec2.actions == ["CreateSnapshot"]


async def test_snapshots_are_listed_by_the_hubs_tag_on_all_pages(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    half = SNAPSHOT.format(status="pending", progress="50%")
    done = SNAPSHOT.format(status="completed", progress="100%").replace("snap-1", "snap-2")
    full = "<fullSnapshotSizeInBytes>1073741824</fullSnapshotSizeInBytes>"
    ec2.will(
        "DescribeSnapshots",
        ok(f"<snapshotSet><item>{half}</item></snapshotSet><nextToken>more</nextToken>"),
        ok(f"<snapshotSet><item>{done}{full}</item></snapshotSet>"),
    )
    first, second = await cloud.list_snapshots("class")
    assert (first.percent, first.stored_gib) == (50, None)
    assert (second.state, second.stored_gib, second.size_gib) == ("completed", 1.0, 20)
    assert ec2.calls[0]["Filter.1.Name"] == "tag:ec2spawner:hub"
    assert ec2.calls[0]["Owner.1"] == "self"
    assert ec2.calls[1]["NextToken"] == "more"


async def test_deleting_a_snapshot_that_is_gone_is_no_error(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("DeleteSnapshot", error("InvalidSnapshot.NotFound"), error("InvalidSnapshot.InUse"))
    await cloud.delete_snapshot("snap-1")
    with pytest.raises(CloudError, match="InUse"):
        await cloud.delete_snapshot("snap-1")


@pytest.mark.parametrize(
    ("described", "holder"),
    [
        (volume("available"), None),
        (volume("in-use", ME), ME),
        (volume("in-use", ME, "detaching"), ME),
        (volume("available", ME, "detached"), None),
    ],
)
async def test_a_listing_shows_the_instance_that_holds_a_volume(
    cloud: EC2Cloud, ec2: ScriptedEC2, described: str, holder: str | None
) -> None:
    ec2.will("DescribeVolumes", shown(described))
    (found,) = await cloud.list_volumes("class")
    assert found.attached_to == holder
    assert ec2.calls[0]["Filter.1.Name"] == "tag:ec2spawner:hub"


async def test_attach_returns_when_the_volume_is_in_use(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("AttachVolume", ok("<status>attaching</status>"))
    attaching = shown(volume("in-use", ME, "attaching"))
    ec2.will("DescribeVolumes", attaching, attaching, ATTACHED)
    await cloud.attach_volume("vol-1", ME)
    assert ec2.actions == ["AttachVolume"] + ["DescribeVolumes"] * 3
    assert ec2.calls[0]["Device"] == "/dev/sdf"


async def test_a_device_name_in_use_is_skipped(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    def taken(device: str) -> Reply:
        message = f"Invalid value '{device}' for unixDevice. Attachment point is already in use"
        return error("InvalidParameterValue", message)

    ec2.will("AttachVolume", taken("/dev/sdf"), taken("/dev/sdg"), ok())
    ec2.will("DescribeVolumes", ATTACHED)
    await cloud.attach_volume("vol-1", ME)
    devices = [call["Device"] for call in ec2.made("AttachVolume")]
    assert devices == ["/dev/sdf", "/dev/sdg", "/dev/sdh"]


async def test_a_volume_or_instance_that_is_not_ready_is_waited_for(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    creating = error("IncorrectState", "vol-1 is not 'available'.")
    pending = error("IncorrectState", f"Instance '{ME}' is not 'running'.")
    ec2.will("AttachVolume", creating, pending, ok())
    new, available = shown(volume("creating")), shown(volume("available"))
    ec2.will("DescribeVolumes", new, new, available, available, ATTACHED)
    await cloud.attach_volume("vol-1", ME)
    reads = ["DescribeVolumes"]
    assert ec2.actions == [
        *("AttachVolume", *reads * 3),  # not repeated while EC2 shows it as being created
        *("AttachVolume", *reads),
        *("AttachVolume", *reads),
    ]


async def test_a_volume_that_is_attached_at_once_is_not_read(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("AttachVolume", ok("<status>attached</status>"))
    await cloud.attach_volume("vol-1", ME)
    assert ec2.actions == ["AttachVolume"]


async def test_many_volumes_are_read_with_one_call(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    def described(call: Call) -> Reply:
        wanted = [value for name, value in call.items() if name.startswith("Filter.1.Value.")]
        there = [each for each in wanted if each != "vol-7"]
        return shown(*(volume("in-use", ME).replace("vol-1", each) for each in there))

    ec2.answer_by("DescribeVolumes", described)
    ec2.will("AttachVolume", ok("<status>attaching</status>"))
    ids = [f"vol-{number}" for number in range(10)]
    found = await asyncio.gather(*map(cloud.volume, ids))
    assert [each and each.volume_id for each in found] == [*ids[:7], None, *ids[8:]]
    assert len(ec2.calls) == 1
    assert ec2.calls[0]["Filter.1.Name"] == "volume-id"
    await asyncio.gather(*(cloud.attach_volume(each, ME) for each in ids[:5]))
    assert len(ec2.made("DescribeVolumes")) <= 3, "nor do the polls read one each"


async def test_attachments_of_a_wave_of_starts_are_confirmed_with_one_call(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumes, "CONFIRM_WITHIN", 2.0)
    ec2.will("AttachVolume", ok("<status>attaching</status>"))
    ids = [f"vol-{number}" for number in range(4)]
    attached = [volume("in-use", ME).replace("vol-1", each) for each in ids]
    ec2.will("DescribeVolumes", shown(*attached))

    async def asked() -> list[Call]:
        return ec2.made("AttachVolume")

    first = asyncio.ensure_future(cloud.attach_volume(ids[0], ME))
    await until(asked, 20, "the first attachment")
    await asyncio.sleep(SPACING + 0.1)  # a call of its own would have been made by now
    await asyncio.gather(first, *(cloud.attach_volume(each, ME) for each in ids[1:]))
    assert len(ec2.made("AttachVolume")) == 4
    assert len(ec2.made("DescribeVolumes")) == 1


async def test_attaching_a_volume_that_is_attached_already_is_no_error(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("AttachVolume", error("VolumeInUse", "vol-1 is already attached to an instance"))
    ec2.will("DescribeVolumes", ATTACHED)
    await cloud.attach_volume("vol-1", ME)


@pytest.mark.parametrize("attachment", ["attached", "detaching", "busy"])
async def test_a_volume_that_another_instance_holds_is_refused(
    cloud: EC2Cloud, ec2: ScriptedEC2, attachment: str
) -> None:
    ec2.will("AttachVolume", error("VolumeInUse", "vol-1 is already attached to an instance"))
    ec2.will("DescribeVolumes", shown(volume("in-use", OTHER, attachment)))
    with pytest.raises(CloudError) as failed:
        await cloud.attach_volume("vol-1", ME)
    assert failed.value.code == "VolumeInUse"


async def test_a_hanging_attachment_times_out(
    cloud: EC2Cloud, ec2: ScriptedEC2, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumes, "ATTACH_SECONDS", 1.0)
    ec2.will("AttachVolume", ok())
    ec2.will("DescribeVolumes", shown(volume("in-use", ME, "attaching")))
    with pytest.raises(CloudError, match="not attached") as failed:
        await cloud.attach_volume("vol-1", ME)
    assert failed.value.retryable


async def test_a_volume_that_is_gone_is_an_error(cloud: EC2Cloud, ec2: ScriptedEC2) -> None:
    ec2.will("AttachVolume", ok())
    ec2.will("DescribeVolumes", shown())
    with pytest.raises(CloudError, match=r"InvalidVolume\.NotFound"):
        await cloud.attach_volume("vol-1", ME)


@pytest.mark.parametrize(
    "answer",
    [
        ok(),
        error("IncorrectState", "Volume 'vol-1' is in the 'available' state."),
        error("InvalidAttachment.NotFound"),
        error("InvalidInstanceID.NotFound"),
    ],
)
async def test_detaching_a_volume_that_is_not_attached_is_no_error(
    cloud: EC2Cloud, ec2: ScriptedEC2, answer: Reply
) -> None:
    ec2.will("DetachVolume", answer)
    ec2.will("DescribeVolumes", shown(volume("available")))
    await cloud.detach_volume("vol-1", ME)
    call = ec2.made("DetachVolume")[0]
    assert (call["VolumeId"], call["InstanceId"]) == ("vol-1", ME)


async def test_a_refused_detachment_of_a_held_volume_is_an_error(
    cloud: EC2Cloud, ec2: ScriptedEC2
) -> None:
    ec2.will("DetachVolume", error("IncorrectState", "the root device"))
    ec2.will("DescribeVolumes", ATTACHED)
    with pytest.raises(CloudError, match="IncorrectState"):
        await cloud.detach_volume("vol-1", ME)
