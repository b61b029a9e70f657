#!/usr/bin/env bash
# Makes, once, what the boot tests start: a root file system with systemd and cloud-init, and the
# wheels that an instance installs there, because it reaches no package index.
#
# usage: make_root.sh PYTHON, the one of the development environment, in the repository's folder.
# The root is in the cache folder, under a hash of this file and of what it sources.
set -euo pipefail

# shellcheck source=/dev/null
source tests/boot/archive.sh
python=$1
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ec2spawner
root=$cache/boot-root-$(cat "$0" tests/boot/archive.sh | sha256sum | cut -c 1-12)
wheels=$cache/boot-wheels
constraints=ec2spawner/data/constraints.txt

packages=(
    systemd systemd-sysv dbus udev python3 python3-venv cloud-init sudo iproute2 procps
    ca-certificates openssl locales openssh-server logrotate
    iptables
    python3-cffi-backend # of cloud-init's: debootstrap does not resolve virtual packages
)
# In the archive only: what the recipe of the image installs there.
in_archive=(nfs-common rpcbind tini)
# As in Ubuntu's image, it is in the archive only; as for a Python that is not the default one, only
# under the name of its version.
venv=python$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv

# Stands for the distribution's archive: what an instance installs from there with apt.
make_archive() { # $1: the root
    mkdir "$1/srv/archive"
    local name
    for name in "$venv" "${in_archive[@]}"; do
        # Not under a name with the colon of an epoch in it, which apt would look for.
        cp "$1/var/cache/apt/archives/${name}_"*.deb "$1/srv/archive/$name.deb"
    done
    # What runs nowhere is not to be stopped either.
    install -m 755 /dev/stdin "$1/usr/sbin/policy-rc.d" <<<$'#!/bin/sh\nexit 101'
    chroot "$1" dpkg --purge python3-venv "$venv" "${in_archive[@]}" >/dev/null
    rm "$1/usr/sbin/policy-rc.d"
    index_archive "$1/srv/archive"
    echo 'deb [trusted=yes] file:/srv/archive ./' >"$1/etc/apt/sources.list"
}

make_root() {
    local codename
    codename=$(release)
    rm -rf "$root.new"
    debootstrap --variant=minbase --include="$(IFS=, && echo "${packages[*]},${in_archive[*]}")" \
        "$codename" "$root.new" "$(mirror "$codename")" >"$cache/boot-root.log" 2>&1 ||
        { tail -n 5 "$cache/boot-root.log" >&2 && return 1; }
    # As in Ubuntu's image: cloud-init makes this user at the first boot.
    sed -i 's/^\( *\)name: debian$/\1name: ubuntu/' "$root.new/etc/cloud/cloud.cfg"
    # The network is there before the boot. Names fail at once: nothing answers.
    cat >"$root.new/etc/cloud/cloud.cfg.d/90-boot-tests.cfg" <<'CFG'
datasource_list: [Ec2]
datasource: {Ec2: {timeout: 5, max_wait: 30}}
network: {config: disabled}
locale: C.UTF-8
CFG
    : >"$root.new/etc/resolv.conf"
    make_archive "$root.new"
    # cloud-init recognizes EC2 by this file of the kernel, and asks for a token there.
    sed -i 's#/sys/hypervisor/uuid#/etc/hypervisor-uuid#' \
        "$root.new/usr/lib/python3/dist-packages/cloudinit/sources/DataSourceEc2.py"
    echo ec2e1916-9099-7caf-fd21-012345abcdef >"$root.new/etc/hypervisor-uuid"
    # Stands for the package index; the tests mount the folder.
    printf '[global]\nno-index = true\nfind-links = /srv/wheels\n' >"$root.new/etc/pip.conf"
    : >"$root.new/etc/machine-id" # an instance makes its own at its first boot
    rm -rf "$root.new"/var/cache/apt/archives/*.deb "$root.new"/var/lib/apt/lists/*
    mv "$root.new" "$root"
}

# For this machine's own Python, which is the release's, as the root's is.
download_wheels() {
    local stamp
    stamp=$wheels/.made-for-$(cat "$constraints" pyproject.toml | sha256sum | cut -c 1-12)
    [[ -e $stamp ]] && return
    rm -rf "$wheels.new"
    "$python" -c 'import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
print(*project["dependencies"], *project["optional-dependencies"]["notebook"], sep="\n")' |
        "$python" -m pip --python /usr/bin/python3 download --quiet --quiet --dest "$wheels.new" \
            --only-binary :all: --constraint "$constraints" --requirement /dev/stdin
    rm -rf "$wheels"
    mv "$wheels.new" "$wheels"
    touch "$stamp"
}

mkdir -p "$cache"
exec 9>"$cache/boot-root.lock"
flock 9
if [[ ! -d $root ]]; then make_root; fi # not `||`, in which a failed command would not end it
download_wheels
