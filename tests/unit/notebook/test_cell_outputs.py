"""Kernel messages become the outputs that JupyterLab would have shown and saved."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.notebook.documents.cell_outputs import (
    COMPACT_AFTER,
    MAX_DISPLAY_BYTES,
    MAX_TEXT,
    CellOutputs,
    overwritten,
)


def printed(outputs: CellOutputs, text: str, name: str = "stdout") -> None:
    outputs.add("stream", {"name": name, "text": text})


def shown(outputs: CellOutputs, text: str, display_id: str = "") -> None:
    transient = {"display_id": display_id} if display_id else {}
    content = {"data": {"text/plain": text}, "metadata": {}, "transient": transient}
    outputs.add("display_data", content)


def texts(outputs: CellOutputs) -> list[Any]:
    return [
        each["text"] if each["output_type"] == "stream" else each["data"]["text/plain"]
        for each in outputs.as_nbformat()
    ]


def test_one_stream_is_one_output_until_something_else_comes() -> None:
    outputs = CellOutputs()
    printed(outputs, "a\n")
    printed(outputs, "b\n")
    assert texts(outputs) == ["a\nb\n"]
    printed(outputs, "c\n")
    printed(outputs, "error\n", "stderr")
    shown(outputs, "d")
    printed(outputs, "e\n")
    assert texts(outputs) == ["a\nb\nc\n", "error\n", "d", "e\n"]


def test_results_and_errors_are_as_nbformat_has_them() -> None:
    outputs = CellOutputs()
    data = {"data": {"text/plain": "1"}, "metadata": {}}
    outputs.add("execute_result", data | {"execution_count": 3})
    error = {"ename": "E", "evalue": "v", "traceback": ["t"]}
    outputs.add("error", error | {"status": "error"})
    assert outputs.as_nbformat() == [
        {"output_type": "execute_result", "execution_count": 3} | data,
        {"output_type": "error"} | error,
    ]


def test_clear_output_clears_at_once_or_with_the_next_output() -> None:
    outputs = CellOutputs()
    printed(outputs, "a")
    outputs.add("clear_output", {"wait": True})
    assert texts(outputs) == ["a"]
    printed(outputs, "b")
    assert texts(outputs) == ["b"]
    outputs.add("clear_output", {"wait": False})
    assert texts(outputs) == []


def test_a_display_is_updated_by_its_id() -> None:
    outputs = CellOutputs()
    shown(outputs, "old", "x")
    shown(outputs, "other", "y")
    shown(outputs, "none")
    update = {"data": {"text/plain": "new"}, "metadata": {}, "transient": {"display_id": "x"}}
    outputs.add("update_display_data", update)
    outputs.add("update_display_data", {**update, "transient": {}})
    assert texts(outputs) == ["new", "other", "none"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\n", "plain\n"),
        ("\r 10%\r 20%", " 20%"),
        ("long line\rshort", "shortline"),
        ("windows\r\nlines\r\n", "windows\r\nlines\r\n"),
        ("first\r1\nsecond\r2", "1irst\n2econd"),
        ("waits\r", "waits\r"),
    ],
)
def test_a_carriage_return_overwrites_its_line(text: str, expected: str) -> None:
    assert overwritten(text) == expected


def test_a_progress_bar_of_hours_stays_one_line() -> None:
    outputs = CellOutputs()
    bar = "x" * 1000
    for number in range(2 * COMPACT_AFTER // len(bar)):
        printed(outputs, f"\r{bar}{number:6}")
        assert outputs.size < 2 * COMPACT_AFTER
    assert texts(outputs) == [f"{bar}{number:6}"]


def test_of_a_stream_that_is_too_long_beginning_and_end_are_kept() -> None:
    outputs = CellOutputs()
    printed(outputs, "begins\n")
    for _ in range(3 * MAX_TEXT // 100_000):
        printed(outputs, "y" * 100_000)
    printed(outputs, "ends\n")
    [text] = texts(outputs)
    assert len(text) <= MAX_TEXT
    assert text.startswith("begins\n")
    assert text.endswith("ends\n")
    assert "characters left out" in text


def test_displays_that_are_too_large_are_replaced_by_a_line() -> None:
    outputs = CellOutputs()
    for _ in range(3):
        shown(outputs, "z" * (MAX_DISPLAY_BYTES // 2))
    assert [len(each) > 1000 for each in texts(outputs)] == [True, True, False]
    assert outputs.size <= MAX_DISPLAY_BYTES


def test_a_malformed_message_is_refused() -> None:
    with pytest.raises(KeyError):
        CellOutputs().add("stream", {"name": "stdout"})
