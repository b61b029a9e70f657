"""Other widgets, installed beside us for the length of a bench. Nothing of ours depends on them."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.bench.widget.server import Widget

INSTALL_SECONDS = 240

PACKAGES = ("jupyter-resource-usage", "jupyterlab-nvdashboard")

RESOURCE_USAGE = Widget(
    "resource_usage",
    "jupyter_resource_usage",
    "jupyter_resource_usage",
    path="api/metrics/v1",
    poll_seconds=5.0,
)
NVDASHBOARD = Widget(
    "nvdashboard",
    "jupyterlab_nvdashboard",
    "jupyterlab_nvdashboard",
    sockets=("nvdashboard/gpu_utilization", "nvdashboard/gpu_usage", "nvdashboard/gpu_resource"),
)
PEERS = (RESOURCE_USAGE, NVDASHBOARD)

LAB_EXTENSIONS = {
    "resource_usage": "@jupyter-server/resource-usage",
    "nvdashboard": "jupyterlab-nvdashboard",
}


class NoPeersError(Exception):
    """They could not be installed; the message says why."""


def install_peers(folder: Path) -> Path:
    """A virtual environment on top of this one; its Python. Raises `NoPeersError`."""
    try:
        venv.create(folder, with_pip=False)
        python = folder / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        ours = sysconfig.get_paths()["purelib"]
        on_top = folder / "lib" / version / "site-packages" / "on_top.pth"
        on_top.write_text(f"import site; site.addsitedir({ours!r})\n")
        subprocess.run(
            [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *PACKAGES],
            timeout=INSTALL_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
    except subprocess.CalledProcessError as error:
        raise NoPeersError(error.stderr.strip().splitlines()[-1]) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoPeersError(str(error)) from error
    return python


def static_of(peer: Widget, environment: Path) -> Path:
    """Where a peer's browser side is."""
    return environment / "share/jupyter/labextensions" / LAB_EXTENSIONS[peer.name] / "static"
