"""What ec2spawner leans on in JupyterHub beyond its documentation, checked by a spawner of ours.

When JupyterHub changes one of these, its test says so and says who must follow.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.integration.hub.agent_by_hand import browser, xsrf_of
from tests.integration.hub.jupyterhub_probe import MARKUP
from tests.integration.hub.probed_hub import ProbedHub, probed_hub

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProbedHub]:
    async with probed_hub(tmp_path_factory.mktemp("contract")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def ann(hub: ProbedHub) -> AsyncIterator[list[dict[str, Any]]]:
    """A server of ann, who is new in each test, and what was noted of its start."""
    mark = len(hub.notes())
    await hub.start_server("ann")
    yield hub.notes()[mark:]
    if await hub.model("ann") is not None:
        await hub.stop_server("ann")
    assert (await hub.api.delete("/users/ann")).status_code == 204


# --- the hub's start: ec2spawner.hub.startup ---


async def test_entry_point_is_resolved_by_getattr_at_each_start(hub: ProbedHub) -> None:
    """`ec2spawner.__getattr__` leans on it: nothing else shows that a hub starts."""
    assert hub.notes("resolved")


async def test_start_future_exists_when_the_spawner_class_is_resolved(hub: ProbedHub) -> None:
    """`hub.startup.arrange` leans on it: other commands, which start no hub, have none."""
    in_hub = [x for x in hub.notes("resolved") if x["in_load_config_file"]]
    assert in_hub
    assert all(x["start_future"] for x in in_hub)


async def test_spawner_class_is_resolved_in_the_loop_before_handlers_are_built(
    hub: ProbedHub,
) -> None:
    """`hub.startup.arrange` leans on it: it makes a task, and adds handlers in time."""
    first = next(x for x in hub.notes("resolved") if x["in_load_config_file"])
    assert first["in_loop"]
    assert not first["handlers_built"]


async def test_handlers_added_before_are_served(hub: ProbedHub) -> None:
    """`hub.startup.arrange` leans on `apihandlers.default_handlers` being read at a hub's start."""
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        for base in (hub.url, f"http://127.0.0.1:{hub.api_port}"):
            reply = await client.post(f"{base}/hub/api/probe", json={"do": "nothing"})
            assert reply.status_code != 404


async def test_a_handler_placed_first_serves_the_spawn_page(hub: ProbedHub) -> None:
    """`hub.pages.start_page` leans on it, and on `prepare` being what identifies the user."""
    mark = len(hub.notes())
    async with browser(hub, "bob") as client:
        page = await client.get("/hub/spawn")
    assert "<p>form</p>" in page.text
    [noted] = [x for x in hub.notes()[mark:] if x["what"] == "spawn page"]
    assert (noted["known_before"], noted["known"]) == (False, True)


async def test_handler_can_take_bearer_tokens_of_its_own(
    hub: ProbedHub, ann: list[dict[str, Any]]
) -> None:
    """`hub.api.agents` leans on `_accept_token_auth = False` and `get_auth_token`."""
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        reply = await client.post(
            f"{hub.url}/hub/api/probe",
            json={"do": "nothing"},
            headers={"Authorization": "Bearer of-my-own"},
        )
    assert reply.json() == {"authorization": "of-my-own", "user": False}


@pytest.mark.parametrize("sender", ["active", "idle"])
async def test_activity_is_recorded_while_a_user_is_identified(hub: ProbedHub, sender: str) -> None:
    """`hub.app.user_activity` leans on it: `BaseHandler._record_activity` changes the record and
    returns True, and the user is identified also where it returns False."""
    user, recorded = f"of-{sender}", sender == "active"
    await hub.add_user(user)
    token = await hub.user_token(user)
    async with browser(hub, user) as client:
        client.headers["User-Agent"] = sender
        mark = len(hub.notes())
        assert (await client.get("/hub/home")).url.path == "/hub/home"
        assert activity(hub, mark) == [("User", False, False, False)], "just logged in"
    async with httpx.AsyncClient(headers={"User-Agent": sender}, timeout=60) as client:
        mark = len(hub.notes())
        headers = {"Authorization": f"token {token}"}
        reply = await client.get(f"{hub.url}/hub/api/user", headers=headers)
    assert reply.json()["name"] == user
    assert activity(hub, mark) == [
        ("APIToken", recorded, recorded, False),
        ("User", False, recorded, False),
    ]


def activity(hub: ProbedHub, mark: int) -> list[tuple[str, bool, bool, bool]]:
    noted = [x for x in hub.notes()[mark:] if x["what"] == "activity"]
    return [(x["of"], x["recorded"], x["dirty"], x["known"]) for x in noted]


