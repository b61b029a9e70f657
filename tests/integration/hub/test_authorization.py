"""Every handler of ours, asked with every kind of token: each names the scope that it requires.

The handlers are those that the hub registers. One without an entry in `NEEDS` fails a test.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from ec2spawner.hub.security.instances_scope import SCOPE
from ec2spawner.hub.startup import HANDLERS
from tests.harness import ADMIN_TOKEN, Embedded, Hub, demo_config
from tests.integration.hub.agent_by_hand import AgentByHand, server_by_hand, silence_agents

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.slow(seconds=40)]

UNAUTHORIZED, FORBIDDEN, NOT_FOUND, TOO_MANY = 401, 403, 404, 429

READ, START, STOP = "read:servers", "start:servers", "delete:servers"
CHANGE_USERS, DELETE_USERS = "admin:users", "delete:users"


@dataclass(frozen=True)
class Need:
    """Whom a method answers."""

    scopes: frozenset[str] = frozenset()
    """One of them is required; none where no token of JupyterHub is accepted at all."""
    of_caller: bool = False
    """For the caller, whose own things it is about; else for `ann`."""
    owner_only: bool = False
    """Only `ann` may, whatever scopes of hers others have."""
    refused: frozenset[int] = frozenset({FORBIDDEN, NOT_FOUND})
    """Statuses that refuse. JupyterHub answers 404 for users that the caller may not know of."""
    body: Any = None


def needs(*scopes: str, **more: Any) -> Need:
    return Need(frozenset(scopes), **more)


OF_INSTANCE = Need(refused=frozenset({UNAUTHORIZED}), body={})
"""Only the token of the lease."""
ADMIN = needs(SCOPE, refused=frozenset({FORBIDDEN}))
PAGE = Need(refused=frozenset({302, FORBIDDEN}))
"""For browsers: by a cookie; others are sent to the login."""
NOBODYS = {"profile": "none-of-ours"}

NEEDS: dict[tuple[str, str], Need] = {
    ("agents.ClaimsHandler", "post"): Need(refused=frozenset({400}), body={"key": "x"}),
    ("agents.EventsHandler", "post"): OF_INSTANCE,
    ("agents.HeartbeatHandler", "post"): OF_INSTANCE,
    ("agents.ExtendHandler", "post"): OF_INSTANCE,
    ("agents.IdleHandler", "post"): OF_INSTANCE,
    ("agents.StopHandler", "post"): OF_INSTANCE,
    ("agents.ClusterHandler", "post"): OF_INSTANCE,
    ("agents.HardwareHandler", "post"): OF_INSTANCE,
    ("agents.ContinueHandler", "post"): OF_INSTANCE,
    ("agents.RunsHandler", "post"): OF_INSTANCE,
    ("agents.RunHandler", "post"): OF_INSTANCE,
    ("EndHandler", "get"): Need(refused=frozenset({NOT_FOUND})),
    ("ServerHandler", "post"): needs(START, body=NOBODYS),
    ("ServerHandler", "put"): needs(START, body=NOBODYS),
    ("ServerHandler", "patch"): needs(START, body={"user_options": NOBODYS}),
    ("ServerHandler", "delete"): needs(STOP),
    ("UserHandler", "post"): needs(CHANGE_USERS),
    ("UserHandler", "patch"): needs(CHANGE_USERS, body={"name": "eve"}),
    ("UserHandler", "delete"): needs(DELETE_USERS),
    ("ProfilesHandler", "get"): needs(START, of_caller=True),
    ("OnDemandHandler", "post"): needs(START),
    ("ContinueHandler", "get"): needs(READ, owner_only=True),
    ("ContinueHandler", "post"): needs(START, owner_only=True, body=NOBODYS),
    ("ContinueHandler", "delete"): needs(START, owner_only=True),
    ("SessionHandler", "get"): needs(READ, owner_only=True),
    ("SleepHandler", "post"): needs(STOP, owner_only=True),
    ("InterruptHandler", "post"): needs(STOP, body={"notice_seconds": 120, "dry_run": True}),
    ("InstancesHandler", "get"): ADMIN,
    ("KeepHandler", "post"): ADMIN,
    ("ReleaseHandler", "delete"): ADMIN,
    ("HandOverHandler", "post"): Need(refused=frozenset({FORBIDDEN}), body={"account": "ann/1"}),
    ("MessageHandler", "post"): ADMIN,
    ("PoolHandler", "get"): ADMIN,
    ("PoolOfProfileHandler", "put"): ADMIN,
    ("PoolOfProfileHandler", "delete"): ADMIN,
    ("CostsHandler", "get"): ADMIN,
    ("IdleSavingsHandler", "get"): ADMIN,
    ("UsageHandler", "get"): needs(READ, SCOPE, owner_only=True),
    ("UsageCostsHandler", "get"): needs(READ, SCOPE, owner_only=True),
    ("RunListHandler", "get"): needs(READ),
    ("RunListHandler", "post"): needs(START, of_caller=True, body=NOBODYS),
    ("RunHandler", "get"): needs(READ),
    ("RunHandler", "delete"): needs(START),
    ("RunResultHandler", "get"): needs(READ, of_caller=True),
    ("UsagePage", "get"): PAGE,
    ("InstancesPage", "get"): PAGE,
    ("RunsPage", "get"): PAGE,
}


@dataclass(frozen=True)
class Token:
    """A credential, and what it may do as JupyterHub and the hub see it."""

    name: str
    value: str
    owner: str = ""
    """The user as whom it acts; empty for a service, and for what is no token of JupyterHub."""
    own: frozenset[str] = field(default_factory=frozenset)
    """Scopes for its owner."""
    for_ann: frozenset[str] = field(default_factory=frozenset)
    """Scopes for `ann` and for all."""

    def meets(self, need: Need) -> bool:
        if SCOPE in need.scopes & self.for_ann:
            return True
        if need.owner_only and self.owner != "ann":
            return False
        if need.of_caller:
            return bool(self.owner and need.scopes & self.own)
        return bool(need.scopes & self.for_ann)


ALL = frozenset({READ, START, STOP})

SERVICES = {
    "nothing": ["list:services!service=nothing"],
    "of-bob": ["read:servers!user=bob", "access:servers!user=ann"],
    "stops-ann": ["delete:servers!user=ann"],
    "operations": [SCOPE],
}
ROLES = [
    *({"name": name, "services": [name], "scopes": scopes} for name, scopes in SERVICES.items()),
    # A user who may, by JupyterHub's scopes, do everything with the server of another one.
    {"name": "tutor", "users": ["tom"], "scopes": [f"{each}!user=ann" for each in sorted(ALL)]},
]
SECRETS = {name: secrets.token_hex(16) for name in SERVICES}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("authorization")
    embedded = await Embedded(folder / "embedded").start()
    silence_agents(embedded)
    services = [{"name": name, "api_token": value} for name, value in SECRETS.items()]
    config = demo_config(
        folder / "config",
        "c.JupyterHub.allow_named_servers = True",
        f"c.JupyterHub.services = [*c.JupyterHub.services, *{services!r}]",
        f"c.JupyterHub.load_roles = [*c.JupyterHub.load_roles, *{ROLES!r}]",
        "c.EC2Spawner.runs = {'at_once': 3}",
    )
    running = Hub(folder / "hub", embedded, config=config)
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(150))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def earlier_ann(hub: Hub) -> str:
    """The token of a user who was called `ann` before, and has had a server."""
    async with server_by_hand(hub, "ann"):
        token = await hub.user_token("ann")
    assert (await hub.api.patch("/users/ann", json={"name": "zed"})).is_success
    return token


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ann(hub: Hub, earlier_ann: str) -> AsyncIterator[AgentByHand]:
    async with server_by_hand(hub, "ann") as agent:
        yield agent


async def narrowed(hub: Hub, user: str, *scopes: str) -> str:
    await hub.add_user(user)
    body = {"note": "narrowed", "scopes": scopes}
    reply = await hub.api.post(f"/users/{user}/tokens", json=body)
    assert reply.is_success, reply.text
    token: str = reply.json()["token"]
    return token


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tokens(hub: Hub, earlier_ann: str, ann: AgentByHand) -> list[Token]:
    def only(scope: str) -> frozenset[str]:
        return frozenset({scope})

    for user in ("bob", "tom"):
        await hub.add_user(user)
    found = [
        Token("none", ""),
        Token("made up", secrets.token_hex(16)),
        Token("the instance's key", ann.key),
        Token("the server's own", ann.grant["environment"]["JUPYTERHUB_API_TOKEN"], "ann"),
        Token("without a scope", await narrowed(hub, "ann", "read:users:name!user=ann"), "ann"),
        Token("access to servers", await narrowed(hub, "ann", "access:servers!user=ann"), "ann"),
        Token("another server", await narrowed(hub, "ann", "read:servers!server=ann/lab"), "ann"),
        *[
            Token(
                f"only {scope}",
                await narrowed(hub, "ann", f"{scope}!user"),
                "ann",
                only(scope),
                only(scope),
            )
            for scope in sorted(ALL)
        ],
        Token("ann's", await hub.user_token("ann"), "ann", ALL, ALL),
        Token("renamed, was ann", earlier_ann, "zed", ALL),
        Token("bob's", await hub.user_token("bob"), "bob", ALL),
        Token("the tutor's", await hub.user_token("tom"), "tom", ALL, ALL),
        Token("service without scopes", SECRETS["nothing"]),
        Token("service for bob", SECRETS["of-bob"]),
        Token("service that stops", SECRETS["stops-ann"], for_ann=only(STOP)),
        Token("operations", SECRETS["operations"], for_ann=only(SCOPE)),
        Token(
            "admin who reads", await narrowed(hub, "admin", READ), "admin", only(READ), only(READ)
        ),
        Token("the admins' service", ADMIN_TOKEN, for_ann=ALL | {CHANGE_USERS, DELETE_USERS}),
        Token("revoked", await revoked(hub), "ann"),
    ]
    assert len({each.value for each in found}) == len(found)
    return found


async def revoked(hub: Hub) -> str:
    reply = await hub.api.post("/users/ann/tokens", json={"note": "revoked"})
    assert (await hub.api.delete(f"/users/ann/tokens/{reply.json()['id']}")).is_success
    token: str = reply.json()["token"]
    return token


# --- what the hub registers ---------------------------------------------------------------------


def calls() -> Iterator[tuple[str, str, str]]:
    """The pattern of a path, the handler's name, and each method that it answers."""
    for pattern, handler in HANDLERS:
        assert isinstance(handler, type)
        for method in ("get", "head", "post", "put", "patch", "delete"):
            if any(method in vars(each) for each in handler.__mro__ if is_ours(each)):
                prefix = "agents." if ".agents." in handler.__module__ else ""
                yield pattern, f"{prefix}{handler.__name__}", method


