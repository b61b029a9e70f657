"""Which kernel executes a notebook, and what is kept of its output."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from ec2spawner.run_executor import notebook_client
from ec2spawner.run_executor.execution import CannotExecute
from ec2spawner.run_executor.kernel_choice import choose_kernel
from ec2spawner.run_executor.notebook_client import LEFT_OUT, RunClient
from tests.unit.run_executor.executor_process import Hub, executor, notebook, notebook_work


@pytest.fixture
def kernels(tmp_path: Path) -> KernelSpecManager:
    """Those of this Python, and one of R."""
    (tmp_path / "ir").mkdir()
    spec = {"argv": ["R", "{connection_file}"], "display_name": "R", "language": "R"}
    (tmp_path / "ir/kernel.json").write_text(json.dumps(spec))
    manager = KernelSpecManager()
    manager.kernel_dirs = [str(tmp_path), *manager.kernel_dirs]
    return manager


def of(name: str, language: str = "") -> NotebookNode:
    return notebook(kernelspec={"name": name, "language": language, "display_name": name})


def test_the_notebooks_own_kernel_is_used(kernels: KernelSpecManager) -> None:
    choice = choose_kernel(kernels, of("ir", "R"))
    assert (choice.name, choice.is_python, choice.note) == ("ir", False, "")
    choice = choose_kernel(kernels, notebook())
    assert (choice.name, choice.is_python, choice.note) == ("python3", True, "")


@pytest.mark.parametrize("language", ["", "python"])
def test_in_place_of_an_unknown_one_the_default_is_used(
    kernels: KernelSpecManager, language: str
) -> None:
    choice = choose_kernel(kernels, of("conda-env", language))
    assert (choice.name, choice.is_python) == ("python3", True)
    assert "'conda-env'" in choice.note


def test_an_unknown_one_of_another_language_has_no_replacement(kernels: KernelSpecManager) -> None:
    with pytest.raises(CannotExecute, match="julia"):
        choose_kernel(kernels, of("julia-1.10", "julia"))
    scala = of("almond")
    scala.metadata.kernelspec.pop("language")
    scala.metadata["language_info"] = {"name": "scala"}
    with pytest.raises(CannotExecute, match="scala"):
        choose_kernel(kernels, scala)


def test_metadata_of_any_form_is_read(kernels: KernelSpecManager) -> None:
    strange = notebook()
    strange.metadata["kernelspec"] = "python3"
    strange.metadata["language_info"] = None
    assert choose_kernel(kernels, strange).name == "python3"


@pytest.mark.nightly(
    guard="tests/unit/run_executor/test_kernel_of_run.py::"
    "test_in_place_of_an_unknown_one_the_default_is_used"
)
async def test_a_replaced_kernel_is_said_in_message_and_result(tmp_path: Path) -> None:
    hub = Hub(notebook_work(of("conda-env", "python")))
    async with executor(hub, tmp_path / "home"):
        end = await hub.until_end()
    assert end.succeeded
    assert "'conda-env'" in end.message


async def test_a_kernel_of_another_language_takes_no_parameters(tmp_path: Path) -> None:
    home = tmp_path / "home"
    spec = home / ".local/share/jupyter/kernels/ir/kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": ["R"], "display_name": "R", "language": "R"}))
    hub = Hub(notebook_work(of("ir", "R"), parameters={"x": 1}))
    async with executor(hub, home):
        end = await hub.until_end()
    assert not end.succeeded
    assert "takes no parameters" in end.message


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Any]:
    """Executes one cell."""
    manager = AsyncKernelManager()
    running = RunClient(notebook(""), manager, str(tmp_path))
    await running.async_start_new_kernel()
    await running.async_start_new_kernel_client()

    async def execute(source: str) -> list[NotebookNode]:
        (cell,) = running.nb.cells
        cell.source = source
        with contextlib.suppress(CellExecutionError):
            await running.async_execute_cell(cell, 0)
        return list(cell.outputs)

    yield execute
    await manager.shutdown_kernel(now=True)
    if running.kc is not None:
        running.kc.stop_channels()


async def test_text_is_joined_and_what_is_too_much_left_out(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = await client(
        "import sys, time\n"
        "for n in range(3): print(n, flush=True); time.sleep(0.3)\n"
        "print('warned', file=sys.stderr, flush=True)\n"
        "print('last', flush=True)"
    )
    assert [(each.name, each.text) for each in outputs] == [
        ("stdout", "0\n1\n2\n"),
        ("stderr", "warned\n"),
        ("stdout", "last\n"),
    ]

    monkeypatch.setattr(notebook_client, "MAX_CELL_CHARACTERS", 1000)
    printing = "for n in range(5): print('x' * 400, flush=True); time.sleep(0.3)\n"
    *_, left_out, error = await client(f"{printing}1 / 0")
    assert left_out.text == LEFT_OUT
    assert error.ename == "ZeroDivisionError"

    cleared = await client(
        "from IPython.display import clear_output\n"
        f"{printing}clear_output()\nprint('after', flush=True)\n"
    )
    assert [each.text for each in cleared] == ["after\n"]


async def test_a_display_is_updated_in_its_place(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_client, "MAX_CELL_CHARACTERS", 10)
    outputs = await client(
        "from IPython.display import display\n"
        "print('x' * 20, flush=True)\n"
        "shown = display('before', display_id=True)\n"
        "print('y', flush=True)\n"
        "shown.update('after')"
    )
    (display,) = [each for each in outputs if each.output_type == "display_data"]
    assert display.data["text/plain"] == "'after'"
