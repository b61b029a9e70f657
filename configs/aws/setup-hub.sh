#!/bin/bash
# Sets a hub up, as root: user, data volume, proxy, secrets, certificate, configuration, units.
# Safe to repeat: it replaces what belongs to the package, and nothing that an admin may have changed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readonly here
readonly venv=/opt/jupyterhub settings=/etc/ec2spawner/hub.env
readonly state=/srv/jupyterhub config=/etc/jupyterhub disk=/srv/hub-disk

# shellcheck source=/dev/null
source "$settings"

make_user() {
    id jupyterhub &>/dev/null \
        || useradd --system --user-group --home-dir "$state" --shell /usr/sbin/nologin jupyterhub
}

# The volume is attached while the machine boots, or shortly after.
wait_for_device() {
    local device=$1
    for _ in $(seq 120); do
        [[ -b $device ]] && return
        sleep 5
    done
    echo "setup-hub: $HUB_DATA_VOLUME is not attached: there is no $device" >&2
    return 1
}

# Both folders live on the data volume, so that they survive the machine.
mount_data_volume() {
    local device=/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${HUB_DATA_VOLUME/-/}
    wait_for_device "$device"
    # Only a disk without anything on it is formatted; blkid's 2 is "nothing found".
    local found=0
    blkid -p "$device" >/dev/null || found=$?
    if [[ $found == 2 ]]; then mkfs.ext4 -q -L hub "$device"; fi
    mkdir -p "$disk" "$state" "$config"
    if ! grep -q "^$device " /etc/fstab; then
        cat >>/etc/fstab <<FSTAB
$device $disk ext4 defaults,nofail 0 2
$disk/state $state none bind,nofail,x-systemd.requires-mounts-for=$disk 0 0
$disk/config $config none bind,nofail,x-systemd.requires-mounts-for=$disk 0 0
FSTAB
    fi
    mountpoint -q "$disk" || mount "$disk"
    mkdir -p "$disk/state" "$disk/config"
    local folder
    for folder in "$state" "$config"; do mountpoint -q "$folder" || mount "$folder"; done
    # The user of an earlier machine may have had another number.
    chown -R --no-dereference jupyterhub:jupyterhub "$disk/state"
}

make_folders() {
    install -d -m 755 "$config"
    install -d -m 750 -o root -g jupyterhub "$config/tls"
    install -d -m 750 -o jupyterhub -g jupyterhub "$state"
}

# Packages that the hub's configuration needs beside ec2spawner, in tested versions where we have them.
install_requirements() {
    local file=$config/requirements.txt
    [[ -e $file ]] || cat >"$file" <<'REQUIREMENTS'
# Python packages for the hub's configuration, such as oauthenticator. After a change: sudo update-hub
REQUIREMENTS
    grep -q '^[^#]' "$file" || return 0
    timeout 10m "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-input \
        --constraint "$(tested_versions)" --requirement "$file"
}

tested_versions() {
    "$venv/bin/python" -c \
        'from importlib.resources import files; print(files("ec2spawner.data") / "constraints.txt")'
}

install_proxy() {
    local proxy=$venv/proxy
    mkdir -p "$proxy"
    if ! cmp -s "$here/proxy/package-lock.json" "$proxy/node_modules/.installed"; then
        cp "$here"/proxy/package.json "$here"/proxy/package-lock.json "$proxy"
        npm --prefix "$proxy" --loglevel=error --no-audit --no-fund ci --ignore-scripts
        cp "$proxy/package-lock.json" "$proxy/node_modules/.installed"
    fi
}

# Read by systemd, as root, and given to the hub and its proxy only.
make_secrets() {
    local file=$config/secrets.env
    [[ -e $file ]] || (
        umask 077
        cat >"$file.new" <<SECRETS
CONFIGPROXY_AUTH_TOKEN=$(openssl rand -hex 32)
HUB_USER_PASSWORD=$(openssl rand -hex 8)
HUB_ADMIN_PASSWORD=$(openssl rand -hex 20)
SECRETS
        mv "$file.new" "$file"
    )
    chmod 600 "$file"
}

