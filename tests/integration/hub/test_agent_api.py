"""The agents' API: hostile input affects at most the caller's own lease."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import httpx
import pytest
import pytest_asyncio

from ec2spawner.hub.app.call_limits import LEASE_CALLS
from ec2spawner.hub.app.reporting.log_limits import LINES
from ec2spawner.hub.app.request_bounds import MAX_BODY_BYTES
from ec2spawner.wire import PROTOCOL, ServerEnd
from tests.harness import Embedded, Hub, until
from tests.integration.hub.agent_by_hand import (
    AgentByHand,
    agent_of_new_instance,
    browser,
    call,
    end_by_hand,
    server_by_hand,
    silence_agents,
    xsrf_of,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=70)]

IDLE_SECONDS = 4
MARKUP = "<script>alert('x')</script><b>bold</b>"

CALLS: dict[str, dict[str, Any]] = {
    "events": {"step": "stopped", "at": "2026-01-01T00:00:00Z"},
    "beat": {"protocol": PROTOCOL},
    "extend": {"seconds": 60},
    "stop": {},
}
"""A valid body for each call about a lease."""

MAX_CALLS = 20 * LEASE_CALLS.burst
"""Calls after which one must have been refused. A slow hub serves more than the burst, since the
limit refills meanwhile."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    directory = tmp_path_factory.mktemp("agent-api")
    embedded = await Embedded(directory / "embedded").start()
    silence_agents(embedded)
    idle = (
        f"--EC2Spawner.idle={{'server': '{IDLE_SECONDS}s', 'warn': '2s', 'user_may_extend': '1h'}}"
    )
    running = Hub(directory / "hub", embedded, idle)
    try:
        yield await running.start()
        # Whatever these tests send: no pass and no task of the hub's may have failed by it.
        log = running.log.read_text()
        assert "A reconcile pass failed" not in log
        assert "Uncaught exception" not in log
        assert not re.search(r"^\[[EC] .*ec2spawner.*\n +Traceback", log, re.MULTILINE)
    finally:
        await running.stop()
        await embedded.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(hub: Hub) -> AsyncIterator[AgentByHand]:
    async with server_by_hand(hub, "ann") as agent:
        yield agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bob(hub: Hub) -> AsyncIterator[AgentByHand]:
    async with server_by_hand(hub, "bob") as agent:
        yield agent


async def untouched(hub: Hub, *users: str) -> None:
    for user in users:
        model = await hub.model(user)
        assert model is not None
        assert model["ready"]
        assert model["pending"] is None


# --- who may speak ---


@pytest.mark.parametrize("what", CALLS)
async def test_only_the_leases_own_token_authorizes_its_calls(
    hub: Hub, ann: AgentByHand, bob: AgentByHand, what: str
) -> None:
    for token in ("", "x", bob.token, ann.token[:-1], ann.key, ann.lease_id, "é"):
        headers = [(b"Authorization", f"Bearer {token}".encode())] if token else []
        async with httpx.AsyncClient(verify=False, timeout=60) as client:
            url = f"{hub.agent_api}/leases/{ann.lease_id}/{what}"
            reply = await client.post(url, json=CALLS[what], headers=headers)
        assert reply.status_code == 401, (token, reply.text)
    await untouched(hub, "ann", "bob")


async def test_jupyterhub_tokens_and_cookies_do_not_authorize_agent_calls(
    hub: Hub, ann: AgentByHand
) -> None:
    user_token = await hub.user_token("ann")
    server_token = ann.grant["environment"]["JUPYTERHUB_API_TOKEN"]
    admin_token = hub.api.headers["Authorization"].removeprefix("token ")
    for token in (user_token, server_token, admin_token):
        assert (await hub.api.get("/", headers={"Authorization": f"token {token}"})).is_success
        for what, body in CALLS.items():
            assert (await ann.say(what, body, token)).status_code == 401
    async with browser(hub, "ann") as page:
        for what, body in CALLS.items():
            path = f"/hub/api/ec2/leases/{ann.lease_id}/{what}"
            assert (await page.post(path, json=body)).status_code == 401
            in_url = {"token": ann.token}
            assert (await page.post(path, json=body, params=in_url)).status_code == 401
    await untouched(hub, "ann")


