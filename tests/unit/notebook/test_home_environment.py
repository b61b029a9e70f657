"""The user's own Python environment in the home: `ec2spawner.notebook.kernels.home_environment`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ec2spawner.agent.notebook_server import prewarmed
from ec2spawner.agent.notebook_server.process import base_environment
from ec2spawner.agent.settings import NotebookUser
from ec2spawner.notebook.extension import NotebookExtension
from ec2spawner.notebook.kernels.home_environment import PTH, HomeEnvironment, activate


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HomeEnvironment:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("JUPYTER_PATH", raising=False)
    return HomeEnvironment.of(tmp_path)


def kernel(folder: Path, program: str) -> None:
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps({"argv": [program], "display_name": "x"}))


def test_it_is_made_once_and_extends_the_image(home: HomeEnvironment) -> None:
    assert home.prepare()
    assert not home.prepare()
    code = "import sys, traitlets; print(sys.prefix, traitlets.__file__)"
    said = subprocess.run(
        [home.programs / "python", "-c", code], capture_output=True, text=True, check=True
    )
    prefix, image = said.stdout.split()
    assert prefix == str(home.folder)
    assert image.startswith(sys.prefix)
    pip = subprocess.run([home.programs / "pip", "--version"], capture_output=True, check=True)
    assert b"pip" in pip.stdout


def test_installed_packages_survive_an_image_with_another_interpreter(
    home: HomeEnvironment,
) -> None:
    home.prepare()
    (home.site_packages / "own.py").touch()
    (home.site_packages / PTH).write_text("import site; site.addsitedir('/gone')\n")
    (home.programs / "python").unlink()
    (home.programs / "python").symlink_to("/nowhere/python")
    (home.programs / "pip").unlink()
    assert not home.prepare()
    subprocess.run([home.programs / "python", "-c", "import own, traitlets"], check=True)
    assert (home.programs / "pip").exists()


def test_what_the_user_installs_is_not_seen_by_the_server(
    home: HomeEnvironment, tmp_path: Path
) -> None:
    home.prepare()
    (home.site_packages / "jupyter_server.py").write_text("raise SystemExit('broken')")
    installed = home.programs / prewarmed.SERVER
    installed.touch(mode=0o755)
    user = NotebookUser("ada", os.getuid(), os.getgid(), (), tmp_path, "/bin/sh")
    environment = base_environment(user, os.environ)
    assert prewarmed.find_program(prewarmed.SERVER, environment) != str(installed)
    pythons = {"of the server": sys.executable, "of the kernel": str(home.programs / "python")}
    said = {
        whose: subprocess.run(
            [python, "-c", "import jupyter_server"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        ).stderr
        for whose, python in pythons.items()
    }
    assert said == {"of the server": "", "of the kernel": "broken\n"}


def test_the_kernel_runs_in_it_unless_there_is_another_one(
    home: HomeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = home.jupyter_path / "kernels" / "python3" / "kernel.json"
    home.prepare()
    assert json.loads(spec.read_text())["argv"][0] == str(home.programs / "python")
    spec.write_text("{")
    home.prepare()
    assert json.loads(spec.read_text())["argv"][0] == str(home.programs / "python")
    kernel(tmp_path / "image" / "kernels" / "python3", "/opt/conda/bin/python")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "image"))
    home.prepare()
    assert not spec.exists()


def test_a_kernel_folder_that_a_crash_has_left_without_a_spec_is_written_again(
    home: HomeEnvironment,
) -> None:
    spec = home.jupyter_path / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    (spec.parent / "logo-svg.svg").touch()
    home.prepare()
    assert json.loads(spec.read_text())["argv"][0] == str(home.programs / "python")


def test_jupyter_in_a_terminal_finds_the_same_kernel(home: HomeEnvironment) -> None:
    home.prepare()
    listing = [str(home.programs / "jupyter"), "kernelspec", "list", "--json"]
    said = subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    spec = json.loads(said)["kernelspecs"]["python3"]["spec"]
    assert spec["argv"][0] == str(home.programs / "python")


def test_a_command_that_pip_installed_stays(home: HomeEnvironment) -> None:
    home.prepare()
    (home.programs / "jupyter").write_text("#!/usr/bin/python\n")
    (home.programs / "pip").write_text("#!/bin/sh\n# written by ec2spawner\nof an older image\n")
    home.prepare()
    assert (home.programs / "jupyter").read_text() == "#!/usr/bin/python\n"
    assert "older" not in (home.programs / "pip").read_text()


def test_packages_of_another_python_are_named(home: HomeEnvironment, tmp_path: Path) -> None:
    for version, package in (("python3.8", "numpy-1.0.dist-info"), ("python3.9", "nothing")):
        packages = tmp_path / ".ec2spawner" / version / "lib" / version / "site-packages"
        (packages / package).mkdir(parents=True)
    assert home.others_with_packages() == ["python3.8"]


def test_a_terminal_says_once_that_they_are_not_used(
    home: HomeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", os.environ["PATH"])  # which the extension changes
    packages = tmp_path / ".ec2spawner/python3.8/lib/python3.8/site-packages/numpy-1.0.dist-info"
    packages.mkdir(parents=True)
    extension: Any = NotebookExtension()
    extension.serverapp = SimpleNamespace(kernel_spec_manager=object())
    greeting = extension._use_home_environment()
    assert "you installed with python3.8 are not used" in greeting
    assert str(home.folder) in greeting
    assert extension._use_home_environment() == ""


@pytest.mark.parametrize("place", [".ec2spawner", f".ec2spawner/python3.{sys.version_info.minor}"])
def test_what_is_in_the_way_is_an_error_that_names_it(
    home: HomeEnvironment, tmp_path: Path, place: str
) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_text("a file")
    with pytest.raises(OSError, match="ec2spawner"):
        home.prepare()


def test_kernels_and_terminals_find_it_first(
    home: HomeEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Specs:
        kernel_dirs = ("/image/kernels",)

    monkeypatch.setenv("PATH", "/image/bin")
    specs = Specs()
    activate(home, specs)
    assert os.environ["PATH"] == f"{home.programs}:/image/bin"
    assert list(specs.kernel_dirs) == [str(home.jupyter_path / "kernels"), "/image/kernels"]
    assert "JUPYTER_PATH" not in os.environ, "other environments have kernels of their own"
    activate(home, object())
