"""Claims: an instance of this hub gets its lease, and others get nothing."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.embedded.runtime.identity import IdentitySigner
from ec2spawner.wire import MAX_BODY_BYTES
from tests.harness import Embedded, Hub, demo_config, until
from tests.integration.hub.agent_by_hand import (
    AgentByHand,
    agent_of_new_instance,
    call,
    end_by_hand,
    new_key,
    server_by_hand,
    silence_agents,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANGING_CALLS = {
    "CreateFleet",
    "CreateVolume",
    "DeleteVolume",
    "AttachVolume",
    "DetachVolume",
    "TerminateInstances",
}

CONTAINER = "quay.io/jupyter/pytorch-notebook:cuda12-2026-11-16"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("claims")
    embedded = await Embedded(directory / "embedded").start()
    silence_agents(embedded)
    image = {"id": embedded.described["image_id"], "container": CONTAINER}
    none_in_containers = "c.EC2Spawner.clusters = c.EC2Spawner.runs = {}"
    config = demo_config(
        directory / "config", f"c.EC2Spawner.image = {image}\n{none_in_containers}"
    )
    running = Hub(directory / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(hub: Hub) -> AsyncIterator[AgentByHand]:
    """A server that is ready, and that no refused claim may disturb."""
    async with server_by_hand(hub, "ann") as agent:
        yield agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bob(hub: Hub) -> AsyncIterator[AgentByHand]:
    async with server_by_hand(hub, "bob") as agent:
        yield agent


async def all_that_counts(hub: Hub, agent: AgentByHand) -> dict[str, Any]:
    """Everything that a refused claim must leave as it was."""
    server = await hub.model("ann")
    assert server is not None
    tokens = (await hub.api.get("/users/ann/tokens")).json()["api_tokens"]
    calls = await hub.embedded.control("calls")
    return {
        "server": {key: server[key] for key in ("ready", "pending", "started", "url")},
        "tokens": sorted(token["id"] for token in tokens),
        "instances": sorted((i["instance_id"], i["state"]) for i in await hub.embedded.instances()),
        "calls": [c["action"] for c in calls if c["action"] in CHANGING_CALLS],
        "grant": (await call(hub, "claims", agent.claim())).json(),
        "beat": (await agent.heartbeat()).status_code,
    }


def log_since(hub: Hub, mark: int) -> str:
    return hub.log.read_bytes()[mark:].decode()


async def refused(hub: Hub, ann: AgentByHand, claim: Any, status: int = 403) -> str:
    """The claim gets `status`, a line in the log, and changes nothing. Returns the log's lines."""
    before = await all_that_counts(hub, ann)
    mark = hub.log.stat().st_size

    async def written() -> str:
        reply = await call(hub, "claims", claim)
        assert reply.status_code == status, reply.text
        assert reply.json().keys() == {"message"}
        assert await all_that_counts(hub, ann) == before
        return log_since(hub, mark)

    async def written_with_the_claim() -> str:
        found = await written()
        return found if "claim from 127.0.0.1 refused: " in found.lower() else ""

    if status != 403:
        return await written()
    # The hub leaves out lines beyond the first 20, but for one in two seconds.
    return await until(written_with_the_claim, 20, "the refused claim in the log", pause=1)


@pytest.mark.parametrize(
    ("claim", "named"),
    [
        (b"", "JSON"),
        (b"{}", "document"),
        (b"[]", "object"),
        (b"\xff\xfe{", "JSON"),
        (b'{"protocol": 1, "document": "{}", "signature": "x", "key": "short"}', "key"),
        (json.dumps({"protocol": 1, "document": "x" * 9000}).encode(), "document"),
        (b'{"protocol": NaN}', "protocol"),
        (b"[" * 60000, "JSON"),
    ],
)
async def test_an_invalid_claim_is_malformed(
    hub: Hub, ann: AgentByHand, claim: bytes, named: str
) -> None:
    await refused(hub, ann, claim, 400)
    assert named in (await call(hub, "claims", claim)).json()["message"]