async def test_requests_without_a_body_release_their_descriptors(
    hub: Hub, ann: AgentByHand
) -> None:
    """Before the caller is authenticated, on every route. The hub answers meanwhile, and its log
    does not grow with them."""
    assert hub.process is not None
    descriptors = Path(f"/proc/{hub.process.pid}/fd")
    before, logged = len(list(descriptors.iterdir())), hub.log.stat().st_size
    paths = ["claims", *(f"leases/{ann.lease_id}/{what}" for what in (*CALLS, "idle"))]

    async def half_open(path: str) -> asyncio.StreamWriter:
        _, writer = await asyncio.open_connection("127.0.0.1", hub.api_port)
        head = f"POST /hub/api/ec2/{path} HTTP/1.1\r\nHost: hub\r\nContent-Length: 1000\r\n\r\n{{"
        writer.write(head.encode())
        return writer

    held = asyncio.create_task(
        ann.heartbeat(state_seen=(await ann.heartbeat()).json()["state"], hold_seconds=13)
    )
    open_ = await asyncio.gather(*(half_open(path) for path in paths * 50))
    try:

        async def all_held() -> bool:
            return len(list(descriptors.iterdir())) >= before + len(open_)

        async def given_back() -> bool:
            assert (await hub.api.get("/")).is_success
            return len(list(descriptors.iterdir())) < before + 20

        await until(all_held, 5, "the hub to accept them all")
        await until(given_back, 15, "the descriptors to be given back")
        assert (await held).is_success, "a heartbeat is held for longer than a body may take"
    finally:
        for writer in open_:
            writer.close()
    assert hub.log.read_text()[logged:].count("Timeout reading body") < len(open_) / 2
    await untouched(hub, "ann")


@pytest.mark.parametrize(
    ("header", "status"),
    [(f"Content-Length: {'1' * 5000}", 413), ("Transfer-Encoding: chunked\r\n\r\nfffff", 400)],
    ids=["digits", "chunked"],
)
async def test_oversized_bodies_do_not_flood_the_log(hub: Hub, header: str, status: int) -> None:
    calls, logged = 8 * LINES.burst, hub.log.stat().st_size
    began = time.monotonic()

    async def first_line() -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", hub.api_port)
        head = f"POST /hub/api/ec2/claims HTTP/1.1\r\nHost: hub\r\n{header}\r\n\r\n"
        writer.write(head.encode())
        try:
            return (await asyncio.wait_for(reader.readline(), 10)).decode()
        finally:
            writer.close()

    answers = await asyncio.gather(*(first_line() for _ in range(calls)))
    assert {answer.split()[1] for answer in answers} == {str(status)}
    of_each_kind = LINES.burst + LINES.per_second * (time.monotonic() - began)
    # JupyterHub's line about the answer, and tornado's about the request.
    assert len(hub.log.read_bytes()[logged:].splitlines()) <= 2 * of_each_kind


async def test_large_bodies_of_jupyterhubs_own_calls_are_not_read(hub: Hub) -> None:
    """Tornado reads them before anybody is identified, by default up to 100 MiB."""
    reader, writer = await asyncio.open_connection("127.0.0.1", hub.api_port)
    head = f"POST /hub/api/users HTTP/1.1\r\nHost: hub\r\nContent-Length: {MAX_BODY_BYTES + 1}"
    writer.write(f"{head}\r\n\r\n".encode())
    assert b" 400 " in await asyncio.wait_for(reader.readline(), 10)
    writer.close()


async def test_unknown_lease_is_not_found(hub: Hub, ann: AgentByHand) -> None:
    """Never 410, by which an agent powers its instance off."""
    for what, body in CALLS.items():
        reply = await call(hub, f"leases/lease-unknown/{what}", body, ann.token)
        assert reply.status_code == 404
    await untouched(hub, "ann")


async def test_ended_lease_is_gone(hub: Hub) -> None:
    async with server_by_hand(hub, "zoe") as zoe:
        await end_by_hand(zoe, "zoe")
        for what, body in CALLS.items():
            assert (await zoe.say(what, body)).status_code == 410
            assert (await zoe.say(what, body, "x")).status_code == 401


