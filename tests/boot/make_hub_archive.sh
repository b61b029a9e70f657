#!/usr/bin/env bash
# Downloads, once, what a hub's machine installs besides wheels: Debian packages that the root of the
# boot tests lacks, and the proxy's npm packages. In the repository's folder, after make_root.sh.
set -euo pipefail

# shellcheck source=/dev/null
source tests/boot/archive.sh
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ec2spawner
root=$cache/boot-root-$(cat tests/boot/make_root.sh tests/boot/archive.sh | sha256sum | cut -c 1-12)
packages=(ca-certificates curl nodejs npm openssl python3-venv)
hub=$cache/boot-hub-$(cat "$0" tests/boot/make_root.sh tests/boot/archive.sh \
    configs/aws/proxy/package-lock.json | sha256sum | cut -c 1-12)

# With this machine's apt and keys, but what is installed in the root.
download_packages() { # $1: the folder
    local apt codename
    codename=$(release)
    mkdir -p "$1/archive/partial" "$1/lists/partial"
    echo "deb $(mirror "$codename") $codename main" >"$1/sources.list"
    apt=(apt-get -qq -o "Dir::State::status=$root/var/lib/dpkg/status" -o "Dir::State=$1"
        -o "Dir::State::lists=$1/lists" -o "Dir::Cache::archives=$1/archive"
        -o "Dir::Etc::sourcelist=$1/sources.list" -o Dir::Etc::sourceparts=-
        -o APT::Sandbox::User=root)
    "${apt[@]}" update
    "${apt[@]}" install --yes --download-only --no-install-recommends "${packages[@]}"
    rm -rf "$1/archive/partial" "$1/archive/lock" "$1/lists"
    index_archive "$1/archive"
}

# npm finds packages in its cache by their address: the hub's machine has to ask for the same.
download_proxy() { # $1: the folder
    cp configs/aws/proxy/package.json configs/aws/proxy/package-lock.json configs/aws/proxy/.npmrc "$1"
    npm --prefix "$1" --cache "$1/npm" --silent ci --ignore-scripts
    printf 'offline=true\nregistry=%s\n' "$(npm config get registry)" >"$1/npmrc"
    rm -rf "$1/node_modules"
}

[[ -d $root ]] || { echo "there is no root: run make boot" >&2 && exit 1; }
exec 9>"$cache/boot-root.lock"
flock 9
if [[ ! -d $hub ]]; then
    rm -rf "$hub.new"
    mkdir "$hub.new"
    download_packages "$hub.new"
    download_proxy "$hub.new"
    mv "$hub.new" "$hub"
fi
echo "$hub"
