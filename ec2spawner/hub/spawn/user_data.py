"""The user-data of every instance: install the agent if the image lacks it, and start it.

cloud-init runs user-data only at the first boot. The agent becomes an enabled service, so that it
also runs when a stopped instance is started again. The script is `user_data.sh`.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from ..._version import __version__


def published_package(version: str) -> str:
    """What pip can install of a version; empty for a development version, which is not published:
    anyone who registers a free name there could run code as root."""
    return "" if ".dev" in version else f"ec2spawner[notebook]=={version}"


PUBLISHED_PACKAGE: Final = published_package(__version__)

SCRIPT: Final = Path(__file__).with_suffix(".sh").read_text(encoding="utf-8")
"""Expects the hub as one word of a unit in `hub_argument`, and what pip installs in `package`."""


def user_data(hub_api_url: str, agent_package: str = "") -> str:
    """The user-data script: the same for every instance of a launch spec, and without secrets.

    The agent is its own systemd unit: cloud-init can finish, and at a shutdown the agent gets
    SIGTERM and time to release the home. A notebook that runs out of memory does not end it.

    `agent_package` is what pip installs on an image without the agent; empty is this version,
    if it is published. It goes into its own virtual environment, and its installation counts
    towards `boot_timeout`. EC2 takes 16 KB of user-data.
    """
    package = agent_package or PUBLISHED_PACKAGE
    return (
        "#!/bin/bash\n"
        f"hub_argument={shlex.quote(_unit_quoted(hub_api_url))}\n"
        f"package={shlex.quote(package)}\n"
        f"{SCRIPT}"
    )


def _unit_quoted(word: str) -> str:
    """One word of a systemd unit's command line: quoted, without specifiers and variables."""
    for special, plain in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        word = word.replace(special, plain)
    return f'"{word}"'