async def test_an_open_page_learns_why_its_server_ended(hub: Hub) -> None:
    """By the address that the server was given, without cookie or token; others cannot call it."""

    async def asked(address: str) -> httpx.Response:
        async with httpx.AsyncClient(base_url=hub.url, verify=False) as page:
            return await page.get(address)

    async with server_by_hand(hub, "zed") as zed:
        address = zed.grant["environment"]["EC2SPAWNER_END_URL"]
        reply = await asked(address)
        assert reply.headers["Access-Control-Allow-Origin"] == "*"
        assert ServerEnd.model_validate_json(reply.text) == ServerEnd(running=True)
        for wrong in (
            address[:-1],
            address.split("?")[0],
            address.replace(zed.lease_id, "lease-x"),
        ):
            assert (await asked(wrong)).status_code == 404
        await end_by_hand(zed, "zed")
    end = ServerEnd.model_validate_json((await asked(address)).text)
    assert not end.running
    assert end.stop is not None
    assert end.stop.reason in ("user", "admin", "hub")
    assert end.ended_at is not None


@pytest.mark.parametrize("what", ["beat", "extend"])
async def test_calls_of_a_lease_are_rate_limited_without_affecting_others(
    hub: Hub, bob: AgentByHand, what: str
) -> None:
    patient = httpx.AsyncClient(verify=False, timeout=60)
    served: list[httpx.Response] = []
    limited: list[httpx.Response] = []
    async with server_by_hand(hub, "sue") as sue, patient as client:
        url, headers = f"{hub.agent_api}/leases/{sue.lease_id}/{what}", sue.headers

        async def flood() -> None:
            while not limited and len(served) < MAX_CALLS:
                reply = await client.post(url, json=CALLS[what], headers=headers)
                assert reply.status_code in {200, 429}
                (served if reply.is_success else limited).append(reply)

        await asyncio.gather(*(flood() for _ in range(50)))
        assert len(served) >= LEASE_CALLS.burst
        assert limited, f"{len(served)} calls were served"
        assert {int(reply.headers["Retry-After"]) for reply in limited} == {1}
        assert (await bob.heartbeat()).is_success
        await asyncio.sleep(int(limited[0].headers["Retry-After"]))
        assert (await sue.heartbeat()).is_success, "a caller that waits that long is served"
    await untouched(hub, "bob")


# --- heartbeats ---


async def test_heartbeat_is_answered_at_once_when_there_is_news(hub: Hub, ann: AgentByHand) -> None:
    began = time.monotonic()
    answer = (await ann.heartbeat(state_seen=0, hold_seconds=20)).json()
    assert answer["state"] >= 1
    assert answer["stop"] is None
    assert time.monotonic() - began < 15


async def test_heartbeat_is_answered_without_news_when_its_time_is_over(
    hub: Hub, ann: AgentByHand
) -> None:
    """How long it is held: `tests/unit/provisioner/lifecycle/test_running.py`."""
    state = (await ann.heartbeat()).json()["state"]
    answer = await ann.heartbeat(state_seen=state, hold_seconds=0.2)
    assert answer.json()["state"] == state


async def test_second_heartbeat_releases_the_first(hub: Hub, ann: AgentByHand) -> None:
    state = (await ann.heartbeat()).json()["state"]
    first = asyncio.create_task(ann.heartbeat(state_seen=state, hold_seconds=30))
    await asyncio.sleep(0.3)
    assert not first.done()
    began = time.monotonic()
    second = asyncio.create_task(ann.heartbeat(state_seen=state, hold_seconds=30))
    assert (await first).json()["state"] == state
    assert time.monotonic() - began < 20
    assert not second.done()
    second.cancel()


async def test_stop_and_extension_reach_a_held_heartbeat(hub: Hub) -> None:
    async with server_by_hand(hub, "joe") as joe:
        state = (await joe.heartbeat()).json()["state"]
        held = asyncio.create_task(joe.heartbeat(state_seen=state, hold_seconds=30))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        assert (await joe.say("extend", {"seconds": 60})).is_success
        answer = (await held).json()
        assert time.monotonic() - began < 20
        assert answer["extended_until"] is not None
        assert answer["state"] > state

        held = asyncio.create_task(joe.heartbeat(state_seen=answer["state"], hold_seconds=30))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        deleting = asyncio.create_task(hub.api.delete(hub.server_path("joe")))
        answer = (await held).json()
        assert time.monotonic() - began < 20
        assert answer["stop"]["reason"] == "hub", "a service asked for it"
        assert (await joe.event("stopped")).status_code == 204
        assert (await deleting).is_success


