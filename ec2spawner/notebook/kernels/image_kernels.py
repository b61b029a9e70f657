"""The user's packages for other Python kernels of the image, such as one with PyTorch.

Such a kernel runs in a virtual environment that root owns and that ends with the instance, so
`%pip install` there fails or is lost. Each gets an environment in the home that extends it, in
`~/.ec2spawner/kernels/NAME/python3.X`, as `home_environment` extends that of the server.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jupyter_core.paths import jupyter_path

from .home_environment import KERNEL, PTH, HomeEnvironment, lines_of_pth, remove_python, write_file

FOLDER: Final = "kernels"

CREATION_SECONDS: Final = 60.0
"""Timeout for the creation of an environment: 0.2 s, more on a disk that is read first."""


@dataclass(frozen=True, slots=True)
class ImageKernel:
    """A Python kernel in a virtual environment of the image."""

    name: str
    spec: Path
    """The folder of its kernel spec."""
    python: Path
    """Its interpreter, in its environment."""
    site_packages: Path

    @property
    def sees_system_packages(self) -> bool:
        """Whether its environment was made with `--system-site-packages`."""
        lines = (self.python.parents[1] / "pyvenv.cfg").read_text().splitlines()
        settings = dict(line.replace(" ", "").split("=", 1) for line in lines if "=" in line)
        return settings.get("include-system-site-packages", "").lower() == "true"


def image_kernels(home: Path, own_specs: Path) -> Iterator[ImageKernel]:
    """Those that run in a virtual environment outside the home, and are not the user's own.

    `own_specs`: the folder of the kernel specs that we write.
    """
    seen = set()
    for folder in jupyter_path("kernels"):
        if Path(folder) == own_specs or not Path(folder).is_dir():
            continue
        for spec in sorted(Path(folder).iterdir()):
            if not (spec / "kernel.json").is_file() or spec.name in seen:
                continue
            seen.add(spec.name)  # the first one counts, as for Jupyter
            kernel = _kernel_of(spec)
            if kernel and not any(each.is_relative_to(home) for each in (spec, kernel.python)):
                yield kernel


def extend_image_kernels(home: HomeEnvironment) -> list[str]:
    """Have each run in an environment of the user's; why one does not, in words.

    Blocks for 0.2 s for each new one.
    """
    own_specs = home.jupyter_path / "kernels"
    problems, extended = [], {KERNEL}
    try:
        kernels = list(image_kernels(home.folder.parents[1], own_specs))
    except OSError as error:
        return [f"No packages can be installed for kernels of the image: {error}"]
    for kernel in kernels:
        folder = home.folder.parent / FOLDER / kernel.name / kernel.site_packages.parent.name
        try:
            _extend(kernel, folder)
            _write_spec(kernel, own_specs / kernel.name, folder)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            problems.append(
                f"No packages can be installed for the kernel {kernel.name}: {folder} could not be "
                f"made: {error}. Free space, or delete the folder, then stop and start this server"
            )
        else:
            extended.add(kernel.name)
    for spec in own_specs.glob("*"):  # of another image
        if spec.name not in extended:
            shutil.rmtree(spec, ignore_errors=True)
    return problems


def _kernel_of(spec: Path) -> ImageKernel | None:
    """None for a kernel of another language, of the server's own Python, or of no environment."""
    try:
        python = Path(_read(spec)["argv"][0])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    prefix = python.parent.parent
    packages = sorted(prefix.glob("lib/python3.*/site-packages"))
    is_another = python.is_absolute() and prefix != Path(sys.prefix)
    if not (is_another and packages and (prefix / "pyvenv.cfg").is_file()):
        return None
    return ImageKernel(spec.name, spec, python, packages[-1])


def _read(spec: Path) -> dict[str, Any]:
    read = json.loads((spec / "kernel.json").read_text())
    if not isinstance(read, dict):
        raise ValueError(f"{spec}/kernel.json holds no object")
    return read


def _extend(kernel: ImageKernel, folder: Path) -> None:
    """Installed packages stay: only what belongs to the interpreter is replaced."""
    python = folder / "bin" / "python"
    is_usable = (folder / "pyvenv.cfg").is_file() and python.exists()
    if not is_usable or python.resolve() != kernel.python.resolve():
        remove_python(folder / "bin")
        options = ["--system-site-packages"] if kernel.sees_system_packages else []
        command = [str(kernel.python), "-I", "-m", "venv", "--without-pip", *options, str(folder)]
        subprocess.run(command, capture_output=True, check=True, timeout=CREATION_SECONDS)
    site_packages = folder / "lib" / folder.name / "site-packages"
    write_file(site_packages / PTH, lines_of_pth([str(kernel.site_packages)]))


def _write_spec(kernel: ImageKernel, folder: Path, environment: Path) -> None:
    """The image's kernel spec with its logos, and with the interpreter of the home."""
    read = _read(kernel.spec)
    read["argv"] = [str(environment / "bin" / "python"), *read["argv"][1:]]
    folder.mkdir(parents=True, exist_ok=True)
    for file in kernel.spec.glob("logo-*"):
        shutil.copy(file, folder)
    write_file(folder / "kernel.json", json.dumps(read, indent=1))
