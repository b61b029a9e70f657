#!/bin/bash
# Makes an image for notebook instances of the machine it runs on, as root: Ubuntu or Debian with
# Python 3.11 or newer, such as a Deep Learning AMI. Safe to repeat, with the same result.
#
#   PACKAGE  what pip installs: ec2spawner[notebook]==VERSION, or ec2spawner[notebook] @ file:///... or
#            https://...#sha256=...; required
#   DEBS     https addresses of Debian packages that are in no archive, each with #sha256=..., separated
#            by spaces: mount-s3 for buckets, amazon-efs-utils for homes on EFS with TLS
#   TORCH    a requirement such as torch==2.9.1 for a kernel of its own; without it, the PyTorch that
#            the image has in /opt/pytorch becomes a kernel, if there is one
#
# `provision.sh clean` then removes what an image must not have: caches, logs, keys, history. It is a
# step of its own, because after it nobody can log in to this machine.
set -euo pipefail

readonly venv=/opt/ec2spawner own=/etc/ec2spawner
recipe=$(sha256sum "${BASH_SOURCE[0]}" | cut -d ' ' -f 1)
readonly recipe

say() { echo "provision: $*"; }

apt() {
    DEBIAN_FRONTEND=noninteractive timeout 15m \
        apt-get -qq -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 "$@"
}

# An image may be updating its lists: for their lock, unlike dpkg's, apt does not wait. After a failure,
# the lists that the image has serve.
apt_update() {
    local said deadline=$((SECONDS + 300))
    until said=$(apt update 2>&1); do
        echo "$said" >&2
        if [[ $said != *lists/lock* ]] || ((SECONDS > deadline)); then
            say "apt-get update failed: installing from the lists that are there" >&2
            return
        fi
        say "waiting for the lock of apt's lists"
        sleep 2
    done
}

# The newest Python that the image has and the package runs on.
newest_python() {
    local name
    for name in python3.14 python3.13 python3.12 python3.11 python3; do
        if command -v "$name" && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            return
        fi
    done
    say "Python 3.11 or newer is needed: take another base image" >&2
    return 1
}

make_venv() { # $1: the folder
    [[ -x $1/bin/pip ]] && return
    local python
    python=$(newest_python)
    if ! "$python" -m venv "$1"; then
        apt_update
        apt install --yes "${python##*/}-venv" # python3-venv is that of the default Python only
        "$python" -m venv "$1"
    fi
}

pip_install() { # $1: the environment; the rest is pip's
    timeout 30m "$1/bin/python" -m pip install --quiet --no-input --no-cache-dir \
        --disable-pip-version-check --only-binary :all: "${@:2}"
}

# --- what is installed -----------------------------------------------------------------------