async def test_heartbeat_of_another_protocol_is_refused_with_the_reason(
    hub: Hub, ann: AgentByHand
) -> None:
    reply = await ann.say("beat", {"protocol": 99})
    assert reply.status_code == 400
    assert "it speaks protocol 99" in reply.json()["message"]


ABSURD: list[bytes] = [
    b'{"protocol": 1, "hold_seconds": -1}',
    b'{"protocol": 1, "hold_seconds": NaN}',
    b'{"protocol": 1, "hold_seconds": 1e300}',
    b'{"protocol": 1, "state_seen": 1e300}',
    b'{"protocol": 1, "state_seen": ' + b"9" * 4000 + b"}",
    b'{"protocol": 1, "idle_since": "9999-12-31T23:59:59.999999Z"}',
    b'{"protocol": 1, "idle_since": "9999-12-31T23:59:59-14:00"}',
    b'{"protocol": 1, "idle_since": 1e308}',
    b'{"protocol": 1, "idle_since": NaN}',
    b'{"protocol": 1, "idle_since": "2026-01-01T00:00:00"}',
    b'{"protocol": 1, "sent_at": "0001-01-01T00:00:00+14:00", "idle_since": null}',
    b'{"protocol": 1, "sent_at": "0001-01-01T00:00:00+14:00", "idle_since": "9999-12-31T00:00Z"}',
    b'{"protocol": 1, "busy_because": "' + b"x" * 501 + b'"}',
    b'{"protocol": 1, "busy_because": "\\u0000\\u001b[31m\\n"}',
    b'{"protocol": 1, "telemetry": {"at": "9999-12-31T23:59:59Z", "memory_used_mib": NaN}}',
    b'{"protocol": 1, "telemetry": {"at": "2026-01-01T00:00:00Z", "gpus": [{"index": 1e400}]}}',
    b'{"protocol": 1, "hold_seconds": {}}',
    b"[" * 50000,
    b"NaN",
]


@pytest.mark.parametrize("body", ABSURD, ids=range(len(ABSURD)))
async def test_absurd_heartbeats_do_not_affect_others(
    hub: Hub, ann: AgentByHand, bob: AgentByHand, body: bytes
) -> None:
    before = (await bob.heartbeat()).json()
    reply = await ann.say("beat", body)
    assert reply.status_code in {200, 400}, reply.text
    after = (await bob.heartbeat()).json()
    for field in ("state", "idle", "extended_until", "stop"):
        assert after[field] == before[field]
    assert (await ann.heartbeat()).is_success  # busy again
    await untouched(hub, "ann", "bob")


LIES = {
    "fay": {"idle_since": "9999-12-31T23:59:59Z"},
    "gil": {"idle_since": "9999-12-31T23:59:59Z", "sent_at": "0001-01-01T00:00:00Z"},
    "hal": {"idle_since": "0001-01-01T00:00:00Z", "sent_at": "9999-12-31T23:59:59Z"},
}


async def test_wrong_clocks_neither_end_nor_prolong_a_server(hub: Hub) -> None:
    """Idle since the future is idle since now: it gains nothing. Idle since ever is idle since the
    server began: it ends nothing before its time."""

    async def lie(user: str) -> None:
        async with lock:
            known = {instance["instance_id"] for instance in await hub.embedded.instances()}
            starting = asyncio.create_task(hub.request_server(user))
            agent = await agent_of_new_instance(hub, known)
            await agent.obtain_lease()
        await agent.serve()
        began = time.monotonic()
        assert (await agent.event("ready", port=agent.grant["port"])).is_success
        assert (await starting).is_success
        state = (await agent.heartbeat()).json()["state"]
        answer = (await agent.heartbeat(**LIES[user], state_seen=state, hold_seconds=20)).json()
        assert answer["stop"]["reason"] == "idle", user
        assert time.monotonic() - began > IDLE_SECONDS - 0.5, user
        assert (await agent.event("stopped")).is_success
        await agent.close()
        await hub.wait_gone(user)

    lock = asyncio.Lock()
    await asyncio.gather(*map(lie, LIES))


# --- extensions ---


