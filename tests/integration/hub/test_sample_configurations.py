"""Every configuration in `configs/` starts a hub as it stands, but for what names an account."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ec2spawner.hub.app.reporting.event_log import SERVER_STOP
from tests.harness import ADMIN_TOKEN, TREE, Embedded, Hub, until
from tests.postgresql_server import PostgreSQL

pytestmark = pytest.mark.slow(seconds=10)

THIS_MACHINE = """
import json, os

load_subconfig({sample!r})
demo = json.loads(os.environ["EC2SPAWNER_DEMO"])

# Of the account: what is marked with `<-`.
c.EC2Spawner.region = demo["region"]
c.EC2Spawner.subnets = demo["subnets"]
c.EC2Spawner.security_groups = [demo["security_group"]]
c.EC2Spawner.image = demo["image_id"]
c.EC2Spawner.store_url = {store!r}
c.EC2Spawner.endpoint_url = demo["ec2_endpoint"]
c.EC2Spawner.identity_certificates = [demo["certificate"]]

# Of the machine: several hubs run here at once.
c.JupyterHub.bind_url = demo["hub_url"]
c.JupyterHub.hub_bind_url = c.JupyterHub.hub_connect_url = demo["hub_api_bind_url"]
c.ConfigurableHTTPProxy.should_start = True
c.ConfigurableHTTPProxy.api_url = demo["proxy_api_url"]

c.JupyterHub.services = [
    *c.JupyterHub.get("services", []), dict(name="test", api_token={token!r}),
]
c.JupyterHub.load_roles = [
    *c.JupyterHub.get("load_roles", []),
    dict(name="test", scopes=["admin:users", "tokens", "list:users"], services=["test"]),
]
"""

PROMETHEUS_TOKEN = "fedcba9876543210fedcba9876543210"

ENVIRONMENT = {"OAUTH_CLIENT_SECRET": "secret", "PROMETHEUS_TOKEN": PROMETHEUS_TOKEN}
"""What `secrets.env` has on the hub's machine."""

FOR_EVERYONE = {
    "class": ["T4, 16 GB", "No GPU"],
    "large": ["No GPU", "T4, 16 GB"],
    "shared-data": ["T4, 16 GB", "8 × A100, 320 GB"],
    "small-team": ["T4, 16 GB", "A10G, 24 GB", "L40S, 48 GB", "No GPU"],
}
"""What a user without a group is offered. The demo is run by `make demo` and by most tests, and
`aws` by the test of the hub's machine."""


AT_NIGHT = {
    "class": pytest.mark.nightly(
        guard="tests/unit/project/test_docs.py::test_the_configuration_for_a_class_works"
    ),
    "shared-data": pytest.mark.nightly(
        guard="tests/unit/project/test_docs.py::test_the_configuration_with_shared_data_works"
    ),
    "small-team": pytest.mark.nightly(
        guard="tests/unit/project/test_docs.py::test_the_configuration_for_a_small_team_works"
    ),
}


async def fail_a_start(hub: Hub, user: str, token: Mapping[str, str]) -> None:
    """The policy of the embedded EC2's key is for another `hub_name` than the sample's."""
    reply = await hub.api.post(f"/users/{user}/server", json={"profile": "cpu"}, headers=token)
    assert reply.status_code == 503, reply.text


async def events_of(hub: Hub, user: str) -> Sequence[Mapping[str, Any]] | None:
    """Ours about a user's start, once its end is written."""
    file = hub.directory / "events.log"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    ours = [each for each in found if "ec2spawner" in each["__schema__"]]
    ours = [each for each in ours if each["username"] == user]
    return ours if ours and ours[-1]["__schema__"] == SERVER_STOP else None


def test_every_sample_is_started() -> None:
    samples = {each.parent.name for each in (TREE / "configs").glob("*/jupyterhub_config.py")}
    assert samples == {*FOR_EVERYONE, "aws", "demo"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    running = await Embedded(tmp_path_factory.mktemp("embedded")).start()
    yield running
    await running.stop()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=AT_NIGHT.get(name, ())) for name in FOR_EVERYONE]
)
async def test_a_sample_starts_a_hub_that_offers_its_profiles(
    name: str, embedded: Embedded, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = f"sqlite:///{tmp_path}/ec2spawner.sqlite"
    if name == "large":
        postgresql: PostgreSQL = request.getfixturevalue("postgresql")
        store = postgresql.new_database()
    config = tmp_path / "jupyterhub_config.py"
    sample = str(TREE / f"configs/{name}/jupyterhub_config.py")
    config.write_text(THIS_MACHINE.format(sample=sample, store=store, token=ADMIN_TOKEN))
    hub = Hub(tmp_path / "hub", embedded, config=config, environment=ENVIRONMENT)
    try:
        await hub.start()
        await hub.add_user("ann")
        token = {"Authorization": f"token {await hub.user_token('ann')}"}
        reply = await hub.api.get("/ec2/profiles", headers=token)
        assert reply.status_code == 200, reply.text
        offered = [profile["display_name"] for profile in reply.json()["profiles"]]
        assert offered == FOR_EVERYONE[name]
        if name == "large":
            prometheus = {"Authorization": f"token {PROMETHEUS_TOKEN}"}
            metrics = await hub.api.get(f"{hub.url}/hub/metrics", headers=prometheus)
            assert "ec2spawner_leases" in metrics.text
            await fail_a_start(hub, "ann", token)
            events = await until(lambda: events_of(hub, "ann"), 20, "events of the start")
            assert events[-1]["start"] == "refused"
            assert [event["phase"] for event in events[:-1]] == ["queue"]
    finally:
        await hub.stop()
        print(hub.tail(60))
