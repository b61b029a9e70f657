"""Documents: what an executed notebook is packed into, and what is left out of one too large."""

from __future__ import annotations

import asyncio
import base64
import os
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import (
    new_code_cell,
    new_markdown_cell,
    new_notebook,
    new_output,
    new_raw_cell,
)

from ec2spawner.core.runs import documents
from ec2spawner.core.runs.documents import unpack
from ec2spawner.run_executor import notebook_document
from ec2spawner.run_executor.execution import CannotExecute
from ec2spawner.run_executor.log_end import MAX_LOG_BYTES, LogEnd
from ec2spawner.run_executor.log_end import encode as encode_log
from ec2spawner.run_executor.notebook_document import encode, read, snapshot
from ec2spawner.wire.runs import MAX_DOCUMENT_BYTES

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def stream(text: str) -> Any:
    return new_output("stream", name="stdout", text=text)


def decoded(document: str) -> Any:
    notebook = nbformat.reads(unpack(document).decode(), as_version=4)
    nbformat.validate(notebook)
    return notebook


@given(TEXTS, TEXTS)
def test_a_notebook_is_written_as_jupyter_writes_it(text: str, source: str) -> None:
    data = {"text/plain": text, "image/png": "iVBORw0K", "application/json": {"a": [1, text]}}
    outputs = [
        stream(text),
        new_output("display_data", data=data),
        new_output("error", ename="E", evalue=text, traceback=[text]),
    ]
    cells = [
        new_markdown_cell(source, attachments={"a.svg": {"image/svg+xml": text}}),
        new_code_cell(source, outputs=outputs, metadata={"trusted": True, "tags": ["a"]}),
        new_raw_cell(text),
    ]
    for notebook in (new_notebook(cells=cells, metadata={"x": text}), new_notebook()):
        assert unpack(encode(snapshot(notebook))).decode() == nbformat.writes(notebook)


def test_a_snapshot_does_not_change() -> None:
    notebook = new_notebook(cells=[new_code_cell("a", outputs=[stream("before")])])
    taken = snapshot(notebook)
    notebook.cells[0].outputs[0]["text"] += " after"
    notebook.cells[0].outputs.append(stream("after"))
    notebook.cells[0].metadata["execution"] = {"after": ""}
    assert b"after" not in unpack(encode(taken))


def noise(size: int) -> str:
    """What zlib does not make smaller than three quarters."""
    return base64.b64encode(os.urandom(size * 3 // 4)).decode()


def test_the_largest_outputs_are_left_out_of_what_is_too_large() -> None:
    error = new_output("error", ename="ValueError", evalue="no", traceback=["at the end"])
    cells = [
        new_code_cell("small", outputs=[stream("kept")]),
        new_code_cell("large", outputs=[stream(noise(5 << 19)), error]),
        new_code_cell("larger", outputs=[stream(noise(4 << 20))]),
        new_code_cell("middle", outputs=[stream(noise(1 << 20))]),
    ]
    document = encode(snapshot(new_notebook(cells=cells)))
    assert 0 < len(document) <= MAX_DOCUMENT_BYTES
    small, large, larger, middle = decoded(document).cells
    assert small.outputs == cells[0].outputs
    assert middle.outputs == cells[3].outputs
    assert large.outputs == cells[1].outputs, "one less was enough"
    assert len(larger.outputs) == 1
    assert "left out" in larger.outputs[0].text
    assert larger.source == "larger"


def test_the_error_of_a_cell_without_its_outputs_stays() -> None:
    error = new_output("error", ename="ValueError", evalue="no", traceback=["at the end"])
    cells = [new_code_cell("a", outputs=[stream(noise(6 << 20)), error])]
    (cell,) = decoded(encode(snapshot(new_notebook(cells=cells)))).cells
    assert [each.output_type for each in cell.outputs] == ["stream", "error"]


def test_the_state_of_widgets_is_left_out_like_outputs() -> None:
    cells = [new_code_cell("a", outputs=[stream("kept")])]
    notebook = new_notebook(cells=cells, metadata={"widgets": {"state": noise(6 << 20)}})
    left = decoded(encode(snapshot(notebook)))
    assert "widgets" not in left.metadata
    assert left.cells[0].outputs == cells[0].outputs


def test_what_is_long_once_it_is_unpacked_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (documents, notebook_document):
        monkeypatch.setattr(module, "MAX_PLAIN_BYTES", 100_000)
    cells = [new_code_cell(str(n), outputs=[stream("x" * 40_000)]) for n in range(10)]
    document = encode(snapshot(new_notebook(cells=cells)))
    left = [len(each.outputs[0].text) for each in decoded(document).cells]
    assert left.count(40_000) == 2


def test_sources_that_do_not_fit_make_no_document() -> None:
    assert encode(snapshot(new_notebook(cells=[new_code_cell(noise(6 << 20))]))) == ""


def test_earlier_outputs_are_not_those_of_a_run() -> None:
    cells = [
        new_code_cell("a", outputs=[stream("old")], execution_count=7),
        new_code_cell("b", outputs=[stream("old")], metadata={"tags": ["skip-execution"]}),
    ]
    source = nbformat.writes(new_notebook(cells=cells, metadata={"widgets": {}}))
    executed, skipped = read(source.encode()).cells
    assert (executed.outputs, executed.execution_count) == ([], None)
    assert skipped.outputs == cells[1].outputs


@pytest.mark.parametrize("document", [b"", b"{}", b"[1]", b"\xff", b'{"nbformat": 4}'])
def test_what_is_no_notebook_is_said_so(document: bytes) -> None:
    with pytest.raises(CannotExecute, match="not a notebook"):
        read(document)


def test_of_a_log_the_end_is_kept() -> None:
    log = LogEnd()
    for number in range(30):
        log.add(bytes([48 + number % 10]) * (1 << 20))
    log.add(b"the end")
    text = unpack(encode_log(*log.snapshot()))
    assert text.endswith(b"9the end")
    assert text.startswith(b"[The first ")
    assert MAX_LOG_BYTES <= len(text) < MAX_LOG_BYTES + 100
    assert log.last(3) == "end"


def test_of_a_log_that_is_noise_as_much_is_kept_as_fits() -> None:
    log = LogEnd()
    log.add(os.urandom(8 << 20))
    log.add(b"the end")
    document = encode_log(*log.snapshot())
    assert MAX_DOCUMENT_BYTES // 2 < len(document) <= MAX_DOCUMENT_BYTES
    assert unpack(document).endswith(b"the end")


def test_a_log_without_an_end_does_not_fail() -> None:
    assert unpack(encode_log(*LogEnd().snapshot())) == b""


async def test_a_large_notebook_is_encoded_beside_the_event_loop() -> None:
    """What blocks is a part of the time that encoding takes: a cell at a time."""
    from ec2spawner.run_executor.threads import in_thread

    cells = [new_code_cell("a", outputs=[stream("some text\n" * 20_000)]) for _ in range(100)]
    taken = snapshot(new_notebook(cells=cells))
    encoding = asyncio.create_task(in_thread(encode, taken))
    turns = 0
    while not encoding.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10
    assert await encoding
