"""What every instance runs at its first boot: start the agent, and install it where it lacks."""

from __future__ import annotations

import shlex
from typing import Final

from .. import __version__

PUBLISHED_PACKAGE: Final = "" if ".dev" in __version__ else f"ec2spawner[notebook]=={__version__}"
"""What pip can install of this very version; empty for one that was never published: whoever
registers a free name would have their code run as root."""

_START_AGENT: Final = """
folder=/opt/ec2spawner

make_environment() {
    python3 -m venv "$folder" && return
    # Ubuntu keeps a part of venv in a package of its own.
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120)
    "${apt[@]}" update && "${apt[@]}" install --yes python3-venv && python3 -m venv "$folder"
}

install_agent() {
    make_environment || return
    timeout 8m "$folder/bin/python" -m pip install --no-input --no-cache-dir \\
        --disable-pip-version-check --progress-bar off "$package"
    case $? in
        0) ;;
        124) echo "pip was not done after 8 minutes" && return ;;
        *) return ;;
    esac
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
exec systemd-run --unit=ec2spawner-agent --collect \\
    --property=KillMode=mixed --property=TimeoutStopSec=60 --property=OOMPolicy=continue \\
    --property=EnvironmentFile=-/etc/ec2spawner/agent.env \\
    "$agent" --hub-api-url "$hub_api_url"
"""


def user_data(hub_api_url: str, agent_package: str = "") -> str:
    """The same for every instance of a launch spec, and no secret: where the hub is.

    The agent is a unit of its own: cloud-init can finish, and at a shutdown the agent gets SIGTERM
    and the time to let go of the home. A notebook that runs out of memory does not end it.

    `agent_package` is what pip installs on an image without the agent; empty is this version,
    where it is published. It goes into an environment of its own, whose installation may take as
    long as `boot_timeout` leaves it. EC2 takes 16 KB of user-data.
    """
    package = agent_package or PUBLISHED_PACKAGE
    return (
        "#!/bin/bash\n"
        "# Starts the agent of ec2spawner. An image that lacks it gets it first.\n"
        f"hub_api_url={shlex.quote(hub_api_url)}\n"
        f"package={shlex.quote(package)}\n"
        f"{_START_AGENT.lstrip()}"
    )
