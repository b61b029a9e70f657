"""The programs that every instance finds first on its PATH: systemd's (`systemd.py`), cloud-init's
last stage, `sync`, and all that power off.

They press the power button of the instance they run on, and flush its volumes, not those of the
machine below. Pure bash, because an instance may have no curl.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from . import mount_s3, systemd
from .instance import IMAGE_DRIVER

_PRESS = r"""
ask() {
    local endpoint=${AWS_EC2_METADATA_SERVICE_ENDPOINT#http://}
    local host=${endpoint%%/*}
    exec 3<>"/dev/tcp/${host%:*}/${host#*:}" || exit 1
    printf '%s\r\n' "PUT /${endpoint#*/}/embedded/$1 HTTP/1.1" "Host: $host" \
        'Content-Length: 0' 'Connection: close' '' >&3
    read -r _ status _ <&3
    cat <&3 >/dev/null
    [[ $status == 2* ]]
    exit
}
press() { ask "power/$1"; }
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

_SYNC = """#!/bin/bash
{press}
ask flush
"""

_CLOUD_INIT = """#!/bin/bash
# cloud-init's last stage at the first boot: the user's script $1, then the lines in the file $2.
trap '' TERM
exec 3> >(exec "${0%/*}/journald" cloud-init $$)
trap : TERM
exec 2>/dev/null
bash "$1" >&3 2>&3 3>&-
mapfile -d '' end <"$2" && printf '%s' "${end[0]}" >>"$EC2SPAWNER_CONSOLE"
"""

_MODINFO = f"""#!/bin/bash
# Of the kernel module of NVIDIA's driver in the image: modinfo -F version|license nvidia.
case "$2 $3" in
    "version nvidia") echo {IMAGE_DRIVER.branch}.91.07 ;;
    "license nvidia") echo 'Dual MIT/GPL' ;;
    *) echo "modinfo: ERROR: Module $3 not found." >&2; exit 1 ;;
esac
"""

_MOUNT_S3 = """#!/bin/bash
exec {python} -P {mount_s3} "$@"
"""

SHIMS = {
    "cloud-init": _CLOUD_INIT,
    "halt": _POWEROFF,
    "journalctl": systemd.JOURNALCTL,
    "journald": systemd.JOURNALD,
    "modinfo": _MODINFO,
    "mount-s3": _MOUNT_S3,
    "poweroff": _POWEROFF,
    "reboot": _REBOOT,
    "shutdown": _SHUTDOWN,
    "sync": _SYNC,
    "systemctl": systemd.SYSTEMCTL,
}


def install(directory: Path) -> None:
    """Write the shims into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in SHIMS.items():
        path = directory / name
        text = text.replace("{press}", _PRESS.strip())
        text = text.replace("{python}", shlex.quote(sys.executable))
        path.write_text(text.replace("{mount_s3}", shlex.quote(mount_s3.__file__)))
        path.chmod(0o755)
