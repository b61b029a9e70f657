"""When a cell is done, and what its kernel may not send."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from ec2spawner.load_test.user.kernel_messages import CellFailed, cell, execute, is_done


def message(kind: str, content: dict[str, Any], parent: str = "ours") -> str:
    return json.dumps({"msg_type": kind, "content": content, "parent_header": {"msg_id": parent}})


def test_a_cell_is_done_when_its_kernel_is_idle_again() -> None:
    assert not is_done(message("status", {"execution_state": "busy"}), "ours")
    assert not is_done(message("execute_reply", {"status": "ok"}), "ours")
    assert not is_done(message("status", {"execution_state": "idle"}, "another"), "ours")
    assert not is_done(b"\x00\x01", "ours")
    assert is_done(message("status", {"execution_state": "idle"}), "ours")


def test_an_error_of_the_cell_is_its_failure() -> None:
    error = message("error", {"ename": "MemoryError", "evalue": "x" * 5000})
    with pytest.raises(CellFailed, match="MemoryError: x") as failed:
        is_done(error, "ours")
    assert len(str(failed.value)) == 200
    assert not is_done(error, "another")


@pytest.mark.parametrize(
    "raw",
    [
        *("", "[]", "{}", '{"parent_header": [], "content": 1}', "[" * 100_000),
        *(message("status", {}), message("error", {})),
    ],
)
def test_what_is_no_message_is_a_failure(raw: str) -> None:
    with pytest.raises(CellFailed, match="no message"):
        is_done(raw, "ours")


def test_every_fifth_cell_has_the_output_of_a_plot() -> None:
    codes = [cell(number) for number in range(10)]
    assert ["image/png" in code for code in codes] == [False] * 4 + [True] + [False] * 4 + [True]
    for code in codes:
        ast.parse(code)


def test_requests_have_ids_of_their_own() -> None:
    first, second = execute("session", "1"), execute("session", "1")
    assert first["header"]["msg_id"] != second["header"]["msg_id"]
    assert first["header"]["session"] == second["header"]["session"] == "session"