async def test_extension_is_bounded_by_the_policy(hub: Hub, ann: AgentByHand) -> None:
    reply = await ann.say("extend", {"seconds": 30 * 86400})
    assert reply.json()["bounded"] is True
    until_ = datetime.fromisoformat(reply.json()["extended_until"])
    assert abs(until_ - datetime.now(UTC) - timedelta(hours=1)) < timedelta(seconds=5)
    shorter = await ann.say("extend", {"seconds": 60})
    assert shorter.json() == {"extended_until": reply.json()["extended_until"], "bounded": False}


@pytest.mark.parametrize(
    "body",
    [b"0", b"-5", b"NaN", b"Infinity", b"1e300", b'"x"', b"null", b""],
)
async def test_extension_by_zero_is_refused(hub: Hub, ann: AgentByHand, body: bytes) -> None:
    before = (await ann.heartbeat()).json()["extended_until"]
    assert (await ann.say("extend", b'{"seconds": ' + body + b"}")).status_code == 400
    assert (await ann.heartbeat()).json()["extended_until"] == before


# --- events ---


async def test_ready_cannot_change_the_address(hub: Hub) -> None:
    """The address is EC2's; of the instance's own words only the port is taken."""
    known = {instance["instance_id"] for instance in await hub.embedded.instances()}
    starting = asyncio.create_task(hub.request_server("ida"))
    ida = await agent_of_new_instance(hub, known)
    await ida.obtain_lease()
    for call_, body in (("extend", {"seconds": 60}), ("idle", {"server_seconds": 1800})):
        early = await ida.say(call_, body)
        assert (early.status_code, early.json()["message"]) == (
            409,
            "this server is still starting",
        )
    await ida.serve()
    for port in (-1, 0, 65536, 10**30, "127.0.0.1:80", "8888@evil"):
        assert (await ida.event("ready", port=port)).status_code == 400, port
    evil = {"address": "10.0.0.1", "url": "http://10.0.0.1/", "host": "10.0.0.1"}
    assert (await ida.event("ready", port=ida.grant["port"], **evil)).status_code == 204
    assert (await starting).is_success
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        routes = (
            await client.get(
                f"http://127.0.0.1:{hub.proxy_port}/api/routes",
                headers={"Authorization": f"token {hub.proxy_token}"},
            )
        ).json()
    assert urlparse(routes["/user/ida"]["target"]).netloc == f"{ida.address}:{ida.grant['port']}"
    # Ready once, it stays where it is.
    assert (await ida.event("ready", port=22)).is_success
    model = await hub.model("ida")
    assert model is not None
    assert model["ready"]
    await end_by_hand(ida, "ida")


async def test_text_from_an_instance_is_escaped_on_every_page(hub: Hub) -> None:
    """A failed start: REST, progress and the spawn page say why, and none of it is markup."""
    known = {instance["instance_id"] for instance in await hub.embedded.instances()}
    async with browser(hub, "liz") as page:
        xsrf = await xsrf_of(page, "/hub/spawn/liz")
        posting = asyncio.create_task(
            page.post(f"/hub/spawn/liz?_xsrf={xsrf}", data={"profile": "cpu"})
        )
        liz = await agent_of_new_instance(hub, known)
        await liz.obtain_lease()
        stream = asyncio.create_task(hub.api.get("/users/liz/server/progress"))
        await asyncio.sleep(0.3)
        assert (await liz.event("failed", message=MARKUP)).status_code == 204
        posted = await posting
        events = [
            json.loads(line.removeprefix("data: "))
            for line in (await stream).text.splitlines()
            if line.startswith("data: ")
        ]
        assert events[-1]["failed"]
        assert "<script>" not in events[-1].get("html_message", "")
        assert MARKUP in events[-1]["message"]
        failed = await page.get("/hub/spawn-pending/liz")
        for reply in (posted, failed, await page.get("/hub/spawn/liz")):
            assert "<script>alert" not in reply.text, reply.url
            assert "<b>bold" not in reply.text
        assert "&lt;b&gt;bold&lt;/b&gt;" in failed.text, failed.text


