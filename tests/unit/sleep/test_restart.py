"""The cells that run again when a session is woken."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest

from ec2spawner.sleep import restart
from ec2spawner.sleep.restart import FILE, LOCK, MAX_CELLS, MAX_CODE, Cell, forget, remember, take
from ec2spawner.sleep.storage.folder import root
from ec2spawner.sleep.storage.owned import NotOurs


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def cell(notebook: str = "a.ipynb", code: str = "train()") -> Cell:
    return Cell(notebook, "k1", "c1", code, "2026-05-04T14:10:00+00:00")


def test_a_cell_is_taken_once_and_by_its_notebook(home: Path) -> None:
    assert remember("one", cell(str(home / "work/a.ipynb")))
    assert remember("two", cell("b.ipynb"))
    assert take("a.ipynb", "k1") == []
    assert [each.code for each in take("work/a.ipynb", "k1")] == ["train()"], "absolute or not"
    assert take("work/a.ipynb", "k1") == []
    assert take("b.ipynb", "k1") == [cell("b.ipynb")]


def test_another_kernel_of_the_notebook_runs_nothing() -> None:
    remember("one", cell())
    assert take("a.ipynb", "k2") == []
    assert take("a.ipynb", "k1") == [], "its kernel is gone"


def test_a_cell_with_two_loops_is_one() -> None:
    remember("outer", cell())
    remember("inner", cell())
    assert len(take("a.ipynb", "k1")) == 1


def test_a_loop_has_one_cell_and_forgets_it() -> None:
    remember("one", cell(code="old"))
    remember("one", cell(code="new"))
    assert [each.code for each in take("a.ipynb", "k1")] == ["new"]
    remember("one", cell())
    forget("one")
    assert take("a.ipynb", "k1") == []


def test_without_a_file_nothing_is_made(home: Path) -> None:
    forget("one")
    assert take("a.ipynb", "k1") == []
    assert not (home / ".ec2spawner").exists()


def test_number_and_size_are_bounded() -> None:
    assert not remember("one", cell(code="x" * (MAX_CODE + 1)))
    assert not remember("one", cell(code=""))
    for number in range(MAX_CELLS + 5):
        remember(str(number), cell(code=str(number)))
    assert [each.code for each in take("a.ipynb", "k1")] == [
        str(n) for n in range(5, MAX_CELLS + 5)
    ]


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_text("{"),
        lambda file: file.write_text('{"cells": [1]}'),
        lambda file: file.write_text('{"cells": {"one": {"code": 1}}}'),
        lambda file: file.write_text("[" * 100_000),
        lambda file: file.chmod(0o666),
        lambda file: (file.unlink(), file.symlink_to("/etc/passwd")),
    ],
)
def test_what_is_damaged_or_of_others_is_not_run(
    home: Path, damage: Callable[[Path], object]
) -> None:
    remember("one", cell())
    damage(home / ".ec2spawner/sleep" / FILE)
    assert take("a.ipynb", "k1") == []
    remember("two", cell())
    assert take("a.ipynb", "k1") == [cell()]


def test_a_folder_that_others_may_write_is_refused(home: Path) -> None:
    remember("one", cell())
    (home / ".ec2spawner/sleep").chmod(0o777)
    with pytest.raises(NotOurs):
        take("a.ipynb", "k1")


def test_a_lock_that_another_process_keeps_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart, "LOCK_SECONDS", 0.2)
    remember("one", cell())
    with (root() / LOCK).open("r+b") as file:
        child = os.fork()
        if child == 0:
            fcntl.lockf(file, fcntl.LOCK_EX)
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        os.waitpid(child, os.WUNTRACED)
    try:
        with pytest.raises(TimeoutError):
            take("a.ipynb", "k1")
        with pytest.raises(TimeoutError):
            remember("two", cell())
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert len(take("a.ipynb", "k1")) == 1, "it was left as it was"


def _remember(number: int) -> None:
    restart.remember(str(number), cell(code=str(number)))


def test_kernels_that_write_at_once_lose_nothing() -> None:
    with get_context("fork").Pool(4) as pool:
        pool.map(_remember, range(20))
    assert {each.code for each in take("a.ipynb", "k1")} == {str(n) for n in range(20)}