def is_ours(handler: type) -> bool:
    """What our class inherits from JupyterHub's own handler is JupyterHub's to authorize."""
    return handler.__module__.startswith("ec2spawner.")


def path_of(pattern: str, agent: AgentByHand) -> str:
    """A path that the pattern answers, about the server of `ann`."""
    values = {"leases": agent.lease_id, "ends": agent.lease_id, "pool": "cpu", "runs": "1"}
    values |= {"users": "ann", "servers": "lab"}
    return re.sub(r"(\w+)/\([^)]*\)", lambda found: f"{found[1]}/{values[found[1]]}", pattern)


async def test_each_method_names_who_may_call_it() -> None:
    found = {(name, method) for _, name, method in calls()}
    assert found == NEEDS.keys()


# --- what they answer ---------------------------------------------------------------------------


async def ask(client: httpx.AsyncClient, method: str, path: str, token: Token, need: Need) -> int:
    headers = {"Authorization": f"Bearer {token.value}"} if token.value else {}
    about = {"user": "ann"} if not need.of_caller and need.scopes else {}
    body = {} if method in {"get", "head"} or need.body is None else {"json": need.body}
    for _ in range(10):
        reply = await client.request(
            method, f"/hub{path}", headers=headers, params=about | {"key": token.value}, **body
        )
        if reply.status_code != TOO_MANY:
            break
        # So many tokens of one user make more calls than that user may at once.
        await asyncio.sleep(int(reply.headers["Retry-After"]))
    return reply.status_code


