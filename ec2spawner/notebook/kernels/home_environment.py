"""The user's own Python environment in the home: what `pip install` in a notebook installs into.

It is a virtual environment in `~/.ec2spawner/python3.X`, one for each minor version of Python,
which extends the image's environment: image packages are importable, and the user's come first.
Kernels and terminals run in it. The notebook server does not, so that no package of the user can
keep it from starting. This runs in the server's process, as the user: root executes nothing here.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import site
import sys
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from jupyter_core.paths import jupyter_path

FOLDER: Final = ".ec2spawner"
"""In the home."""

PTH: Final = "ec2spawner-image.pth"
"""In the environment's site-packages: adds those of the image after the user's."""

MODULES: Final = {"pip": "pip", "pip3": "pip", "ipython": "IPython"}
"""Commands of the image's packages that must run in the user's environment, and their modules."""

_LAUNCHER_MARK: Final = "# written by ec2spawner"

KERNEL: Final = "python3"
"""The name of Jupyter's own Python kernel."""

_GENERIC: Final = frozenset({"python", "python3", f"python3.{sys.version_info.minor}"})
"""Interpreters of a kernel spec that Jupyter replaces by that of the server."""


@dataclass(frozen=True, slots=True)
class HomeEnvironment:
    """The environment of this Python version in one home."""

    folder: Path

    @classmethod
    def of(cls, home: Path) -> HomeEnvironment:
        """That of the running Python version."""
        return cls(home / FOLDER / f"python{sys.version_info.major}.{sys.version_info.minor}")

    @property
    def programs(self) -> Path:
        """For PATH."""
        return self.folder / "bin"

    @property
    def jupyter_path(self) -> Path:
        """Holds the kernel spec, and nothing that a package could install."""
        return self.folder / "jupyter"

    @property
    def site_packages(self) -> Path:
        """What pip installs into."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    def others_with_packages(self) -> list[str]:
        """Environments of other Python versions with packages in them, such as `python3.11`."""
        found = []
        for folder in self.folder.parent.glob("python3.*"):
            packages = folder / "lib" / folder.name / "site-packages"
            if folder.name != self.folder.name and any(packages.glob("*.dist-info")):
                found.append(folder.name)
        return sorted(found)

    def prepare(self) -> bool:
        """Make it, or make it fit this image; True if it was made anew. Raises OSError."""
        is_new = not self.site_packages.is_dir()
        if is_new or not self._is_of_this_interpreter():
            self._create()
        write_file(self.site_packages / PTH, lines_of_pth(site.getsitepackages()))
        # IPython loads its extensions, such as `%%cost`, from the folder of its environment.
        _link(self.folder / "etc" / "ipython", Path(sys.prefix) / "etc" / "ipython")
        for name, module in MODULES.items():
            self._write_launcher(name, f'exec "${{0%/*}}/python" -m {module} "$@"')
        self._write_launcher("jupyter", self._jupyter())
        self._write_kernel_spec()
        return is_new

    def _jupyter(self) -> str:
        """The image's `jupyter`, which finds the kernel of this environment. Only that command: a
        JUPYTER_PATH for all would reach the `jupyter` of conda environments."""
        path = shlex.quote(str(self.jupyter_path))
        program = shlex.quote(str(Path(sys.executable).with_name("jupyter")))
        return f'JUPYTER_PATH={path}${{JUPYTER_PATH:+:$JUPYTER_PATH}} exec {program} "$@"'

    def _write_launcher(self, name: str, command: str) -> None:
        """Write a command, unless pip has installed the same one."""
        file = self.programs / name
        if not file.exists() or _LAUNCHER_MARK in file.read_bytes()[:100].decode(errors="replace"):
            write_file(file, f"#!/bin/sh\n{_LAUNCHER_MARK}\n{command}\n", mode=0o755)

    def _is_of_this_interpreter(self) -> bool:
        """Whether its `python` is the one that the image has now, which may lie elsewhere."""
        python = self.programs / "python"
        if not (self.folder / "pyvenv.cfg").is_file():
            return False
        return python.exists() and python.resolve() == Path(sys.executable).resolve()

    def _create(self) -> None:
        """Installed packages stay: only what belongs to the interpreter is replaced."""
        remove_python(self.programs)
        builder = venv.EnvBuilder(
            symlinks=True, system_site_packages=bool(site.ENABLE_USER_SITE), prompt=self.folder.name
        )
        try:
            builder.create(self.folder)
        except ValueError as error:  # something else is in its place
            raise OSError(str(error)) from error

    def _write_kernel_spec(self) -> None:
        """Jupyter's Python kernel in this environment, unless the image or user has another."""
        folder, python = self.jupyter_path / "kernels" / KERNEL, self.programs / "python"
        program = _program_of_kernel(folder)
        is_wanted = find_spec("ipykernel") is not None and not _has_own_kernel()
        if not (is_wanted and program == str(python)):
            # Also without a spec in it: Jupyter writes none into a folder that a crash has left.
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(folder)
        if is_wanted and program != str(python):
            from ipykernel.kernelspec import make_ipkernel_cmd, write_kernel_spec

            argv = make_ipkernel_cmd(executable=str(python))
            write_kernel_spec(str(folder), overrides={"argv": argv})


def activate(environment: HomeEnvironment, kernel_specs: Any) -> None:
    """Have kernels and terminals run in it; `kernel_specs` is the server's manager of specs.

    By PATH and by the kernel spec. VIRTUAL_ENV is not set: IPython would add the environment to
    kernels of other interpreters, such as conda's.
    """
    path = [str(environment.programs), os.environ.get("PATH", "")]
    os.environ["PATH"] = os.pathsep.join(filter(None, path))
    folders = getattr(kernel_specs, "kernel_dirs", None)
    if folders is not None:
        kernel_specs.kernel_dirs = [str(environment.jupyter_path / "kernels"), *folders]


def remove_python(programs: Path) -> None:
    """Remove an environment's interpreter: `venv` would leave a link that leads elsewhere."""
    for stale in programs.glob("python*"):
        if stale.is_symlink():
            stale.unlink()


def lines_of_pth(folders: Iterable[str]) -> str:
    """Lines that `site` executes at the start of Python."""
    existing = [folder for folder in folders if Path(folder).is_dir()]
    return "".join(f"import site; site.addsitedir({folder!r})\n" for folder in existing)


def _has_own_kernel() -> bool:
    """Whether image or user have a Python kernel that names an interpreter of its own."""
    programs = [_program_of_kernel(Path(each, KERNEL)) for each in jupyter_path("kernels")]
    first = next((program for program in programs if program is not None), None)
    return first not in {None, *_GENERIC, sys.executable}


def _program_of_kernel(folder: Path) -> str | None:
    """The interpreter that a kernel spec names; empty if it cannot be read, None without one."""
    try:
        return str(json.loads((folder / "kernel.json").read_text())["argv"][0])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def write_file(file: Path, text: str, mode: int = 0o644) -> None:
    """Replace the file whole, so that a full disk leaves the old one."""
    with contextlib.suppress(OSError):
        if file.read_text() == text:
            return
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    new.chmod(mode)
    new.replace(file)


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    if link.is_symlink():
        link.unlink()
    if target.is_dir() and not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target, target_is_directory=True)
