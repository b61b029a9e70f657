"""Fault Injection Service of the embedded EC2: who may use it, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import boto3
import pytest
import pytest_asyncio
from botocore.exceptions import ClientError

from ec2spawner.aws.calls.client import Client
from ec2spawner.aws.compute.fault_injection import MayHaveBegun, interrupt_spot
from ec2spawner.core.tags import HUB
from ec2spawner.embedded.api.protocol import EC2Error
from ec2spawner.embedded.server import EmbeddedEC2
from ec2spawner.embedded.services.fault_injection import ACTION, SERVICE_ROLE, FaultInjection
from ec2spawner.provisioner.model.cloud.cloud import CloudError

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded() -> AsyncIterator[EmbeddedEC2]:
    async with EmbeddedEC2(boot_seconds=0.0, rehearsals=True) as running:
        yield running


def client(embedded: EmbeddedEC2, service: str, *, admin: bool = False) -> Any:
    facts = embedded.facts
    key = (facts.admin_access_key_id, facts.admin_secret_access_key)
    if not admin:
        key = (facts.aws_access_key_id, facts.aws_secret_access_key)
    return boto3.client(
        service,
        region_name=facts.region,
        endpoint_url=facts.ec2_endpoint,
        aws_access_key_id=key[0],
        aws_secret_access_key=key[1],
    )


def template(embedded: EmbeddedEC2, instance_id: str, **changes: Any) -> dict[str, Any]:
    facts = embedded.facts
    arn = f"arn:aws:ec2:{facts.region}:{facts.account}:instance/{instance_id}"
    target = {"resourceType": "aws:ec2:spot-instance", "resourceArns": [arn]}
    action = {
        "actionId": ACTION,
        "parameters": {"durationBeforeInterruption": changes.pop("duration", "PT2M")},
        "targets": {"SpotInstances": "server"},
    }
    return {
        "clientToken": "t",
        "description": "d",
        "stopConditions": [{"source": "none"}],
        "targets": {"server": {**target, "selectionMode": "ALL"}},
        "actions": {"interrupt": action},
        "roleArn": facts.rehearsal_role,
        "tags": {HUB: "demo"},
        **changes,
    }


async def code_of(call: Callable[..., Any], **parameters: Any) -> str:
    with pytest.raises(ClientError) as raised:
        await asyncio.to_thread(call, **parameters)
    return str(raised.value.response["Error"]["Code"])


async def test_what_is_refused(embedded: EmbeddedEC2) -> None:
    fis = client(embedded, "fis")
    create, known = fis.create_experiment_template, "i-0123456789abcdef0"
    for duration in ("PT1M", "PT16M", "PT120S", "2 minutes"):
        made = template(embedded, known, duration=duration)
        assert await code_of(create, **made) == "ValidationException"
    other = f"arn:aws:iam::{embedded.facts.account}:role/ec2spawner-rehearsal-other"
    made = template(embedded, known, roleArn=other)
    assert await code_of(create, **made) == "ValidationException"
    made = template(embedded, known, roleArn=other.replace("ec2spawner-rehearsal", "admin"))
    assert await code_of(create, **made) == "AccessDeniedException", "the hub may not pass it"
    missing = client(embedded, "fis", admin=True).get_experiment
    assert await code_of(missing, id="EXP1") == "ResourceNotFoundException"
    assert await code_of(fis.list_experiments) == "UnsupportedOperation"


async def test_only_what_carries_the_hubs_tag_may_be_made_started_and_read(
    embedded: EmbeddedEC2,
) -> None:
    hub, admin = client(embedded, "fis"), client(embedded, "fis", admin=True)
    for tags in ({}, {HUB: "another"}):
        made = template(embedded, "i-0123456789abcdef0", tags=tags)
        assert await code_of(hub.create_experiment_template, **made) == "AccessDeniedException"
        foreign = (await asyncio.to_thread(admin.create_experiment_template, **made))[
            "experimentTemplate"
        ]["id"]
        begin = {"clientToken": "t", "experimentTemplateId": foreign}
        for each in ({}, {HUB: "demo"}):
            denied = await code_of(hub.start_experiment, **begin, tags=each)
            assert denied == "AccessDeniedException"
        begun = await asyncio.to_thread(admin.start_experiment, **begin, tags=tags)
        experiment = begun["experiment"]["id"]
        assert await code_of(hub.get_experiment, id=experiment) == "AccessDeniedException"
        denied = await code_of(hub.delete_experiment_template, id=foreign)
        assert denied == "AccessDeniedException"


async def test_the_hub_may_ask_what_check_asks(embedded: EmbeddedEC2) -> None:
    """Whether Fault Injection Service and the queue answer."""
    answer = client(embedded, "fis").list_experiment_templates
    assert "experimentTemplates" in await asyncio.to_thread(answer, maxResults=1)
    name = "ec2spawner-interruptions-lab"
    admin = client(embedded, "sqs", admin=True)
    queue = await asyncio.to_thread(admin.create_queue, QueueName=name)
    found = await asyncio.to_thread(
        client(embedded, "sqs").get_queue_attributes,
        QueueUrl=queue["QueueUrl"],
        AttributeNames=["QueueArn"],
    )
    assert found["Attributes"]["QueueArn"].endswith(name)


async def test_the_first_experiment_of_an_account_makes_its_role(embedded: EmbeddedEC2) -> None:
    iam, fis = client(embedded, "iam", admin=True), client(embedded, "fis")
    made = await asyncio.to_thread(
        fis.create_experiment_template, **template(embedded, "i-0123456789abcdef0")
    )
    named = made["experimentTemplate"]["id"]
    begin = {"clientToken": "t", "experimentTemplateId": named, "tags": {HUB: "demo"}}
    await asyncio.to_thread(fis.start_experiment, **begin)
    role = await asyncio.to_thread(iam.get_role, RoleName=SERVICE_ROLE)
    assert role["Role"]["Path"] == "/aws-service-role/fis.amazonaws.com/"


@pytest.mark.parametrize("is_there", [True, False])
async def test_an_instance_that_is_not_spot_fails_the_experiment(
    embedded: EmbeddedEC2, is_there: bool
) -> None:
    facts, instance_id = embedded.facts, "i-0123456789abcdef0"
    if is_there:
        launched = await asyncio.to_thread(
            client(embedded, "ec2", admin=True).run_instances,
            ImageId=facts.image_id,
            InstanceType="t3.micro",
            SubnetId=facts.subnets[0],
            MinCount=1,
            MaxCount=1,
        )
        instance_id = launched["Instances"][0]["InstanceId"]
    fis = client(embedded, "fis")
    made = await asyncio.to_thread(
        fis.create_experiment_template, **template(embedded, instance_id)
    )
    begun = await asyncio.to_thread(
        fis.start_experiment,
        clientToken="t",
        experimentTemplateId=made["experimentTemplate"]["id"],
        tags={HUB: "demo"},
    )
    found = await asyncio.to_thread(fis.get_experiment, id=begun["experiment"]["id"])
    assert found["experiment"]["state"] == {
        "status": "failed",
        "reason": "Target resolution returned empty set",
    }


@pytest.mark.parametrize(
    ("answer", "may_have_begun"),
    [
        (EC2Error("AccessDeniedException", "not allowed", 403), True),
        (EC2Error("ResourceNotFoundException", "no such experiment", 404), True),
        ("stopping", True),
        ("stopped", True),
        ("failed", False),
        ("cancelled", False),
    ],
)
async def test_what_was_started_counts_as_begun_unless_aws_says_that_it_failed(
    embedded: EmbeddedEC2,
    monkeypatch: pytest.MonkeyPatch,
    answer: EC2Error | str,
    may_have_begun: bool,
) -> None:
    async def experiment(*_: Any) -> dict[str, Any]:
        if isinstance(answer, EC2Error):
            raise answer
        return {"experiment": {"state": {"status": answer, "reason": "why"}}}

    facts = embedded.facts
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", facts.aws_access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", facts.aws_secret_access_key)
    monkeypatch.setattr(FaultInjection, "experiment", experiment)
    asked, role, tags = (
        Client(facts.region, facts.ec2_endpoint),
        facts.rehearsal_role,
        {HUB: "demo"},
    )
    try:
        with pytest.raises(CloudError) as raised:
            await interrupt_spot(asked, "i-0123456789abcdef0", 120.0, role, tags)
    finally:
        await asked.close()
    assert isinstance(raised.value, MayHaveBegun) is may_have_begun
