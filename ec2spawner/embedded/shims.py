"""The programs that every instance finds first on its PATH: systemd's, and all that power off.

They press the power button of the instance they run on, not of the machine below. Pure bash,
because an instance may have no curl.
"""

from __future__ import annotations

from pathlib import Path

_PRESS = r"""
press() {
    local host=${AWS_EC2_METADATA_SERVICE_ENDPOINT#http://}
    exec 3<>"/dev/tcp/${host%:*}/${host#*:}" || exit 1
    printf '%s\r\n' "PUT /embedded/power/$1 HTTP/1.1" "Host: $host" 'Content-Length: 0' \
        'Connection: close' '' >&3
    cat <&3 >/dev/null
    exit 0
}
"""

_POWEROFF = """#!/bin/bash
{press}
press off
"""

_REBOOT = """#!/bin/bash
{press}
press reboot
"""

_SHUTDOWN = """#!/bin/bash
{press}
for argument in "$@"; do
    case $argument in
        -c) exit 0 ;;
        -r | --reboot) press reboot ;;
    esac
done
press off
"""

_SYSTEMCTL = """#!/bin/bash
{press}
for argument in "$@"; do
    case $argument in
        poweroff | halt) press off ;;
        reboot) press reboot ;;
    esac
done
echo "systemctl: a simulated instance has no systemd; it only knows poweroff and reboot" >&2
exit 1
"""

_SYSTEMD_RUN = """#!/bin/bash
# The unit is the instance itself. Options are skipped, each one word: --name=value.
while [[ ${1-} == -* ]]; do shift; done
exec "$@"
"""

SHIMS = {
    "halt": _POWEROFF,
    "poweroff": _POWEROFF,
    "reboot": _REBOOT,
    "shutdown": _SHUTDOWN,
    "systemctl": _SYSTEMCTL,
    "systemd-run": _SYSTEMD_RUN,
}


def install(directory: Path) -> None:
    """Write the shims into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in SHIMS.items():
        path = directory / name
        path.write_text(text.replace("{press}", _PRESS.strip()))
        path.chmod(0o755)
