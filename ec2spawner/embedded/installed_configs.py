"""The files of `configs/` that the embedded EC2 and its demo need."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

SOURCE_TREE = Path(__file__).resolve().parents[2]
INSTALLED = "share/ec2spawner/configs"


def config_file(name: str) -> Path:
    """`configs/NAME` of the source tree, else as installed. Raises FileNotFoundError."""
    if (SOURCE_TREE / "pyproject.toml").is_file():
        return SOURCE_TREE / "configs" / name
    return installed_file(name)


def installed_file(name: str) -> Path:
    """Where pip has put it: `sys.prefix` would miss Debian's /usr/local and a user's ~/.local.

    Raises FileNotFoundError.
    """
    for file in metadata.files("ec2spawner") or ():
        if file.as_posix().endswith(f"{INSTALLED}/{name}"):
            return Path(str(file.locate())).resolve()
    raise FileNotFoundError(
        f"{INSTALLED}/{name} is not installed: install ec2spawner with pip, from its wheel"
    )
