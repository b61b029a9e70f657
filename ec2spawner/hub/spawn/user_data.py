"""The user-data of every instance: install the agent if the image lacks it, and start it.

cloud-init runs user-data only at the first boot. The agent becomes an enabled service, so that it
also runs when a stopped instance is started again.
"""

from __future__ import annotations

import shlex
from typing import Final

from ..._version import __version__


def published_package(version: str) -> str:
    """What pip can install of a version; empty for a development version, which is not published:
    anyone who registers a free name there could run code as root."""
    return "" if ".dev" in version else f"ec2spawner[notebook]=={version}"


PUBLISHED_PACKAGE: Final = published_package(__version__)

_START_AGENT: Final = """
folder=/opt/ec2spawner

make_environment() {
    python3 -m venv "$folder" && return
    # Ubuntu keeps a part of venv in a package of its own.
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120)
    "${apt[@]}" update && "${apt[@]}" install --yes python3-venv && python3 -m venv "$folder"
}

# $1: minutes; the rest are options. Wheels only: building one would run code that nothing pins.
pip_install() {
    timeout "$1m" "$folder/bin/python" -m pip install --no-input --no-cache-dir \\
        --disable-pip-version-check --progress-bar off --only-binary :all: "${@:2}" "$package"
    case $? in
        0) ;;
        124) echo "pip was not done after $1 minutes" && return 1 ;;
        *) return 1 ;;
    esac
}

install_agent() {
    make_environment || return
    # The package alone first: it says with which versions of all others it was tested.
    pip_install 1 --no-deps || return
    local tested=("$folder"/lib/python3*/site-packages/ec2spawner/data/constraints.txt)
    pip_install 7 --constraint "${tested[0]}" || return
    [[ -x $folder/bin/ec2spawner-agent ]] || echo "$package has no ec2spawner-agent in it"
}

agent=$(command -v ec2spawner-agent || echo "$folder/bin/ec2spawner-agent")
if [[ ! -x $agent && -z $package ]]; then
    echo "ec2spawner: this image has no ec2spawner-agent, and nothing says what to install;" \\
        "this instance powers off. Use an image that has ec2spawner in it"
    systemctl poweroff
    exit 1
fi
if [[ ! -x $agent ]]; then
    echo "ec2spawner: this image has no ec2spawner-agent, installing $package into $folder"
    mkdir -p "$folder"
    install_agent >"$folder/install.log" 2>&1
    if [[ ! -x $agent ]]; then
        echo "ec2spawner: installing $package failed: $(tail -n 1 "$folder/install.log");" \\
            "this instance powers off. Use an image that has ec2spawner in it"
        systemctl poweroff
        exit 1
    fi
fi
unit=ec2spawner-agent.service
cat >"${EC2SPAWNER_UNITS:-/etc/systemd/system}/$unit" <<UNIT
[Unit]
Description=Agent of ec2spawner
Wants=network-online.target
After=network-online.target

[Service]
EnvironmentFile=-/etc/ec2spawner/agent.env
ExecStart="$agent" --hub-api-url $hub_argument
StandardOutput=journal+console
KillMode=mixed
TimeoutStopSec=60
OOMPolicy=continue

[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
exec systemctl enable --now "$unit"
"""


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
        "# Starts the agent of ec2spawner. An image that lacks it gets it first.\n"
        f"hub_argument={shlex.quote(_unit_quoted(hub_api_url))}\n"
        f"package={shlex.quote(package)}\n"
        f"{_START_AGENT.lstrip()}"
    )


def _unit_quoted(word: str) -> str:
    """One word of a systemd unit's command line: quoted, without specifiers and variables."""
    for special, plain in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        word = word.replace(special, plain)
    return f'"{word}"'
