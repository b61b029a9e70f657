"""Faults of JupyterHub that ec2spawner works around: `docs/reference/upstream.md` reports them.

A test that fails says that JupyterHub behaves otherwise now. Its docstring names what can be
deleted then, with its report, once the oldest JupyterHub that we support behaves so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.harness import until
from tests.integration.hub.probed_hub import ProbedHub, probed_hub

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProbedHub]:
    async with probed_hub(tmp_path_factory.mktemp("faults")) as running:
        yield running


async def test_a_renamed_user_keeps_the_old_address(hub: ProbedHub) -> None:
    """`hub.app.user_rename.follow_name` and its calls."""
    await hub.add_user("ann")
    assert (await hub.api.patch("/users/ann", json={"name": "bob"})).is_success
    assert (await hub.start_server("bob"))["url"] == "/user/ann/"
    await hub.stop_server("bob")


async def test_a_user_is_renamed_while_a_server_runs(hub: ProbedHub) -> None:
    """`hub.app.user_rename.why_not`, and with it `EC2Spawner._is_elsewhere`."""
    await hub.start_server("cid")
    assert (await hub.api.patch("/users/cid", json={"name": "cyd"})).is_success
    await hub.stop_server("cyd")


async def test_a_user_who_is_renamed_to_the_same_name_loses_it(hub: ProbedHub) -> None:
    """`UserHandler.get_json_body`."""
    await hub.add_user("dan")
    reply = await hub.api.patch("/users/dan", json={"name": "dan"})
    assert (reply.status_code, reply.json()["name"]) == (200, None)


async def test_a_user_with_a_named_server_that_runs_is_half_deleted(hub: ProbedHub) -> None:
    """`UserHandler.delete`."""
    await hub.start_server("eva", "lab")
    assert (await hub.api.delete("/users/eva")).status_code == 500
    await hub.stop_server("eva", "lab")


async def test_an_oauth_client_is_named_after_user_and_server(hub: ProbedHub) -> None:
    """`EC2Spawner.__init__`, where it sets `oauth_client_id`."""
    await hub.start_server("ian-b")
    assert (await hub.request_server("ian", "b")).status_code == 500
    await hub.stop_server("ian-b")


async def test_a_cancelled_start_is_answered_500(hub: ProbedHub) -> None:
    """`CANCELLED` of `hub.app.start_requests`."""
    await hub.add_user("kim")
    starting = asyncio.create_task(hub.request_server("kim", options={"seconds": 600}))

    async def is_pending() -> bool:
        model = await hub.model("kim")
        return model is not None and model["pending"] == "spawn"

    await until(is_pending, 20, "the start")
    await hub.stop_server("kim")
    assert (await starting).status_code == 500


async def test_options_of_a_server_that_is_created_or_changed_are_stored_unseen(
    hub: ProbedHub,
) -> None:
    """`ServerHandler._check_options` and its calls."""
    await hub.add_user("lea")
    path, mark = "/users/lea/servers/lab", len(hub.notes())
    for call in (hub.api.put, hub.api.patch):
        stored = {"refuse": call.__name__}
        reply = await call(path, json={"user_options": stored})
        assert reply.is_success
        assert reply.json()["user_options"] == stored
    assert not [x for x in hub.notes()[mark:] if x["what"] == "apply_user_options"]


@pytest.mark.parametrize("body", [{"other": 1}, [1]])
async def test_a_change_of_a_server_that_is_none_is_answered_500(hub: ProbedHub, body: Any) -> None:
    """The checks of the body in `ServerHandler.patch`."""
    await hub.add_user("mia")
    await hub.api.put("/users/mia/servers/lab", json={})
    assert (await hub.api.patch("/users/mia/servers/lab", json=body)).status_code == 500
