"""Which executions a page has missed, for how long they are kept, and how a notebook gets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from nbformat.v4 import new_code_cell, new_notebook

from ec2spawner.notebook.documents.executions import (
    KEPT_SECONDS,
    MAX_EXECUTIONS,
    Execution,
    Executions,
)
from ec2spawner.notebook.documents.notebook_file import merge
from ec2spawner.notebook.documents.recorder import DELIMITER, OutputRecorder

NOW = 1000.0


class Kernel:
    """A kernel with pages, of which some are connected."""

    def __init__(self) -> None:
        self.connected = {"page"}
        self.executions = Executions(lambda kernel, session: session in self.connected)

    def send(self, id_: str, cell: str = "cell", session: str = "page") -> None:
        self.executions.begin(Execution(id_, "kernel", session, cell))

    def say(self, id_: str, kind: str, **content: Any) -> None:
        self.executions.hear("kernel", kind, id_, content, NOW)

    def run(self, id_: str, text: str, *, ends: bool = True) -> None:
        self.say(id_, "execute_input", execution_count=1, code="")
        self.say(id_, "stream", name="stdout", text=text)
        if ends:
            self.say(id_, "status", execution_state="idle")

    def left(self) -> list[str]:
        return [each.id for each in self.executions.left(["kernel"])]


def test_only_pages_that_are_gone_have_missed_something() -> None:
    kernel = Kernel()
    kernel.send("a")
    kernel.run("a", "printed")
    assert kernel.left() == []
    kernel.connected.clear()
    assert kernel.left() == ["a"]
    assert kernel.executions.left(["another"]) == []


def test_what_runs_is_left_but_what_waits_or_was_never_begun_is_not() -> None:
    kernel = Kernel()
    kernel.send("a")
    kernel.send("b", "another cell")
    kernel.connected.clear()
    kernel.run("a", "printed", ends=False)
    assert kernel.left() == ["a"]
    kernel.say("b", "status", execution_state="busy")
    kernel.say("b", "status", execution_state="idle")
    assert [each.id for each in kernel.executions.of(["kernel"])] == ["a"]


def test_running_a_cell_again_drops_what_it_has_shown() -> None:
    kernel = Kernel()
    kernel.send("a", session="closed page")
    kernel.run("a", "printed")
    kernel.send("b", session="page")
    assert kernel.left() == []


def test_what_a_page_took_is_dropped_once_it_has_ended() -> None:
    kernel = Kernel()
    kernel.connected.clear()
    kernel.send("a")
    kernel.run("a", "printed", ends=False)
    kernel.executions.taken(["a", "unknown"])
    assert kernel.left() == ["a"]
    kernel.say("a", "status", execution_state="idle")
    kernel.executions.taken(["a"])
    assert kernel.left() == []


def test_a_restarted_kernel_runs_nothing() -> None:
    kernel = Kernel()
    kernel.connected.clear()
    kernel.send("a")
    kernel.run("a", "printed", ends=False)
    kernel.say("", "status", execution_state="starting")
    [execution] = kernel.executions.left(["kernel"])
    assert execution.ended_at == NOW


def test_an_execution_is_kept_until_its_page_surely_has_it() -> None:
    kernel = Kernel()
    kernel.send("a")
    kernel.run("a", "printed")
    kernel.executions.prune(NOW + KEPT_SECONDS)
    assert len(kernel.executions.of(["kernel"])) == 1
    kernel.executions.prune(NOW + KEPT_SECONDS + 1)
    assert kernel.executions.of(["kernel"]) == []


def test_without_its_page_an_execution_is_kept_until_there_are_too_many() -> None:
    kernel = Kernel()
    kernel.connected.clear()
    for number in range(MAX_EXECUTIONS + 2):
        kernel.send(str(number), f"cell {number}")
        kernel.run(str(number), "printed")
    kernel.executions.prune(NOW + 10 * KEPT_SECONDS)
    assert kernel.left() == [str(number) for number in range(2, MAX_EXECUTIONS + 2)]


def test_a_display_of_an_earlier_cell_is_updated() -> None:
    kernel = Kernel()
    kernel.connected.clear()
    kernel.send("a", "first")
    kernel.send("b", "second")
    shown: dict[str, Any] = {"metadata": {}, "transient": {"display_id": "x"}}
    kernel.say("a", "execute_input", execution_count=1)
    kernel.say("a", "display_data", data={"text/plain": "old"}, **shown)
    kernel.say("b", "update_display_data", data={"text/plain": "new"}, **shown)
    [execution] = kernel.executions.left(["kernel"])
    assert execution.outputs.as_nbformat()[0]["data"] == {"text/plain": "new"}


def test_outputs_are_merged_into_the_cells_that_are_still_there() -> None:
    kernel = Kernel()
    kernel.connected.clear()
    for cell in ("code", "text", "deleted"):
        kernel.send(cell, cell)
        kernel.run(cell, "printed")
    code = {"id": "code", "cell_type": "code", "source": "x", "outputs": [], "metadata": {}}
    text = {"id": "text", "cell_type": "markdown", "source": "x", "metadata": {}}
    content = {"cells": [dict(code), dict(text)]}
    executions = kernel.executions.left(["kernel"])
    assert merge(content, executions)
    output = {"output_type": "stream", "name": "stdout", "text": "printed"}
    assert content["cells"] == [code | {"outputs": [output], "execution_count": 1}, text]
    assert not merge(content, executions), "nothing has changed since"


class IopubStream:
    """What a kernel publishes, as PyZMQ gives it to Jupyter Server."""

    def __init__(self) -> None:
        self.socket = SimpleNamespace()
        self.on_recv: Callable[[Callable[[list[bytes]], None]], None] = self._connect
        self._receive: Callable[[list[bytes]], None] = lambda _: None

    def _connect(self, receive: Callable[[list[bytes]], None]) -> None:
        self._receive = receive

    def publish(self, kind: str, **content: Any) -> None:
        header = json.dumps({"msg_type": kind}, separators=(",", ": ")).encode()
        parent = json.dumps({"msg_id": "request"}).encode()
        self._receive([b"", DELIMITER, b"", header, parent, b"{}", json.dumps(content).encode()])


@pytest.mark.parametrize("cell_id", ["there", "deleted"])
async def test_a_file_is_written_only_where_its_cell_is_still_there(
    tmp_path: Path, cell_id: str
) -> None:
    file = tmp_path / "a.ipynb"
    cell = new_code_cell("train()", id="there")
    nbformat.write(new_notebook(cells=[cell]), file)
    before = file.read_bytes(), file.stat().st_mtime_ns

    async def list_sessions() -> list[dict[str, Any]]:
        return [{"type": "notebook", "kernel": {"id": "k"}, "path": "a.ipynb"}]

    server: Any = SimpleNamespace(
        kernel_manager=None,
        session_manager=SimpleNamespace(list_sessions=list_sessions),
        contents_manager=AsyncFileContentsManager(root_dir=str(tmp_path)),
    )
    recorder, stream = OutputRecorder(server), IopubStream()
    kernel = SimpleNamespace(connect_iopub=lambda: stream)
    recorder.asked("k", kernel, {"msg_id": "request", "session": "closed page"}, cell_id)
    assert recorder.running_cell("k") == ""
    stream.publish("execute_input", execution_count=1, code="train()")
    assert recorder.running_cell("k") == cell_id
    stream.publish("stream", name="stdout", text="printed")
    stream.publish("status", execution_state="idle")
    assert recorder.running_cell("k") == ""
    assert [each["cell_id"] for each in await recorder.left("a.ipynb")] == [cell_id]
    await recorder.write(is_last=True)
    assert await recorder.left("a.ipynb") == [], "no other page shows it any more"
    if cell_id == "deleted":
        assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    else:
        [written] = nbformat.read(file, as_version=4).cells
        assert [each.text for each in written.outputs] == ["printed"]


def test_an_id_that_no_notebook_has_is_none() -> None:
    """It comes from a browser, and becomes part of what is stored."""
    managers = ("kernel_manager", "session_manager", "contents_manager")
    server: Any = SimpleNamespace(**dict.fromkeys(managers))
    recorder, stream = OutputRecorder(server), IopubStream()
    kernel = SimpleNamespace(connect_iopub=lambda: stream)
    recorder.asked("k", kernel, {"msg_id": "request", "session": "page"}, "a\x00b")
    stream.publish("execute_input", execution_count=1, code="")
    assert recorder.running_cell("k") == ""