async def test_text_from_a_stopped_server_is_escaped_on_the_spawn_page(hub: Hub) -> None:
    async with server_by_hand(hub, "mia") as mia:
        assert (await mia.event("stopped", message=MARKUP)).status_code == 204
        await hub.wait_gone("mia")
        async with browser(hub, "mia") as page:
            text = (await page.get("/hub/spawn/mia")).text
        assert "&lt;b&gt;bold&lt;/b&gt;" in text
        assert "<b>bold" not in text
        assert "alert(&#39;x&#39;)" in text


async def test_text_from_an_instance_is_one_line_of_the_log(hub: Hub) -> None:
    """Only the hub writes alarms, or any other line, into the hub's log."""
    forged = "[C 2026-01-01 00:00:00.000 JupyterHub app:1] forged"
    async with server_by_hand(hub, "nan") as nan:
        assert (await nan.event("stopped", message=f"x\n{forged}\x1b[2J")).status_code == 204
        await hub.wait_gone("nan")

    async def written() -> bool:
        return "forged" in hub.log.read_text()

    await until(written, 5, "the stop to be in the log")
    log = hub.log.read_text()
    assert not [line for line in log.splitlines() if line.startswith(forged)]
    assert "\x1b[2J" not in log


async def test_a_broken_instance_is_replaced_and_the_start_continues(hub: Hub) -> None:
    """Its text reaches the waiting user escaped; only the second instance is charged."""
    known = {instance["instance_id"] for instance in await hub.embedded.instances()}
    starting = asyncio.create_task(hub.request_server("uma"))
    broken = await agent_of_new_instance(hub, known)
    forged = "[C 2026-01-01 00:00:00.000 JupyterHub app:1] broken"
    reply = await call(hub, "claims", broken.claim(fault={"reason": f"{MARKUP}\n{forged}"}))
    assert (reply.status_code, reply.json()["message"]) == (410, "this machine is broken")
    agent = await agent_of_new_instance(hub, known | {broken.instance_id})
    try:
        await agent.obtain_lease()
        async with hub.api.stream("GET", "/users/uma/server/progress") as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: ") and "steps" in line:
                    break
        shown = json.loads(line.removeprefix("data: "))
        assert "another one is started" in json.dumps(shown["steps"])
        assert "<script>" not in shown.get("html_message", "")
        await agent.serve()
        assert (await agent.event("ready", port=agent.grant["port"])).status_code == 204
        assert (await starting).is_success
        await hub.wait_ready("uma")

        async def ended() -> bool:
            found = {instance["instance_id"] for instance in await hub.embedded.instances()}
            return broken.instance_id not in found

        await until(ended, 20, "the broken machine to end")
        log = hub.log.read_text()
        assert f"{broken.instance_id} says that it is broken" in log
        assert not [line for line in log.splitlines() if line.startswith(forged)]
        too_long = broken.claim(fault={"reason": "x" * 501})
        assert (await call(hub, "claims", too_long)).status_code == 400
    finally:
        await end_by_hand(agent, "uma")


# --- other hardware ---


async def answer_to(agent: AgentByHand, what: str, **body: Any) -> dict[str, Any]:
    reply = await agent.say(what, body)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


async def test_the_owner_chooses_other_hardware_through_the_agent(hub: Hub) -> None:
    known = {instance["instance_id"] for instance in await hub.embedded.instances()}
    async with server_by_hand(hub, "ned") as agent:
        choices = (await answer_to(agent, "hardware"))["choices"]
        own = agent.grant["profile"]
        assert choices, "the demo has several profiles"
        assert own not in {each["name"] for each in choices}
        assert await answer_to(agent, "continue") == {
            "state": "none",
            "profile_name": "",
            "message": "",
        }
        refused = await agent.say("continue", {"profile": "no-such-profile"})
        assert (refused.status_code, "no-such-profile" in refused.text) == (409, True)
        wanted = next(each for each in choices if each["is_available"] and not each["refusal"])
        move = await answer_to(agent, "continue", profile=wanted["profile"])
        assert move["profile_name"] == wanted["name"]
        assert move["state"] == "looking"
        again = await agent.say("continue", {"profile": wanted["profile"]})
        assert again.status_code == 409
        assert (await agent.heartbeat()).json()["stop"] is None, "the server runs on meanwhile"
        await agent_of_new_instance(hub, known | {agent.instance_id})

    async def ended() -> bool:
        return {instance["instance_id"] for instance in await hub.embedded.instances()} <= known

    await until(ended, 20, "both instances to end: other tests count those of this hub")
