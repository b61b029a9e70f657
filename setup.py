"""What pyproject.toml cannot say: the lab extension is built with the package, from source.

A source distribution carries the built extension, so that installing it needs no node.
"""

import hashlib
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Command, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent.resolve()
SOURCES = ROOT / "labextension"
BUNDLE = ROOT / "ec2spawner" / "labextension"
DIGEST = BUNDLE / "sources.sha256"
"""What the bundle was built from: a checkout gives files any time of day, so times say nothing."""

SOURCE_FILES = (
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "src/**/*",
    "schema/*",
    "style/**/*",
)
INSTALLED_BUNDLE = Path("share/jupyter/labextensions/ec2spawner-lab")
INSTALLED_CONFIG = Path("etc/jupyter/jupyter_server_config.d")
INSTALLED_STARTUP = Path("etc/ipython/startup")
INSTALLED_CONFIGS = Path("share/ec2spawner/configs")
SAMPLES = ("class", "demo", "large", "shared-data", "small-team")


def sources_digest() -> str:
    """Changes with the content and the name of every file that the bundle is built from."""
    digest = hashlib.sha256()
    for pattern in SOURCE_FILES:
        for file in sorted(SOURCES.glob(pattern)):
            if file.is_file():
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                digest.update(f"{file.relative_to(SOURCES).as_posix()} {content}\n".encode())
    return digest.hexdigest()


def build_bundle(*, install: bool = True) -> None:
    """Build the lab extension, unless it is there and its sources have not changed since.

    `install`: the node modules first. Without, those that are there must be as the lock says.
    """
    wanted = sources_digest()
    if DIGEST.exists() and DIGEST.read_text().strip() == wanted:
        return
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("The lab extension is built with node (20 or later) and npm: install them")
    # jupyter-builder is installed beside this Python, whose folder need not be on the PATH.
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    environment = {**os.environ, "PATH": path}
    shutil.rmtree(BUNDLE, ignore_errors=True)
    commands = [["ci", "--ignore-scripts"]] if install else []
    for command in (*commands, ["run", "build"]):
        subprocess.run([npm, *command], cwd=SOURCES, env=environment, check=True)
    DIGEST.write_text(f"{wanted}\n")


def files_in(folder: str) -> list[Path]:
    """Of a folder of the repository, without those below it."""
    found = sorted((ROOT / folder).glob("[!.]*"))
    return [file.relative_to(ROOT) for file in found if file.is_file()]


def data_files() -> list[tuple[str, list[str]]]:
    """What Jupyter, IPython and a hub's set-up find: bundle, extension, magics, configurations."""
    folders: dict[str, list[str]] = {
        str(INSTALLED_CONFIG): ["jupyter-config/jupyter_server_config.d/ec2spawner.json"],
        str(INSTALLED_STARTUP): ["jupyter-config/ipython-startup/50-ec2spawner.py"],
        str(INSTALLED_CONFIGS): [
            "configs/clusters-policy.json",
            "configs/iam-policy.json",
            "configs/interruptions-policy.json",
            "configs/sessions-policy.json",
        ],
        **{
            str(INSTALLED_CONFIGS / sample): [f"configs/{sample}/jupyterhub_config.py"]
            for sample in SAMPLES
        },
        str(INSTALLED_CONFIGS / "monitoring"): [
            str(file) for file in files_in("configs/monitoring")
        ],
        str(INSTALLED_CONFIGS / "aws"): [str(file) for file in files_in("configs/aws")],
        str(INSTALLED_CONFIGS / "aws/proxy"): [str(file) for file in files_in("configs/aws/proxy")],
    }
    for file in sorted(BUNDLE.rglob("*")):
        if file.is_file() and file != DIGEST:
            target = INSTALLED_BUNDLE / file.relative_to(BUNDLE).parent
            folders.setdefault(str(target), []).append(str(file.relative_to(ROOT)))
    return list(folders.items())


class BuildLabExtension(Command):
    """`python setup.py build_labextension`: the bundle alone, with the node modules of `make`."""

    description = "build the lab extension where it is missing or older than its sources"
    user_options: list[tuple[str, str | None, str]] = []  # noqa: RUF012 - setuptools' own form

    def initialize_options(self) -> None:
        """No options."""

    def finalize_options(self) -> None:
        """No options."""

    def run(self) -> None:
        build_bundle(install=False)


class BuildPy(build_py):
    def run(self) -> None:
        if not self.editable_mode:  # which leaves out data files: the bundle would be for nothing
            build_bundle()
            self.distribution.data_files = data_files()
        super().run()


class SDist(sdist):
    def run(self) -> None:
        build_bundle()
        super().run()


setup(
    cmdclass={"build_labextension": BuildLabExtension, "build_py": BuildPy, "sdist": SDist},
)
