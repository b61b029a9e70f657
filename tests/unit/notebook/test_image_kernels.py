"""The user's packages for the image's other kernels: `notebook.kernels.image_kernels`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.notebook.kernels.home_environment import HomeEnvironment
from ec2spawner.notebook.kernels.image_kernels import extend_image_kernels

PYTHON_X = f"python3.{sys.version_info.minor}"


class Image:
    """Its kernels and their environments."""

    def __init__(self, folder: Path) -> None:
        self.kernels = folder / "kernels"
        self.environment = folder / "torch"
        self.site_packages = self.environment / "lib" / PYTHON_X / "site-packages"
        command = [sys.executable, "-m", "venv", "--without-pip", str(self.environment)]
        subprocess.run(command, check=True)
        (self.site_packages / "torch.py").write_text("print('of the image')")
        self.register("pytorch", self.environment / "bin" / "python")

    def register(self, name: str, program: Path | str) -> None:
        spec = self.kernels / name
        spec.mkdir(parents=True)
        argv = [str(program), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": name}))
        (spec / "logo-64x64.png").write_bytes(b"logo")


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Image:
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "image"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "home" / "data"))
    return Image(tmp_path / "image")


@pytest.fixture
def home(tmp_path: Path) -> HomeEnvironment:
    return HomeEnvironment.of(tmp_path / "home")


def spec_of(home: HomeEnvironment, name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(
        (home.jupyter_path / "kernels" / name / "kernel.json").read_text()
    )
    return read


def run(home: HomeEnvironment, code: str) -> str:
    """What the interpreter of the kernel prints."""
    command = [spec_of(home, "pytorch")["argv"][0], "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_the_users_packages_come_before_those_of_the_kernel(
    home: HomeEnvironment, image: Image
) -> None:
    assert extend_image_kernels(home) == []
    assert spec_of(home, "pytorch")["display_name"] == "pytorch"
    assert spec_of(home, "pytorch")["argv"][1:3] == ["-m", "ipykernel_launcher"]
    assert (home.jupyter_path / "kernels" / "pytorch" / "logo-64x64.png").exists()
    assert run(home, "import torch") == "of the image"
    installs_into = Path(run(home, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    assert installs_into.is_relative_to(home.folder.parent / "kernels" / "pytorch")
    (installs_into / "torch.py").write_text("print('of the user')")
    assert extend_image_kernels(home) == []
    assert run(home, "import torch") == "of the user"


def test_packages_survive_an_image_with_another_interpreter(
    home: HomeEnvironment, image: Image
) -> None:
    extend_image_kernels(home)
    python = Path(spec_of(home, "pytorch")["argv"][0])
    python.unlink()
    python.symlink_to("/nowhere/python")
    packages = python.parents[1] / "lib" / PYTHON_X / "site-packages"
    (packages / "own.py").write_text("print('own')")
    assert extend_image_kernels(home) == []
    assert run(home, "import own, torch") == "own\nof the image"


def test_a_kernel_that_the_image_no_longer_has_is_gone(home: HomeEnvironment, image: Image) -> None:
    home.prepare()
    extend_image_kernels(home)
    (image.kernels / "pytorch" / "kernel.json").unlink()
    extend_image_kernels(home)
    assert [each.name for each in (home.jupyter_path / "kernels").iterdir()] == ["python3"]


@pytest.mark.parametrize("program", ["python3", "/usr/bin/Rscript", sys.executable])
def test_kernels_without_an_environment_of_their_own_stay_as_they_are(
    home: HomeEnvironment, image: Image, program: str
) -> None:
    image.register("other", program)
    extend_image_kernels(home)
    assert not (home.jupyter_path / "kernels" / "other").exists()


def test_the_users_own_kernel_of_that_name_counts(
    home: HomeEnvironment, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = home.folder.parents[1] / "own"
    monkeypatch.setenv("JUPYTER_PATH", f"{own}:{image.kernels.parent}")
    shutil.copytree(image.kernels, own / "kernels")
    extend_image_kernels(home)
    assert not (home.jupyter_path / "kernels").exists()


def test_what_is_in_the_way_is_a_problem_of_that_kernel_only(
    home: HomeEnvironment, image: Image
) -> None:
    image.register("more", image.environment / "bin" / "python")
    in_the_way = home.folder.parent / "kernels" / "more"
    in_the_way.parent.mkdir(parents=True)
    in_the_way.write_text("a file")
    [problem] = extend_image_kernels(home)
    assert "kernel more" in problem
    assert str(in_the_way) in problem
    assert run(home, "import torch") == "of the image"
