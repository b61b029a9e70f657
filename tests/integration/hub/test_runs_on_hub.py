"""Runs through a real hub, agents, executors and kernels; only EC2 is simulated."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import nbformat
import pytest
import pytest_asyncio

from tests.harness import Embedded, Hub, demo_config, until
from tests.jupyter_by_hand import Jupyter, Kernel, printed
from tests.runs_by_rest import Runs, runs_of

pytestmark = [pytest.mark.slow(seconds=110), pytest.mark.asyncio(loop_scope="module")]

OPTIONS = (
    "c.EC2Spawner.runs = {'at_once': 3}",
    "c.EC2Spawner.home = {'kind': 'ebs', 'size_gib': 20, 'named_servers': 'copy'}",
    "c.EC2Spawner.stop_timeout = '20s'",
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("runs")
    embedded = await Embedded(folder / "embedded").start()
    running = Hub(folder / "hub", embedded, config=demo_config(folder / "config", *OPTIONS))
    try:
        yield await running.start()
    finally:
        await running.stop()
        await embedded.stop()
        print(running.tail(200))


def notebook(*cells: str, tags: tuple[str, ...] = ()) -> str:
    document = nbformat.v4.new_notebook()
    document.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    if tags:
        document.cells[0].metadata["tags"] = list(tags)
    return str(nbformat.writes(document))


def outputs(result: str) -> str:
    """All that the cells have printed."""
    cells = json.loads(result)["cells"]
    found = [each.get("text", "") for cell in cells for each in cell.get("outputs", [])]
    return "".join("".join(text) for text in found)


async def running(hub: Hub) -> list[dict[str, Any]]:
    instances = await hub.embedded.instances()
    return [each for each in instances if each["state"] in {"pending", "running"}]


async def homes(hub: Hub, *filters: dict[str, Any]) -> set[str]:
    """Ids of the volumes of homes."""
    of_home = {"Name": "tag-key", "Values": ["ec2spawner:home"]}
    client = hub.embedded.client()
    found = await asyncio.to_thread(client.describe_volumes, Filters=[of_home, *filters])
    return {each["VolumeId"] for each in found["Volumes"]}


async def none_runs(hub: Hub) -> None:
    async def is_over() -> bool:
        return not await running(hub)

    await until(is_over, 60, "all instances to end")


@pytest.mark.nightly(
    guard="tests/integration/hub/test_runs_on_hub.py::"
    "test_the_result_comes_into_the_home_of_the_server_that_sent_it"
)
async def test_a_notebook_is_executed_with_parameters_and_leaves_only_its_result(hub: Hub) -> None:
    ann, before = await runs_of(hub, "ann"), await homes(hub)
    document = notebook("seed = 1", "print('seed', seed)", tags=("parameters",))
    first = await ann.submit(document, parameters=[{"seed": 7}, {"seed": 8}])
    for number, seed in ((first, 7), (first + 1, 8)):
        run = await ann.until(number, "ended")
        assert (run["outcome"], run["array"], run["cells_done"]) == ("succeeded", first, 3), run
        assert f"seed {seed}" in outputs(await ann.result(number))
        assert run["usd"] > 0
    await none_runs(hub)

    async def none_left() -> bool:
        return await homes(hub) <= before

    await until(none_left, 60, "their volumes to be deleted")


async def test_an_interrupted_loop_continues_from_its_checkpoint(hub: Hub, tmp_path: Path) -> None:
    await none_runs(hub)
    ann = await runs_of(hub, "ann")
    marks, waited = tmp_path / "marks", tmp_path / "waited"
    source = f"""
import json, pathlib, time
from ec2spawner import checkpoint
state = {{"total": 0}}
def save(path):
    path.write_text(json.dumps(state))
def load(path):
    state.update(json.loads(path.read_text()))
for step in checkpoint.resumable(range(40), save=save, load=load, every=0):
    state["total"] += step
    with open({str(marks)!r}, "a") as file:
        file.write(f"{{step}}\\n")
    time.sleep(0.2)
    if step == 10 and not pathlib.Path({str(waited)!r}).exists():
        pathlib.Path({str(waited)!r}).touch()
        time.sleep(3600)  # until the instance is interrupted