@pytest.mark.parametrize("protocol", [0, 3, 99])
async def test_unknown_protocol_is_refused_with_the_reason(
    hub: Hub, ann: AgentByHand, protocol: int
) -> None:
    await refused(hub, ann, ann.claim(protocol=protocol), 400)
    message = (await call(hub, "claims", ann.claim(protocol=protocol))).json()["message"]
    assert f"it speaks protocol {protocol}" in message


async def test_claim_without_proof_is_refused(hub: Hub, ann: AgentByHand) -> None:
    await refused(hub, ann, ann.claim(document="", signature=""))
    await refused(hub, ann, ann.claim(signature=""))
    await refused(hub, ann, ann.claim(document="{}"))


async def test_document_by_a_foreign_key_is_refused(
    hub: Hub, ann: AgentByHand, tmp_path: Path
) -> None:
    foreign = IdentitySigner(tmp_path).sign(ann.document.encode())
    await refused(hub, ann, ann.claim(signature=foreign))
    await refused(hub, ann, ann.claim(signature=foreign, key=new_key()))


async def test_forged_document_is_refused(hub: Hub, ann: AgentByHand, bob: AgentByHand) -> None:
    other = ann.document.replace(ann.instance_id, bob.instance_id)
    assert other != ann.document
    await refused(hub, ann, ann.claim(document=other, key=bob.key))
    await refused(hub, ann, ann.claim(signature=bob.signature))


async def test_another_key_for_a_bound_instance_raises_an_alarm(
    hub: Hub, ann: AgentByHand, bob: AgentByHand
) -> None:
    written = await refused(hub, ann, ann.claim(key=new_key()))
    assert "ALARM" in written
    assert ann.instance_id in written
    assert "ALARM" in await refused(hub, ann, ann.claim(key=bob.key))


async def test_secrets_of_a_claim_are_in_no_log(hub: Hub, ann: AgentByHand) -> None:
    key = new_key()
    await refused(hub, ann, ann.claim(key=key))
    log = hub.log.read_text()
    api_token = ann.grant["environment"]["JUPYTERHUB_API_TOKEN"]
    for secret in (key, ann.key, ann.token, api_token, ann.signature.split()[0]):
        assert secret not in log


async def test_repeated_claim_gets_the_same_response(hub: Hub, ann: AgentByHand) -> None:
    replies = [await call(hub, "claims", ann.claim()) for _ in range(3)]
    replies += await asyncio.gather(*(call(hub, "claims", ann.claim()) for _ in range(5)))
    assert {reply.status_code for reply in replies} == {200}
    assert len({reply.content for reply in replies}) == 1
    again = replies[0].json()
    for field in ("lease_id", "lease_token", "environment", "command", "home", "base_url"):
        assert again[field] == ann.grant[field]


async def test_a_grant_names_the_container_image(ann: AgentByHand) -> None:
    assert ann.grant["container"] == CONTAINER


# --- instances that are not this hub's ---


@pytest_asyncio.fixture(loop_scope="module")
async def known_at_once(hub: Hub) -> AsyncIterator[None]:
    """The hub's listings show what a test launches itself while its claim waits."""
    await hub.embedded.control("lag", {"seconds": 0})
    yield
    await hub.embedded.control("lag", {"seconds": None})


def tags_of_launch(hub: Hub, instance_id: str) -> dict[str, str]:
    """Those that came with it."""
    found = hub.embedded.client().describe_instances(InstanceIds=[instance_id])
    tags = {t["Key"]: t["Value"] for t in found["Reservations"][0]["Instances"][0]["Tags"]}
    names = ("ec2spawner:hub", "ec2spawner:store", "ec2spawner:launch-key", "ec2spawner:intent")
    return {name: tags[name] for name in names}


def run_instance(hub: Hub, instance_type: str, tags: dict[str, str]) -> str:
    """What anyone may do who may call RunInstances."""
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    answer = hub.embedded.client().run_instances(
        ImageId=hub.embedded.described["image_id"],
        InstanceType=instance_type,
        SubnetId=hub.embedded.described["subnets"][0],
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": listed}] if tags else [],
    )
    return str(answer["Instances"][0]["InstanceId"])