# What the agent needs for some of a hub's options, and Ubuntu's image may lack: NFS, and the firewall
# that keeps users from it, for homes on EFS; tini for nerdctl.
install_system_packages() {
    local name missing=()
    for name in nfs-common iptables tini; do
        # shellcheck disable=SC2016 # dpkg's own variable
        [[ $(dpkg-query --show --showformat '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] ||
            missing+=("$name")
    done
    if ((${#missing[@]})); then
        apt_update
        apt install --yes --no-install-recommends "${missing[@]}"
    fi
}

install_debs() {
    local address folder files=()
    [[ -n ${DEBS:-} ]] || return 0
    folder=$(mktemp -d)
    chmod 755 "$folder" # apt reads them as a user of its own
    for address in $DEBS; do
        [[ $address == https://*.deb"#sha256="* ]] || {
            say "DEBS: $address is not https://...deb#sha256=..." >&2
            return 1
        }
        files+=("$folder/$(basename "${address%#*}")")
        curl -fsSL --max-time 600 --retry 3 --output "${files[-1]}" "${address%#*}"
        echo "${address##*#sha256=}  ${files[-1]}" | sha256sum --check --quiet
    done
    apt_update
    apt install --yes --no-install-recommends "${files[@]}"
    rm -r "$folder"
}

install_notebook() {
    make_venv "$venv"
    # The package first: it names the versions of all others that it was tested with.
    pip_install "$venv" --no-deps "$PACKAGE"
    local tested=("$venv"/lib/python3*/site-packages/ec2spawner/data/constraints.txt)
    pip_install "$venv" --constraint "${tested[0]}" "$PACKAGE"
    # User-data finds the program here, and starts it as a unit with its hub's address.
    ln -sfn "$venv/bin/ec2spawner-agent" /usr/local/bin/ec2spawner-agent
    ln -sfn "$venv/bin/ec2spawner" /usr/local/bin/ec2spawner
}

install_torch_kernel() {
    local python=/opt/pytorch/bin/python
    if [[ -n ${TORCH:-} ]]; then
        make_venv /opt/torch-kernel
        pip_install /opt/torch-kernel ipykernel "$TORCH"
        python=/opt/torch-kernel/bin/python
    fi
    [[ -x $python ]] || return 0
    "$python" -c 'import ipykernel' 2>/dev/null || pip_install "${python%/bin/python}" ipykernel
    "$python" -m ipykernel install --prefix "$venv" --name pytorch --display-name PyTorch >/dev/null
}

# --- how the system behaves ------------------------------------------------------------------

# $1: a file; its content comes from standard input.
write() {
    install -D -m 644 /dev/stdin "$1"
}

configure_system() {
    write /etc/security/limits.d/90-ec2spawner.conf <<'LIMITS'
* soft nofile 1048576
* hard nofile 1048576
* soft memlock unlimited
* hard memlock unlimited
LIMITS
    write /etc/sysctl.d/90-ec2spawner.conf <<'SYSCTL'
# JupyterLab and editors watch many files; the default of some images is 8192.
fs.inotify.max_user_watches = 524288
SYSCTL
    write /etc/systemd/journald.conf.d/90-ec2spawner.conf <<'JOURNAL'
[Journal]
SystemMaxUse=200M
JOURNAL
    # It would restart what a server cannot run without, because that uses a library of a package that
    # its user upgrades: see ec2spawner/hub/spawn/user_data.sh, which writes the same at a boot.
    write /etc/needrestart/conf.d/ec2spawner.conf <<'NEEDRESTART'
$nrconf{override_rc}->{qr(^(ec2spawner-agent|containerd|soci-snapshotter|nvidia-fabricmanager))} = 0;
NEEDRESTART
    write /etc/logrotate.d/ec2spawner <<'ROTATE'
/opt/ec2spawner/*.log {
    size 10M
    rotate 2
    missingok
    notifempty
}
ROTATE
}

# An instance lives for hours: what updates it only takes its network, its disk and apt's lock.
# The image is baked again instead. Masked units are also those that this image does not have yet.
trim_services() {
    local unit
    for unit in unattended-upgrades.service apt-daily.timer apt-daily-upgrade.timer \
        snapd.refresh.timer snapd.snap-repair.timer motd-news.timer man-db.timer \
        fwupd-refresh.timer update-notifier-download.timer update-notifier-motd.timer \
        nfs-client.target rpcbind.service rpcbind.socket; do # of nfs-common: NFS 4 needs none
        ln -sfn /dev/null "/etc/systemd/system/$unit"
    done
    if [[ -S /run/snapd.socket ]]; then snap set system refresh.hold=forever; fi
}

# A GPU whose driver is unloaded takes seconds to answer its first call.
keep_driver_loaded() {
    [[ -e /usr/bin/nvidia-persistenced ]] || return 0
    write /etc/systemd/system/ec2spawner-persistence.service <<'UNIT'
[Unit]
Description=Keep the NVIDIA driver loaded
ConditionPathExists=/dev/nvidia0

[Service]
Type=oneshot
ExecStart=/usr/bin/nvidia-smi --persistence-mode=1

[Install]
WantedBy=multi-user.target
UNIT
    enable ec2spawner-persistence.service
}

# A new root volume loads each block from its snapshot when it is first read. Reading what a
# notebook needs, many files at a time and from the start of the boot, is faster than waiting for each.
list_hot_files() {
    "$venv/bin/python" - >"$own/hot-files.new" <<'PYTHON'
import importlib
import pathlib
import sys

for name in ("ec2spawner.agent.agent", "ec2spawner.notebook", "jupyterlab.labapp", "ipykernel.kernelapp"):
    importlib.import_module(name)
files = {getattr(module, "__cached__", None) for module in list(sys.modules.values())}
files |= {getattr(module, "__file__", None) for module in list(sys.modules.values())}
for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
    path = line.partition("/")
    files.add(path[1] + path[2])
found = (file for file in files if file and file.startswith("/") and pathlib.Path(file).is_file())
print("\n".join(sorted(found)))
PYTHON
    mv "$own/hot-files.new" "$own/hot-files"
    write /etc/systemd/system/ec2spawner-readahead.service <<'UNIT'
[Unit]
Description=Read the files that a notebook needs
DefaultDependencies=no
After=local-fs.target
Conflicts=shutdown.target

[Service]
Type=oneshot
Nice=10
ExecStart=/bin/sh -c 'xargs -d "\\n" -P 16 -n 32 cat </etc/ec2spawner/hot-files >/dev/null 2>&1 || true'

[Install]
WantedBy=sysinit.target
UNIT
    enable ec2spawner-readahead.service
}

enable() { # $1: a unit that we wrote. Links work without a running systemd, as systemctl's own do
    local target
    target=$(sed -n 's/^WantedBy=//p' "/etc/systemd/system/$1")
    mkdir -p "/etc/systemd/system/$target.wants"
    ln -sfn "../$1" "/etc/systemd/system/$target.wants/$1"
}

# --- what the image is -----------------------------------------------------------------------

# Such as 595.91.07-open. The open kernel modules are dual-licensed, the proprietary are NVIDIA's own.
# The daemon of licenses comes with the GRID driver only.
nvidia_driver() {
    local version grid=
    version=$(modinfo -F version nvidia 2>/dev/null) || return 0
    if command -v nvidia-gridd >/dev/null; then grid=-grid; fi
    case $(modinfo -F license nvidia) in
        *MIT*) echo "$version-open$grid" ;;
        *NVIDIA*) echo "$version-proprietary$grid" ;;
        *) echo "$version$grid" ;;
    esac
}

write_manifest() {
    local driver
    driver=$(nvidia_driver)
    PROVISION_RECIPE=$recipe PROVISION_DRIVER=$driver "$venv/bin/python" - >"$own/image.json.new" <<'PYTHON'
import hashlib
import json
import os
import pathlib
import platform
from importlib.metadata import distributions

OWN = [
    *pathlib.Path("/etc/systemd/system").glob("ec2spawner-*.service"),
    *(pathlib.Path("/etc") / name for name in (
        "ec2spawner/hot-files", "security/limits.d/90-ec2spawner.conf", "sysctl.d/90-ec2spawner.conf",
        "systemd/journald.conf.d/90-ec2spawner.conf", "needrestart/conf.d/ec2spawner.conf",
        "logrotate.d/ec2spawner",
    )),
]
release = dict(
    line.split("=", 1) for line in pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line
)


def installed() -> list[pathlib.Path]:
    """Of our own package: another one's drift shows in its version."""
    [ours] = [each for each in distributions() if each.name == "ec2spawner"]
    files = [pathlib.Path(ours.locate_file(file)) for file in ours.files or ()]
    return [file.resolve() for file in files if file.suffix != ".pyc" and "RECORD" not in file.name]


files = sorted({*OWN, *(file for file in installed() if file.is_file())})
print(json.dumps({
    "recipe": os.environ["PROVISION_RECIPE"],
    "system": release["PRETTY_NAME"].strip('"'),
    "python": platform.python_version(),
    "driver": os.environ["PROVISION_DRIVER"],
    "packages": dict(sorted((each.name, each.version) for each in distributions())),
    "files": {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
}, indent=1))
PYTHON
    mv "$own/image.json.new" "$own/image.json"
}

# --- what the image must not have ------------------------------------------------------------

# What belongs to this machine or to whoever built the image.
clean() {
    local home
    apt clean
    rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/tmp/* /var/crash/*
    rm -f /etc/ssh/ssh_host_*
    for home in /root /home/*; do
        rm -rf "$home"/.cache "$home"/.aws "$home"/.config/pip "$home"/.docker "$home"/.netrc
        rm -f "$home"/.*_history "$home"/.lesshst "$home"/.viminfo "$home"/.wget-hsts \
            "$home"/.ssh/authorized_keys "$home"/.ssh/known_hosts "$home"/.ssh/id_*
    done
    if command -v cloud-init >/dev/null; then cloud-init clean --logs; fi
    : >/etc/machine-id
    rm -f /var/lib/dbus/machine-id /var/lib/systemd/random-seed
    if [[ -d /run/systemd/system ]]; then journalctl --quiet --rotate --vacuum-time=1s; fi
    find /var/log -type f \( -name '*.gz' -o -name '*.[0-9]' \) -delete
    find /var/log -type f -exec truncate --size 0 {} +
    sync
}

if [[ ${1:-} == clean ]]; then
    clean
    say "clean: create the image now"
    exit
fi
: "${PACKAGE:?what pip installs}"
mkdir -p "$own"
install_system_packages
install_debs
install_notebook
install_torch_kernel
configure_system
trim_services
keep_driver_loaded
list_hot_files
write_manifest
say "done; $own/image.json describes the image"
