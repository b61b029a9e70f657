"""JupyterHub on EC2 GPU instances. Importing the package imports none of its sub-packages."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ._version import __version__ as __version__

_EXTENSIONS = (
    "ec2spawner.clusters.magics",
    "ec2spawner.cost.magics",
    "ec2spawner.gpu_check.magic",
    "ec2spawner.sleep.magics",
)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where JupyterLab's development commands find the built extension."""
    return [{"src": "labextension", "dest": "ec2spawner-lab"}]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext ec2spawner`: the magics of `clusters`, `cost` and `sleep`, and `%gpu_check`."""
    for name in _EXTENSIONS:
        import_module(name).load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext ec2spawner`."""
    for name in _EXTENSIONS:
        import_module(name).unload(shell)


def __getattr__(name: str) -> Any:
    """`ec2spawner.cluster`, for notebooks; and `ec2spawner.EC2Spawner`, resolved anew each time: a
    hub that starts does so. That is how one line of configuration is enough, see
    `ec2spawner.hub.startup`.
    """
    if name == "cluster":
        from .clusters.cluster import cluster

        return cluster
    if name != "EC2Spawner":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .hub.startup import arrange
    from .spawner import EC2Spawner

    arrange()
    return EC2Spawner
