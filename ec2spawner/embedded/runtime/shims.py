"""The programs that every instance finds first on its PATH: systemd's, cloud-init's last stage,
`sync`, and all that power off.

They press the power button of the instance they run on, and flush its volumes, not those of the
machine below. Pure bash, because an instance may have no curl.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from . import mount_s3
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

_SYSTEMCTL = """#!/bin/bash
# Units lie in the instance's folder of them; of a service, ExecStart and StandardOutput count, of a
# timer OnBootSec.
{press}
units=${EC2SPAWNER_UNITS:-/etc/systemd/system}
wanted=$units/multi-user.target.wants

start() {
    local command output seconds
    if [[ $1 == *.timer ]]; then
        seconds=$(sed -n 's/^OnBootSec=//p' "$units/$1") || exit 1
        setsid "$0" --after "$seconds" "${1%.timer}.service" >/dev/null 2>&1 &
        return
    fi
    command=$(sed -n 's/^ExecStart=//p' "$units/$1") || exit 1
    # What systemd would read as a plain character is one for the shell too.
    command=${command//%%/%}
    command=${command//'$$'/'\\$'}
    command=${command//'`'/'\\`'}
    output=$(sed -n 's/^StandardOutput=//p' "$units/$1" | tail -n 1)
    setsid "$0" --run "$command" "${output:-journal}" &
}

# Output of a unit, as journald writes it down: standard error goes where standard output goes.
direct_output() {
    local program
    eval "program=($1)"
    if [[ $2 == null ]]; then
        exec >/dev/null 2>&1
    elif [[ -n ${EC2SPAWNER_JOURNAL-} ]]; then
        [[ $2 == *+console ]] || unset EC2SPAWNER_CONSOLE
        exec > >(exec "${0%/*}/journald" "${program##*/}" $$) 2>&1
    fi
}

case ${1-} in
    --run)
        # Stays: a program that closes its memory is found by the leader of its session. A signal
        # is for the program, which gets it too.
        trap '' TERM
        direct_output "$2" "$3"
        trap : TERM
        eval "$2"
        exit
        ;;
    --after)
        sleep "$2"
        start "$3"
        exit 0
        ;;
    daemon-reload) exit 0 ;;
    enable)
        mkdir -p "$wanted" && ln -sf "$units/${@: -1}" "$wanted/" || exit 1
        if [[ $2 == --now ]]; then start "${@: -1}"; fi
        exit 0
        ;;
    start)
        start "$2"
        exit 0
        ;;
    default)
        # What an instance runs at each boot after its first one.
        for unit in "$wanted"/*; do
            [[ -e $unit ]] && start "${unit##*/}"
        done
        exit 0
        ;;
esac
for argument in "$@"; do
    case $argument in
        poweroff | halt) press off ;;
        reboot) press reboot ;;
    esac
done
echo "systemctl: a simulated instance has no systemd; it only knows daemon-reload, enable," \\
    "start, poweroff and reboot" >&2
exit 1
"""

_JOURNALD = """#!/bin/bash
# Lines of the program $1 with the process id $2, from standard input to journal and console.
# It ends with its input: a shutdown ends the programs first, so who starts it ignores SIGTERM.
booted=${EC2SPAWNER_BOOTED_US:-0}
while IFS= read -r line || [[ -n $line ]]; do
    up=$((${EPOCHREALTIME/[.,]/} - booted))
    if [[ -n ${EC2SPAWNER_JOURNAL-} ]]; then
        printf '%(%b %d %H:%M:%S)T %s[%d]: %s\\n' -1 "$1" "$2" "$line" >>"$EC2SPAWNER_JOURNAL"
    fi
    if [[ -n ${EC2SPAWNER_CONSOLE-} ]]; then
        printf '[%5d.%06d] %s[%d]: %s\\n' $((up / 1000000)) $((up % 1000000)) "$1" "$2" "$line" \\
            >>"$EC2SPAWNER_CONSOLE"
    fi
done
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
    "journald": _JOURNALD,
    "modinfo": _MODINFO,
    "mount-s3": _MOUNT_S3,
    "poweroff": _POWEROFF,
    "reboot": _REBOOT,
    "shutdown": _SHUTDOWN,
    "sync": _SYNC,
    "systemctl": _SYSTEMCTL,
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