async def test_no_token_does_more_than_its_scopes(
    hub: Hub, ann: AgentByHand, tokens: list[Token]
) -> None:
    """Those that may not are refused, and those that may read are answered, by each handler."""
    before = await hub.model("ann")
    through, refused = [], []
    forged = 0
    async with httpx.AsyncClient(base_url=hub.url, timeout=60, verify=False) as client:
        for pattern, name, method in calls():
            need, path = NEEDS[name, method], path_of(pattern, ann)
            barred = [token for token in tokens if not token.meets(need)]
            asked = [ask(client, method, path, token, need) for token in barred]
            for token, status in zip(barred, await asyncio.gather(*asked), strict=True):
                if status not in need.refused:
                    through.append((method, path, token.name, status))
            forged += len(barred)
            if method != "get":
                continue
            for token in (token for token in tokens if token.meets(need)):
                status = await ask(client, method, path, token, need)
                # There is no run.
                if status != (NOT_FOUND if "/runs/" in path else 200):
                    refused.append((method, path, token.name, status))
    assert forged >= 400
    assert not through, "\n".join(map(str, through))
    assert not refused, "\n".join(map(str, refused))
    after = await hub.model("ann")
    assert before is not None
    assert after is not None
    assert (after["ready"], after["pending"]) == (True, None)
    assert after["started"] == before["started"]