def end_instance(hub: Hub, instance_id: str) -> None:
    hub.embedded.client().terminate_instances(InstanceIds=[instance_id])


async def test_instance_without_our_tags_gets_no_lease(hub: Hub, ann: AgentByHand) -> None:
    """It is in no listing of ours: like one that is not listed yet, and gets nothing."""
    stranger = await AgentByHand.on(hub, run_instance(hub, "g4dn.xlarge", {}))
    before = await all_that_counts(hub, ann)
    reply = await call(hub, "claims", stranger.claim(wait_seconds=1.5))
    assert reply.status_code == 202, reply.text
    assert reply.json().keys() == {"protocol", "retry_after_seconds", "read_ahead"}
    assert reply.json()["read_ahead"] is None, "no files to read"
    assert await all_that_counts(hub, ann) == before
    end_instance(hub, stranger.instance_id)


@pytest.mark.usefixtures("known_at_once")
async def test_instance_of_another_store_is_refused_and_not_terminated(
    hub: Hub, ann: AgentByHand
) -> None:
    other = tags_of_launch(hub, ann.instance_id) | {"ec2spawner:store": "a" * 26}
    stranger = await AgentByHand.on(hub, run_instance(hub, "g4dn.xlarge", other))
    written = await refused(hub, ann, stranger.claim())
    assert "ALARM" in written
    assert stranger.instance_id in written
    assert stranger.instance_id in {i["instance_id"] for i in await hub.embedded.instances()}
    end_instance(hub, stranger.instance_id)


@pytest.mark.usefixtures("known_at_once")
async def test_copied_tags_get_no_lease(hub: Hub, ann: AgentByHand) -> None:
    """Anyone who may call RunInstances can set tags: what we stored of the launch is what counts.

    A lease waits meanwhile, for which these machines would fit in everything.
    """
    found = hub.embedded.client().describe_instances(InstanceIds=[ann.instance_id])
    instance_type = found["Reservations"][0]["Instances"][0]["InstanceType"]
    copied = tags_of_launch(hub, ann.instance_id)
    invented = copied | {"ec2spawner:intent": "spot-0123456789abcdef"}

    await hub.embedded.control("boot", {"seconds": 5})
    known = {instance["instance_id"] for instance in await hub.embedded.instances()}
    starting = asyncio.create_task(hub.request_server("eve"))
    ours = await agent_of_new_instance(hub, known)
    await hub.embedded.control("boot", {"seconds": 0})
    mark = hub.log.stat().st_size
    try:
        for tags in (copied, invented):
            # 410 where a pass of the reconciler was faster: one machine too many for one lease.
            statuses = [410]
            while statuses[-1] == 410 and len(statuses) < 10:
                stranger = await AgentByHand.on(hub, run_instance(hub, instance_type, tags))
                reply = await call(hub, "claims", stranger.claim(wait_seconds=2))
                statuses.append(reply.status_code)
                end_instance(hub, stranger.instance_id)
            assert statuses[-1] == 403, statuses
        assert log_since(hub, mark).count("ALARM") >= 2
        await ours.obtain_lease()
        assert ours.grant["environment"]["JUPYTERHUB_USER"] == "eve"
    finally:
        await hub.api.delete(hub.server_path("eve"))
        await starting
        await hub.wait_gone("eve")


async def test_agent_of_an_ended_instance_is_asked_to_power_off(hub: Hub, ann: AgentByHand) -> None:
    async with server_by_hand(hub, "zoe") as zoe:
        await end_by_hand(zoe, "zoe")
        await refused(hub, ann, zoe.claim(), 410)
        assert (await zoe.heartbeat()).status_code == 410


