"""When a waiting notebook may become the server, and when it must be a new process."""

from __future__ import annotations

import json
import os
import site
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from jupyterlab_server.settings_utils import get_settings

from ec2spawner.agent.notebook_server import prewarmed, process
from ec2spawner.agent.notebook_server.prewarmed import SERVER
from ec2spawner.agent.notebook_server.process import NotebookProcess, base_environment
from ec2spawner.agent.settings import NotebookUser

BESIDE = str(Path(sys.executable).parent / SERVER)


def why_not(environment: dict[str, str], program: str = BESIDE) -> str:
    """The answer of a process that has imported what a waiting notebook has."""
    code = (
        "import json, sys\n"
        "from types import ModuleType\n"
        "from ec2spawner.agent.notebook_server import prewarmed as waiting\n"
        "for name in waiting.PRELOADED[:2]: sys.modules[name] = ModuleType(name)\n"
        "given = json.loads(sys.argv[1])\n"
        "print(waiting._why_cold_start(given['program'], given['environment']))"
    )

    given = json.dumps({"program": program, "environment": dict(os.environ) | environment})
    done = subprocess.run(
        [sys.executable, "-c", code, given],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ) | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def same_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


def test_the_prewarmed_process_becomes_the_server() -> None:
    assert why_not({"JUPYTERHUB_API_TOKEN": "x", "ANYTHING": "else"}) == ""


@pytest.mark.parametrize(
    "name",
    [
        "HOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "LD_LIBRARY_PATH",
        "JUPYTER_CONFIG_DIR",
        "JUPYTERHUB_SINGLEUSER_APP",
        "JUPYTERHUB_SINGLEUSER_EXTENSION",
        "JUPYTERHUB_SINGLEUSER_LOAD_OTHER_EXTENSIONS",
        "XDG_DATA_HOME",
    ],
)
def test_variables_read_at_process_start_need_a_new_process(name: str) -> None:
    assert why_not({name: "/elsewhere"}).startswith(name)


def test_another_command_or_environment_is_executed(tmp_path: Path) -> None:
    assert "is not jupyterhub-singleuser" in why_not({}, "/usr/bin/env")
    assert "another environment" in why_not({}, str(tmp_path / SERVER))


def test_programs_are_found_on_the_path_or_beside_the_interpreter(tmp_path: Path) -> None:
    theirs = tmp_path / SERVER
    theirs.write_text("#!/bin/sh\n")
    theirs.chmod(0o755)
    assert prewarmed.find_program(SERVER, {"PATH": str(tmp_path)}) == str(theirs)
    assert prewarmed.find_program(SERVER, {"PATH": "/nowhere"}) == BESIDE


def test_the_notebooks_environment_is_activated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CUDA_PROGRAMS", tmp_path / "no-cuda")
    user = NotebookUser("ada", 1000, 1000, (), tmp_path, "/bin/bash")
    own = {"EC2SPAWNER_RUN_DIR": "/run", "EC2SPAWNER_SIMULATED_GPU": "{}"}
    given = base_environment(user, {"PATH": "/usr/bin:/bin", **own})
    assert given["PATH"] == f"{Path(sys.executable).parent}:/usr/bin:/bin"
    assert "EC2SPAWNER_RUN_DIR" not in given
    assert given["EC2SPAWNER_SIMULATED_GPU"] == "{}", "%gpu_check reports it"


def test_programs_of_the_cuda_toolkit_are_on_the_notebooks_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "CUDA_PROGRAMS", tmp_path)
    user = NotebookUser("ada", 1000, 1000, (), tmp_path, "/bin/bash")
    assert base_environment(user, {"PATH": "/usr/bin"})["PATH"].endswith(f":/usr/bin:{tmp_path}")


def test_jupyterlab_fetches_no_news_unless_the_user_enables_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = NotebookUser("ada", 1000, 1000, (), tmp_path, "/bin/bash")
    given = base_environment(user, {"JUPYTER_CONFIG_PATH": "/of/the/image"})
    assert given["JUPYTER_CONFIG_PATH"].split(":")[0] == "/of/the/image"
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", given["JUPYTER_CONFIG_PATH"])
    plugin = "@jupyterlab/apputils-extension:notification"
    schemas = Path(sys.prefix) / "share" / "jupyter" / "lab" / "schemas"
    found, _ = get_settings(str(tmp_path), str(schemas), str(tmp_path), plugin)
    assert found["schema"]["properties"]["fetchNews"]["default"] == "false"


@pytest.fixture
def user_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site directory of the user's own, that came with the home."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(site, "USER_SITE", str(folder))
    monkeypatch.setattr(sys, "path", list(sys.path))
    return folder


def test_the_users_packages_come_before_the_systems(user_site: Path, tmp_path: Path) -> None:
    (tmp_path / "by-pth").mkdir()
    (user_site / "more.pth").write_text(f"{tmp_path / 'by-pth'}\n")
    prewarmed._add_user_site()
    system = min(sys.path.index(path) for path in site.getsitepackages() if path in sys.path)
    assert sys.path.index(str(user_site)) < system
    assert sys.path.index(str(tmp_path / "by-pth")) < system
    before = list(sys.path)
    prewarmed._add_user_site()
    assert sys.path == before


def test_a_package_installed_by_the_user_is_detected(user_site: Path) -> None:
    assert prewarmed._shadowed_by_user_site() == ""
    (user_site / "torch").mkdir()
    assert prewarmed._shadowed_by_user_site() == ""
    (user_site / "pytest").mkdir()
    assert prewarmed._shadowed_by_user_site() == "pytest"


def test_the_end_of_a_log_is_one_printable_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n\x1b[31mno \xff module\x00: torch\x1b[0m\n")
    user = NotebookUser("ada", 1000, 1000, (), tmp_path, "/bin/bash")
    words = NotebookProcess(user, log, {}).last_words()
    assert words.isprintable()
    assert words.startswith("first | ")
    assert "torch" in words


async def test_an_order_is_read_whole_by_a_process_whose_report_was_not_read() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        theirs.sendall(b"warm\n")
        with ours:
            await process.send_whole(ours, b"the order")
        assert b"".join(iter(lambda: theirs.recv(65536), b"")) == b"the order"
