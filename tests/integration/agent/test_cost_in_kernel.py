"""What the work costs, reported in a real kernel of a real notebook beside a real agent."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.harness import Notebook
from tests.integration.agent.lease_on_instance import API_TOKEN, PYTHON, Machine, StubHub, until
from tests.jupyter_by_hand import Jupyter, Kernel, of_kind

COST = r"(?:less than )?\$[\d.]+ in [\d.]+ m?s"
REMARK = r" \(estimate in USD; \$0\.50/h\)"

PATIENT = """
from ec2spawner.cost import agent
agent.TIMEOUT = 60.0
"""
"""An agent of a busy machine answers late; after one answer that is too late it is not asked for
half a minute."""

EPOCHS = """
import time
from ec2spawner import cost
for epoch in cost.epochs(range(3), name="<b>epoch</b>"):
    print("loss", epoch)
    time.sleep(0.6)
"""

THREAD = """
import threading
def work():
    with cost.track("in a thread"):
        pass
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""

REDIRECTED = """
import contextlib, io
with contextlib.redirect_stdout(io.StringIO()) as taken, cost.track("taken"):
    pass
taken.getvalue()
"""


@pytest.fixture
def notebook() -> Notebook:
    return "jupyterlab"


def text_of(said: list[dict[str, Any]]) -> str:
    """The one line of cost that a cell has shown."""
    [shown] = of_kind(said, "display_data")
    return str(shown["data"]["text/plain"])


async def test_cells_blocks_epochs_and_scripts_report_their_cost(
    machine: Machine, hub: StubHub
) -> None:
    await machine.boot()
    hub.give(machine.lease())
    await until(lambda: hub.event("ready"), what="ready")
    await until(lambda: hub.heartbeats, what="a heartbeat, whose response has the cost")
    async with Jupyter(machine.base_url, API_TOKEN) as ada:
        kernel = Kernel(ada, await ada.start_notebook("train.ipynb"))
        assert of_kind(await kernel.run(PATIENT), "error", "stream") == []
        assert of_kind(await kernel.run("%load_ext ec2spawner.cost"), "error", "stream") == []

        said = await kernel.run("%%cost <i>fit</i>\nimport asyncio\nawait asyncio.sleep(0.1)\n42")
        assert re.fullmatch(rf"<i>fit</i>: {COST}{REMARK}", text_of(said))
        [shown] = of_kind(said, "display_data")
        assert "&lt;i&gt;fit&lt;/i&gt;: " in shown["data"]["text/html"]
        assert 'class="mathjax_ignore' in shown["data"]["text/html"]  # two $ are not a formula
        assert shown["metadata"] == {}
        assert [each["data"]["text/plain"] for each in of_kind(said, "execute_result")] == ["42"]

        said = await kernel.run(EPOCHS)
        first, *later = of_kind(said, "display_data", "update_display_data")
        assert first["kind"] == "display_data"
        assert {each["kind"] for each in later} == {"update_display_data"}
        assert {each["transient"]["display_id"] for each in later} == {
            first["transient"]["display_id"]
        }
        line = first["data"]["text/plain"]
        forecast = r"; so far .*; forecast \$[\d.]+; \d+\.\d+ s left, until \d\d:\d\d UTC"
        assert re.fullmatch(rf"<b>epoch</b> 1 of 3: {COST}{forecast}{REMARK}", line), line
        last = later[-1]["data"]["text/plain"]
        assert re.fullmatch(rf"3 <b>epoch</b>s: {COST}; .* each{REMARK}", last), last
        assert "".join(each["text"] for each in of_kind(said, "stream")) == (
            "loss 0\nloss 1\nloss 2\n"
        )

        said = await kernel.run("%%cost\nprint('go', flush=True)\ntime.sleep(30)", "go")
        assert re.fullmatch(rf"{COST}, ended by KeyboardInterrupt{REMARK}", text_of(said))
        assert of_kind(said, "execute_reply")[0]["ename"] == "KeyboardInterrupt"

        said = await kernel.run("%%cost\n1 / 0")
        assert "ended by ZeroDivisionError" in text_of(said)
        assert of_kind(said, "execute_reply")[0]["ename"] == "ZeroDivisionError"

        assert text_of(await kernel.run(THREAD)).startswith("in a thread: ")
        said = await kernel.run(REDIRECTED)
        [result] = of_kind(said, "execute_result")
        assert "taken: " in result["data"]["text/plain"]
        assert of_kind(said, "display_data") == []
        said = await kernel.run("%cost")
        assert re.fullmatch(
            r"This server has cost \$0\.01\d* so far; \$0\.50/h; all your servers today \$1\.25; "
            r"this month \$20\.50 \(estimate in USD\)",
            text_of(said),
        )

        (machine.home / "train.py").write_text(PATIENT + EPOCHS)
        await ada.type(f"{PYTHON} train.py > train.log; mv train.log done.log")
        log = machine.home / "done.log"
        await until(log.exists, what="the script in the terminal")
        lines = log.read_text().splitlines()
        assert re.match(rf"3 <b>epoch</b>s: {COST}; .* each{REMARK}", lines[-1]), lines