async def test_template_paths_set_before_are_served(hub: ProbedHub) -> None:
    """`hub.startup._show_our_templates` leans on `template_paths`, on `_template_paths_default`,
    and on JupyterHub's own pages being there as `templates/...` to be extended."""
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        page = (await client.get(f"{hub.url}/hub/login")).text
    assert "<title>Probed</title>" in page
    assert 'name="username"' in page


# --- a server's life: ec2spawner.spawner ---


async def test_a_route_is_removed_by_delete_user_of_the_proxy_class_before_the_stop(
    hub: ProbedHub, ann: list[dict[str, Any]]
) -> None:
    """`hub.api.save_before_stop` leans on it: pages save over the route, in `Proxy.delete_user`."""
    mark = len(hub.notes())
    await hub.stop_server("ann")
    noted = [x for x in hub.notes()[mark:] if x["what"] in {"delete_user", "stop"}]
    assert [x["what"] for x in noted] == ["delete_user", "stop"]
    assert noted[0]["stop_pending"]


async def test_a_route_is_added_by_add_user_of_the_proxy_class_after_the_start(
    ann: list[dict[str, Any]],
) -> None:
    """`hub.app.route_times` leans on it: a start is over once `Proxy.add_user` has returned, which
    JupyterHub calls once for each start."""
    kinds = [x["what"] for x in ann if x["what"] in {"start", "add_user"}]
    assert kinds == ["start", "add_user"]
    [added] = [x for x in ann if x["what"] == "add_user"]
    assert (added["start_pending"], added["pending"]) == (False, "spawn")


async def test_start_pending_from_the_options_to_the_end_of_start(
    ann: list[dict[str, Any]],
) -> None:
    """`EC2Spawner._lease` leans on `_start_pending`: a start that has asked for nothing yet takes
    up no lease of an earlier one."""
    pending = [x["start_pending"] for x in ann if x["what"] in {"apply_user_options", "start"}]
    assert pending == [True, True]


async def test_user_options_are_applied_before_start(
    hub: ProbedHub, ann: list[dict[str, Any]]
) -> None:
    """`hub.spawn.user_options.resolve` relies on `_run_apply_user_options`: by REST and without a
    form, called with the spawner and the options, before `start`."""
    kinds = [x["what"] for x in ann]
    assert kinds.index("apply_user_options") < kinds.index("start")
    mark = len(hub.notes())
    reply = await hub.request_server("ben", options={"refuse": True})
    assert reply.status_code == 400
    assert reply.json()["message"] == "no such thing"
    assert not [x for x in hub.notes()[mark:] if x["what"] == "start"]


async def test_state_is_saved_only_after_start(ann: list[dict[str, Any]]) -> None:
    """Our own store leans on the contrary: a hub killed during `start` has saved nothing."""
    before = [x for x in ann if x["what"] == "get_state" and x["at"] < _at(ann, "started")]
    after = [x for x in ann if x["what"] == "get_state" and x["at"] >= _at(ann, "started")]
    assert not [x for x in before if x["alive"]]
    assert after
    assert after[0]["alive"]


async def test_poll_and_notify_ends_a_server_at_once(
    hub: ProbedHub, ann: list[dict[str, Any]]
) -> None:
    """`HubService.lease_ended` leans on it: JupyterHub learns of an end without its next poll."""
    await hub.tell(do="end")  # the next poll is an hour away
    await hub.wait_gone("ann")
    assert await hub.server_tokens("ann") == []


async def test_a_server_that_resumes_keeps_its_token_and_starts_without_a_request(
    hub: ProbedHub, ann: list[dict[str, Any]]
) -> None:
    """`hub.app.resume` leans on it: nothing else in JupyterHub moves a server."""
    before, mark = await hub.server_tokens("ann"), len(hub.notes())
    await hub.tell(do="end to resume")
    await hub.wait_gone("ann")
    assert await hub.server_tokens("ann") == before
    assert "stop" not in {x["what"] for x in hub.notes()[mark:]}
    await hub.tell(do="start without a request")
    await hub.wait_ready("ann")
    assert set(before) < set(await hub.server_tokens("ann")), "a new one until `start` returns"
    await hub.stop_server("ann")


async def test_a_failed_start_is_stopped_while_its_error_is_handled(hub: ProbedHub) -> None:
    """`EC2Spawner._why_stopped` leans on it: `sys.exception()` is why a server cannot continue."""
    mark = len(hub.notes())
    reply = await hub.request_server("ivy", options={"fail": "running"})
    assert reply.status_code == 503
    assert [x["handled"] for x in hub.notes()[mark:] if x["what"] == "stop"] == ["SpawnException"]