async def test_two_keys_at_once_are_one_agent_and_one_alarm(hub: Hub, ann: AgentByHand) -> None:
    """Both claim before a listing shows the instance: the first key is bound, the other is not."""
    known = {instance["instance_id"] for instance in await hub.embedded.instances()}
    # More failures than boto3 repeats: for a while no listing completes.
    await hub.embedded.control(
        "faults", {"action": "DescribeInstances", "kind": "http-500", "times": 6}
    )
    starting = asyncio.create_task(hub.request_server("kim"))
    first = await agent_of_new_instance(hub, known)
    second_key = new_key()
    answers: list[tuple[str, httpx.Response]] = []

    async def claim_until_it_is_settled(key: str) -> None:
        for _ in range(100):
            reply = await call(hub, "claims", first.claim(key=key, wait_seconds=0))
            if reply.status_code != 202:
                answers.append((key, reply))
                return

    try:
        keys = [first.key, second_key] * 4
        await asyncio.wait_for(asyncio.gather(*map(claim_until_it_is_settled, keys)), 120)
        by_status = {
            status: {k for k, r in answers if r.status_code == status} for status in (200, 403)
        }
        assert len(answers) == len(keys)
        assert len(by_status[200]) == 1, by_status
        assert len(by_status[403]) == 1
        assert not by_status[200] & by_status[403]
        first.key = by_status[200].pop()
        await first.obtain_lease()
        assert (await first.heartbeat()).is_success, "the granted token opens the lease"
        assert "ALARM: a second key" in hub.log.read_text()
    finally:
        await hub.api.delete(hub.server_path("kim"))
        await starting
        await hub.wait_gone("kim")


# --- bodies ---


async def test_large_body_is_refused_unread(hub: Hub, ann: AgentByHand) -> None:
    await refused(hub, ann, b" " * (MAX_BODY_BYTES + 1), 413)


async def test_large_chunked_body_is_refused_before_its_end(hub: Hub) -> None:
    """A body without a length is cut where it becomes too large, not when its sender is done."""
    host, port = hub.agent_api.removeprefix("http://").partition("/")[0].split(":")
    mark = hub.log.stat().st_size

    def first_line() -> bytes:
        # Not by streams: they forget an answer when the connection is cut under what is sent.
        with socket.create_connection((host, int(port)), timeout=60) as sender:
            with suppress(ConnectionError):
                sender.sendall(
                    b"POST /hub/api/ec2/claims HTTP/1.1\r\n"
                    b"Host: hub\r\nTransfer-Encoding: chunked\r\n\r\n"
                )
                for _ in range(70):
                    sender.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
            with sender.makefile("rb") as answer:
                return answer.readline()

    line = await asyncio.to_thread(first_line)
    assert line.split()[1] in {b"413", b"400"}
    assert (await hub.api.get("/")).is_success
    assert "Traceback" not in log_since(hub, mark)


async def test_slow_bodies_do_not_block_others(hub: Hub, ann: AgentByHand) -> None:
    host, port = hub.agent_api.removeprefix("http://").partition("/")[0].split(":")
    connections = []
    for _ in range(50):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /hub/api/ec2/claims HTTP/1.1\r\nHost: hub\r\nContent-Length: 5000\r\n\r\n{"
        )
        connections.append((reader, writer))
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        for _ in range(5):
            for _reader, writer in connections:
                writer.write(b" ")
            assert (await client.get(f"{hub.url}/hub/health")).is_success
            assert (await ann.heartbeat()).is_success
    assert not any(reader.at_eof() for reader, _ in connections), "they are still being read"
    for _reader, writer in connections:
        writer.close()


async def test_many_claims_do_not_block_others(hub: Hub, ann: AgentByHand) -> None:
    """Each costs an `openssl`: they wait in line for it, and the hub serves others meanwhile."""
    flood = [asyncio.create_task(call(hub, "claims", ann.claim(key=new_key()))) for _ in range(30)]
    served = 0
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        while not all(task.done() for task in flood):
            assert (await client.get(f"{hub.url}/hub/health")).is_success
            served += not all(task.done() for task in flood)
    assert served
    assert {(await task).status_code for task in flood} == {403}


async def test_a_hub_can_be_identified_without_a_token(hub: Hub) -> None:
    """`ec2spawner check` requests these two from the service at the hub's address."""
    async with httpx.AsyncClient(verify=False) as client:
        version = await client.get(f"{hub.agent_api.removesuffix('/ec2')}/")
        claims = await client.get(f"{hub.agent_api}/claims")
    assert (version.status_code, version.json().keys()) == (200, {"version"})
    assert claims.status_code == 405