print("total", state["total"])
"""
    number = await ann.submit(notebook(source))

    async def has_steps() -> bool:
        return marks.exists() and len(marks.read_text().split()) >= 5

    await until(has_steps, 90, "some steps")
    [instance] = await running(hub)
    await hub.embedded.control(f"interrupt/{instance['instance_id']}", {"notice_seconds": 5})
    run = await ann.until(number, "ended", seconds=180)
    assert (run["outcome"], run["attempts"]) == ("succeeded", 2), run
    assert f"total {sum(range(40))}" in outputs(await ann.result(number))
    steps = [int(each) for each in marks.read_text().split()]
    assert steps.count(0) == 1, "it did not begin anew"
    assert max(steps.count(step) for step in steps) <= 2


@pytest.mark.nightly(
    guard="tests/unit/provisioner/runs/test_runs.py::"
    "test_what_a_killed_hub_has_begun_is_neither_lost_nor_done_twice"
)
async def test_a_killed_hub_finds_its_runs_again(hub: Hub) -> None:
    ann = await runs_of(hub, "ann")
    number = await ann.submit("import time\ntime.sleep(8)\nprint('done')\n", "slow.py")
    await ann.until(number, "running")
    await hub.kill()
    await hub.start()
    run = await ann.until(number, "ended")
    assert (run["outcome"], run["attempts"]) == ("succeeded", 1), run
    assert await ann.result(number) == "done\n"


@pytest.mark.nightly(
    guard="tests/unit/run_executor/test_run_of_notebook.py::test_the_first_error_ends_a_run"
)
async def test_an_error_ends_the_run_and_says_which_cell(hub: Hub) -> None:
    ann = await runs_of(hub, "ann")
    number = await ann.submit(notebook("1 + 1", "raise ValueError('no data')", "print('never')"))
    run = await ann.until(number, "ended")
    assert run["outcome"] == "failed"
    assert "ValueError" in run["message"]
    assert "never" not in outputs(await ann.result(number))


@pytest.mark.nightly(
    guard="tests/unit/provisioner/runs/test_runs.py::"
    "test_one_run_of_an_array_is_cancelled_or_all_of_them"
)
async def test_a_cancelled_run_ends_with_its_instance(hub: Hub) -> None:
    ann = await runs_of(hub, "ann")
    number = await ann.submit("import time\ntime.sleep(600)\n", "wait.py")
    await ann.until(number, "running")
    unclear = await ann.api.delete(f"/runs/{number}", params={"array": "false"})
    assert unclear.status_code == 400
    reply = await ann.api.delete(f"/runs/{number}")
    assert [each["outcome"] for each in reply.json()["runs"]] == ["cancelled"]
    await none_runs(hub)


async def waits_for_price(runs: Runs, number: int) -> bool:
    run = await runs.one(number)
    return run["state"] == "queued" and "USD/hour or less" in run["message"]


@pytest.mark.nightly(
    guard="tests/unit/provisioner/runs/test_run_starts.py::"
    "test_a_run_takes_any_price_once_it_has_waited_long_enough"
)
async def test_a_run_waits_for_a_spot_price_until_a_time(hub: Hub) -> None:
    ann = await runs_of(hub, "ann")
    script = "print('done')\n"
    cheap = await ann.submit(script, "x.py", max_spot_usd_per_hour=5.0)
    at = datetime.now(UTC) + timedelta(seconds=15)
    late = await ann.submit(script, "x.py", max_spot_usd_per_hour=0.0001, wait_until=at.isoformat())
    await until(lambda: waits_for_price(ann, late), 10, "the run to wait for its price")
    run = await ann.until(cheap, "ended")
    assert (run["outcome"], run["market"]) == ("succeeded", "spot")
    run = await ann.until(late, "ended")
    assert (run["outcome"], run["attempts"]) == ("succeeded", 1)
    assert datetime.fromisoformat(run["started_at"]) >= at


async def test_nobody_reads_or_cancels_anothers_run(hub: Hub) -> None:
    ann, eve = await runs_of(hub, "ann"), await runs_of(hub, "eve")
    number = await ann.submit("print('secret')\n", "secret.py")
    for method, path in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
        assert (await eve.api.request(method, f"/runs/{number}{path}")).status_code == 404
    assert (await eve.api.get("/runs")).json()["runs"] == []
    assert (await eve.api.get("/runs", params={"user": "ann"})).status_code == 403
    stolen = await eve.api.delete(f"/runs/{number}", params={"user": "ann"})
    assert stolen.status_code == 403
    run = await ann.until(number, "ended")
    assert run["outcome"] == "succeeded"
    own = await ann.api.get("/runs", params={"user": "ann"})
    assert number in [each["number"] for each in own.json()["runs"]]
    nobody = httpx.AsyncClient(base_url=eve.api.base_url)
    for method, path in (("GET", "/runs"), ("POST", "/runs"), ("GET", f"/runs/{number}/result")):
        assert (await nobody.request(method, path)).status_code == 403
    service = {"Authorization": hub.api.headers["Authorization"]}
    assert (await nobody.get("/runs", headers=service)).status_code == 403
    # Who manages all servers sees and cancels all runs, and reads no results.
    of_ann = {"user": "ann"}
    seen = await nobody.get("/runs", headers=service, params=of_ann)
    assert number in [each["number"] for each in seen.json()["runs"]]
    result = await nobody.get(f"/runs/{number}/result", headers=service, params=of_ann)
    assert result.status_code == 403
    waiting = await ann.submit("import time\ntime.sleep(600)\n", "wait.py")
    cancelled = await nobody.delete(f"/runs/{waiting}", headers=service, params=of_ann)
    assert [each["outcome"] for each in cancelled.json()["runs"]] == ["cancelled"]


@pytest.mark.nightly(
    guard="tests/unit/hub/test_runs_of_new_account.py::"
    "test_the_users_calls_have_only_runs_of_the_new_account"
)
async def test_a_new_account_has_no_runs_of_a_deleted_one_of_its_name(hub: Hub) -> None:
    old = await runs_of(hub, "ned")
    number = await old.submit("print('secret')\n", "secret.py")
    await old.until(number, "ended")
    (await hub.api.delete("/users/ned")).raise_for_status()
    await asyncio.sleep(1.1)  # JupyterHub remembers when an account was created, in seconds
    new = await runs_of(hub, "ned")
    for own in ({}, {"user": "ned"}):
        assert (await new.api.get("/runs", params=own)).json()["runs"] == []
        for method, path in (("GET", ""), ("GET", "/result"), ("DELETE", "")):
            reply = await new.api.request(method, f"/runs/{number}{path}", params=own)
            assert reply.status_code == 404, (method, path, own)


BAD: dict[str, list[tuple[Any, str]]] = {
    "path": [("../etc/x.py", "path"), ("train.txt", "path"), ("/abs/train.py", "path")],
    "document": [("%%%", "document"), ("aGFsbG8=", "document")],
    "profile": [("none-such", "none-such")],
    "parameters": [([], "parameters"), ([{"x": "y" * 9000}], "parameters")],
    "deadline": [("2020-01-01T00:00:00Z", "deadline"), ("2030-01-01", "deadline")],
    "max_usd": [(-1, "max_usd")],
    "wait_until": [("2030-01-01T00:00:00Z", "wait_until")],
}


async def test_a_wrong_submission_is_refused_with_the_field(hub: Hub) -> None:
    ann = await runs_of(hub, "ann")
    good = {
        "path": "x.py",
        "document": base64.b64encode(zlib.compress(b"pass")).decode(),
        "profile": "cpu",
    }
    for field, values in BAD.items():
        for value, named in values:
            reply = await ann.api.post("/runs", json=good | {field: value})
            assert reply.status_code == 400, (field, value, reply.text)
            assert named in reply.json()["message"], (field, value, reply.text)
    no_notebook = good | {"path": "x.ipynb"}
    assert "document" in (await ann.api.post("/runs", json=no_notebook)).json()["message"]
    bomb = base64.b64encode(zlib.compress(b"0" * 70 * 1024 * 1024)).decode()
    assert (await ann.api.post("/runs", json=good | {"document": bomb})).status_code == 400


WRITE = """
import nbformat, pathlib
notebook = nbformat.v4.new_notebook()
notebook.cells = [nbformat.v4.new_code_cell("print('from', 'afar')")]
pathlib.Path.home().joinpath("work").mkdir(exist_ok=True)
nbformat.write(notebook, pathlib.Path.home() / "work" / "train.ipynb")
"""

SUBMIT = """
import subprocess
said = subprocess.run(
    "cd ~/work && ec2spawner run train.ipynb --profile cpu --json",
    shell=True, capture_output=True, text=True,
)
print(said.stdout, said.stderr)
"""

RESULTS = "print([each.read_text() for each in pathlib.Path.home().glob('runs/train-*.ipynb')])"


async def test_a_repeated_submission_is_answered_whatever_would_refuse_it_by_now(hub: Hub) -> None:
    ann, bob = await runs_of(hub, "ann"), await runs_of(hub, "bob")
    number = await ann.submit("print('x')", "work/x.py", request_id="once")
    is_over = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    again = {"request_id": "once", "deadline": is_over}
    assert await ann.submit("print('x')", "work/x.py", **again) == number
    with pytest.raises(AssertionError, match="deadline"):
        await bob.submit("print('x')", "work/x.py", **again)
    await ann.until(number, "ended")


async def test_the_result_comes_into_the_home_of_the_server_that_sent_it(hub: Hub) -> None:
    with hub.embedded.jupyterlab():
        await hub.start_server("dan", options={"profile": "cpu"})
    token = await hub.user_token("dan")
    async with Jupyter(f"{hub.url}/user/dan/", token) as jupyter:
        body = {"type": "notebook", "format": "json", "content": json.loads(notebook())}
        assert (await jupyter.call("PUT", "api/contents/x.ipynb", json=body))[0] == 201
        kernel = Kernel(jupyter, await jupyter.start_notebook("x.ipynb"))
        await kernel.run(WRITE)
        said = printed(await kernel.run(SUBMIT))
        number = json.loads(said.strip().splitlines()[0])["runs"][0]["number"]

        async def is_there() -> bool:
            return "from afar" in printed(await kernel.run(RESULTS))

        await until(is_there, 120, "the executed notebook in the home")
    runs = Runs(hub, token)
    run = await runs.one(number)
    assert (run["outcome"], run["delivered"], run["path"]) == (
        "succeeded",
        True,
        "work/train.ipynb",
    )
    await hub.stop_server("dan")
    # Its files are copied once it need not wait any more.
    waiting = await runs.submit("print()\n", "x.py", max_spot_usd_per_hour=0.0001)
    await until(lambda: waits_for_price(runs, waiting), 10, "a run to wait for its price")
    of_dan = {"Name": "tag:ec2spawner:user", "Values": ["dan"]}

    async def has_one_home() -> bool:
        return len(await homes(hub, of_dan)) == 1

    await until(has_one_home, 30, "no volume but the home of the server")
    assert (await runs.api.delete(f"/runs/{waiting}")).status_code == 200
