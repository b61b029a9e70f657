"""Terminals: what the profile says, and what the notebook server has on its PATH."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ec2spawner.notebook.observer import Observer
from ec2spawner.notebook.terminal_shell import shell_command
from ec2spawner.wire import Telemetry, Worker

BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="needs bash")
@pytest.mark.parametrize("profile_path", ["/usr/bin:/bin", "/of the/profile:/usr/bin:/bin"])
def test_path_entries_dropped_by_the_profile_are_restored(
    tmp_path: Path, profile_path: str
) -> None:
    (tmp_path / ".profile").write_text(f"PATH='{profile_path}'; export FROM_PROFILE=yes\n")
    (tmp_path / ".bashrc").write_text("FROM_RC=yes; PS1=\n")
    environment = {
        "SHELL": str(BASH),
        "HOME": str(tmp_path),
        "PATH": "/opt/it's here/bin:/opt/b:/usr/bin",
        "SECRET": "kept",
    }
    command = shell_command(environment)
    assert command is not None
    asked = 'echo "$PATH|$FROM_PROFILE|$FROM_RC|$SECRET"; exit\n'
    said = subprocess.run(
        command, env=environment, input=asked, capture_output=True, text=True, timeout=30
    ).stdout
    assert said.splitlines()[-1] == f"/opt/it's here/bin:/opt/b:{profile_path}|yes|yes|kept"


@pytest.mark.parametrize("shell", ["/usr/bin/fish", "/bin/tcsh", ""])
def test_unsupported_shells_are_left_to_jupyter(shell: str) -> None:
    assert shell_command({"SHELL": shell, "PATH": "/opt/bin"}) is None


def test_a_greeting_is_printed_as_it_is() -> None:
    greeting = "it's $HOME; `x`"
    command = shell_command({"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}, greeting)
    assert command is not None
    said = subprocess.run(command, input="exit\n", capture_output=True, text=True, check=False)
    assert greeting in said.stdout.splitlines()


@pytest.mark.parametrize(
    ("terminals", "expected"),
    [({}, ["", "", ""]), ({"1": 30, "work": 31}, ["1", "work", ""])],
)
async def test_a_worker_has_the_name_by_which_the_browser_opens_its_terminal(
    terminals: dict[str, int], expected: list[str]
) -> None:
    open_now = {
        name: SimpleNamespace(ptyproc=SimpleNamespace(pid=pid)) for name, pid in terminals.items()
    }
    settings = {"terminal_manager": SimpleNamespace(terminals=open_now)}
    server: Any = SimpleNamespace(
        session_manager=None, kernel_manager=None, web_app=SimpleNamespace(settings=settings)
    )
    workers = [
        Worker(kind="terminal", name="htop", pid=30),
        Worker(kind="terminal", name="bash", pid=31),
        Worker(kind="kernel", name="a.ipynb", pid=32),
    ]
    telemetry = Telemetry(at=datetime(2026, 11, 20, tzinfo=UTC), workers=workers)
    found = Observer(server).with_terminals(telemetry)
    assert [each.terminal for each in found.workers] == expected
    named = zip(workers, expected, strict=True)
    assert found.workers == [
        each.model_copy(update={"terminal": terminal}) for each, terminal in named
    ]