# $1: a path of EC2's metadata. Prints nothing where there is none, or no EC2.
metadata() {
    local service=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}/latest token
    token=$(curl -fsS -m 2 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' \
        "$service/api/token" 2>/dev/null) || return 0
    curl -fsS -m 2 -H "X-aws-ec2-metadata-token: $token" "$service/meta-data/$1" 2>/dev/null || true
}

# The names under which this machine is reached, as a certificate lists them.
names() {
    local path name
    echo "DNS:localhost,DNS:$(hostname)"
    for path in public-hostname local-hostname; do
        name=$(metadata $path)
        if [[ -n $name ]]; then echo "DNS:$name"; fi
    done
    for path in public-ipv4 local-ipv4; do
        name=$(metadata $path)
        if [[ -n $name ]]; then echo "IP:$name"; fi
    done
}

# Ours is replaced when it is about to expire or the machine's names have changed; another never.
make_certificate() {
    renew_certificate
    # On another machine the volume's group had another number.
    chown root:jupyterhub "$config/tls/key.pem" "$config/tls/cert.pem"
    chmod 640 "$config/tls/key.pem" "$config/tls/cert.pem"
}

renew_certificate() {
    local cert=$config/tls/cert.pem key=$config/tls/key.pem made_for=$config/tls/self-signed-for wanted
    wanted=$(names | paste -sd,)
    if [[ -e $cert && ! -e $made_for ]]; then return; fi
    if [[ -e $cert ]] && [[ $(<"$made_for") == "$wanted" ]] \
        && openssl x509 -in "$cert" -noout -checkend $((30 * 86400)) >/dev/null; then
        return
    fi
    (
        umask 027
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 397 \
            -subj "/CN=JupyterHub $HUB_NAME" -addext "subjectAltName=$wanted" \
            -addext "basicConstraints=critical,CA:FALSE" -addext "extendedKeyUsage=serverAuth" \
            -keyout "$key" -out "$cert" 2>/dev/null
    )
    echo "$wanted" >"$made_for"
}

install_files() {
    [[ -e $config/jupyterhub_config.py ]] \
        || install -m 644 "$here/jupyterhub_config.py" "$config/jupyterhub_config.py"
    # update-hub may be running: install makes new files and does not change those of before.
    install -m 755 "$here/as-hub" "$here/update-hub" /usr/local/sbin
    install -m 644 "$here"/jupyterhub.service "$here"/jupyterhub-proxy.service /etc/systemd/system
}

# Ubuntu upgrades packages by itself, and needrestart then restarts what uses a replaced library. A
# restart of the proxy disconnects every browser; one of the hub disconnects nobody.
never_restart_proxy() {
    install -d -m 755 /etc/needrestart/conf.d
    # shellcheck disable=SC2016 # Perl
    echo '$nrconf{override_rc}->{qr(^jupyterhub-proxy)} = 0;' >/etc/needrestart/conf.d/ec2spawner.conf
}

start() {
    [[ -d /run/systemd/system ]] || return 0
    systemctl daemon-reload
    systemctl enable jupyterhub-proxy.service jupyterhub.service
    # A restart disconnects browsers: only if a file has changed that it has read.
    sha256sum --check --status /run/jupyterhub-proxy/read 2>/dev/null \
        || systemctl restart jupyterhub-proxy.service
    systemctl restart jupyterhub.service
}

make_user
if [[ -n ${HUB_DATA_VOLUME:-} ]]; then mount_data_volume; fi
make_folders
install_requirements
install_proxy
make_secrets
make_certificate
install_files
never_restart_proxy
start
echo "setup-hub: the hub is set up. Its certificate: $(
    openssl x509 -in "$config/tls/cert.pem" -noout -fingerprint -sha256
)"
echo "setup-hub: passwords are in $config/secrets.env; check with: sudo as-hub ec2spawner check"