async def test_stop_revokes_the_token_that_a_poll_gave_back(
    hub: ProbedHub, ann: list[dict[str, Any]]
) -> None:
    """`EC2Spawner._recover` leans on it: `User.stop` reads `api_token` before it polls by itself,
    so after a restart a poll must have come earlier. JupyterHub polls at its start and before it
    calls `User.stop`."""
    other = await hub.user_token("ann")
    headers = {"Authorization": f"token {other}"}
    mark = len(hub.notes())
    await hub.tell(do="new token at poll", token=other)
    async with httpx.AsyncClient(verify=False, timeout=60) as client:
        assert (await client.get(f"{hub.url}/hub/api/user", headers=headers)).is_success
        await hub.stop_server("ann")
        assert (await client.get(f"{hub.url}/hub/api/user", headers=headers)).status_code == 403
    kinds = [x["what"] for x in hub.notes()[mark:] if x["what"] in {"poll", "stop"}]
    assert kinds[:3] == ["poll", "poll", "stop"]


@pytest.mark.nightly(
    guard="tests/integration/hub/test_restart.py::test_a_restarted_hub_recovers_its_servers"
)
async def test_check_after_a_hub_start_ends_with_start_polling(
    hub: ProbedHub, ann: list[dict[str, Any]]
) -> None:
    """`EC2Spawner` leans on it: `poll` and `get_url` of the check are known by `_check_pending`,
    and once `start_polling` has returned nothing is awaited until that is cleared."""
    await hub.kill()
    mark = len(hub.notes())
    await hub.start()
    await hub.wait_ready("ann")
    check = [x for x in hub.notes()[mark:] if "check_pending" in x][:4]
    assert [(x["what"], x["check_pending"]) for x in check] == [
        ("poll", True),
        ("get_url", True),
        ("start_polling", True),
        ("after check", False),
    ]
    assert check[-1]["ready"]


async def test_rename_is_announced_and_can_be_refused(hub: ProbedHub) -> None:
    """`EC2Spawner.rename` leans on it: called before JupyterHub changes its record, and an error
    leaves the old name."""
    await hub.add_user("gil")
    path = "/users/gil/servers/old"
    assert (await hub.api.put(path, json={})).status_code == 201
    reply = await hub.api.patch(path, json={"name": "refused"})
    assert reply.status_code == 409, reply.text
    assert (await hub.api.get(path)).is_success
    assert (await hub.api.patch(path, json={"name": "new"})).is_success
    assert (await hub.api.get("/users/gil/servers/new")).is_success
    assert (await hub.api.get(path)).status_code == 404
    renames = [(x["old"], x["new"], "old" in x["names"]) for x in hub.notes("rename")]
    assert renames == [("old", "refused", True), ("old", "new", True)]


async def test_progress_is_made_for_each_connection_and_passes_all_keys(hub: ProbedHub) -> None:
    """`EC2Spawner.progress` replays the story for each browser, and the progress page draws the
    `steps` that come with it."""
    starting = asyncio.create_task(hub.request_server("dan", options={"seconds": 1.5}))
    await asyncio.sleep(0.3)
    path = f"{hub.server_path('dan')}/progress"
    streams = await asyncio.gather(hub.api.get(path), hub.api.get(path))
    assert (await starting).is_success
    numbers = set()
    for stream in streams:
        events = [
            json.loads(line.removeprefix("data: "))
            for line in stream.text.splitlines()
            if line.startswith("data: ")
        ]
        ours = [event for event in events if "steps" in event]
        assert ours
        assert ours[0]["steps"] == [{"name": "boot"}]
        numbers |= {event["number"] for event in ours}
        assert events[-1]["ready"]
    assert len(numbers) == 2
    await hub.stop_server("dan")


async def test_spawn_exception_is_shown_by_rest_and_page(hub: ProbedHub) -> None:
    """`EC2Spawner.start` leans on it: the message with its status by REST, escaped on the page."""
    reply = await hub.request_server("eve", options={"fail": True})
    assert reply.status_code == 503
    assert reply.json()["message"] == MARKUP
    async with browser(hub, "fay") as page:
        xsrf = await xsrf_of(page, "/hub/spawn/fay")
        posted = await page.post(f"/hub/spawn/fay?_xsrf={xsrf}", data={"fail": "yes"})
    assert "&lt;b&gt;words&lt;/b&gt; for people" in posted.text
    assert "<b>words" not in posted.text


def _at(notes: list[dict[str, Any]], what: str) -> float:
    return float(next(x["at"] for x in notes if x["what"] == what))