# --- what is no body ----------------------------------------------------------------------------

NO_BODIES = {
    "truncated": b'{"seconds": 60',
    "followed": b'{"seconds": 60}}',
    "doubled": b'{"seconds": 60, "seconds": 61}',
    "NaN": b'{"seconds": NaN}',
    "a list": b"[]",
    "a number": b"0",
    "a form": b"seconds=60",
    "not UTF-8": b'{"seconds": "\xff"}',
}


async def test_no_handler_follows_what_is_no_body(hub: Hub, ann: AgentByHand) -> None:
    """Each says what is wrong with it, and does nothing."""
    tokens = {name: await hub.user_token(name) for name in ("ann", "admin")}
    followed = []
    async with httpx.AsyncClient(base_url=hub.url, timeout=60, verify=False) as client:
        for pattern, name, method in calls():
            need, path = NEEDS[name, method], path_of(pattern, ann)
            if method == "get":
                continue
            token = tokens["ann" if need.owner_only else "admin"]
            headers = {
                "Authorization": f"Bearer {ann.token if name.startswith('agents.') else token}"
            }
            for kind, wrong in NO_BODIES.items():
                while True:  # as often as the rate of one server lets it
                    reply = await client.request(
                        method,
                        f"/hub{path}",
                        content=wrong,
                        headers=headers,
                        params={"user": "ann"},
                    )
                    if reply.status_code != TOO_MANY:
                        break
                    await asyncio.sleep(float(reply.headers["Retry-After"]))
                said = reply.json()["message"] or "" if reply.content else ""
                if reply.status_code != 400 or not ("body" in said or "JSON" in said):
                    followed.append((name, method, kind, reply.status_code, said))
    assert not followed
    assert await hub.model("ann")
