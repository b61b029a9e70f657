#!/bin/bash
# Installs a package that update-hub has fetched, as root, and sets the hub up.
# $1: the folder with its wheel and all that is in the wheel.
set -euo pipefail
readonly fetched=$1 venv=/opt/jupyterhub
# shellcheck source=/dev/null
source /etc/ec2spawner/hub.env

install() {
    timeout 10m "$venv/bin/python" -m pip --disable-pip-version-check --quiet --no-input \
        install --only-binary :all: "$@"
}

# Recommended by npm: compilers, git and test programs, four times as much as all the rest.
DEBIAN_FRONTEND=noninteractive timeout 10m apt-get -qq -o DPkg::Lock::Timeout=300 install --yes \
    --no-install-recommends ca-certificates curl nodejs npm openssl python3-venv

# HUB_PACKAGE may name extras, such as ec2spawner[postgresql].
extras=
if [[ $HUB_PACKAGE =~ ^ec2spawner[[:space:]]*(\[[^]]*\]) ]]; then extras=${BASH_REMATCH[1]}; fi
# The package names the versions of all others that it was tested with. It is replaced last: until
# then, the installed hub still works.
wheel=("$fetched"/*.whl)
install --constraint "$fetched/ec2spawner/data/constraints.txt" "${wheel[0]}$extras"
install --no-deps --force-reinstall "${wheel[0]}"
exec bash "$venv/share/ec2spawner/configs/aws/setup-hub.sh"
