# shellcheck shell=bash disable=SC2154 # hub_argument and package: user_data.py
# Starts the agent of ec2spawner. An image that lacks it gets it first.
#
# Each line that says why the instance powers off, and no other, begins with "ec2spawner: ", by which
# the hub finds it on the console.

folder=/opt/ec2spawner
units=${EC2SPAWNER_UNITS:-/etc/systemd/system}

# A timer of each boot, not only of this first one: a hub that starts a stopped instance may be gone
# before its agent calls. The agent makes the file when the hub has answered it.
end_if_unclaimed() {
    cat >"$units/ec2spawner-unclaimed.service" <<'UNIT'
[Unit]
Description=Power off an instance that no hub has answered

[Service]
Type=oneshot
EnvironmentFile=-/etc/ec2spawner/agent.env
StandardOutput=journal+console
StandardError=journal+console
ExecStart=/bin/sh -c "test -e $${EC2SPAWNER_RUN_DIR:-/run/ec2spawner}/answered || { echo 'ec2spawner: no hub has answered this instance since its boot; it powers off'; $${EC2SPAWNER_POWEROFF:-systemctl poweroff}; }"
UNIT
    cat >"$units/ec2spawner-unclaimed.timer" <<'UNIT'
[Unit]
Description=Power off an instance that no hub has answered 30 minutes after its boot

[Timer]
OnBootSec=1800
AccuracySec=1

[Install]
WantedBy=timers.target
UNIT
    systemctl daemon-reload
    systemctl enable --now ec2spawner-unclaimed.timer
}

power_off() {
    echo "ec2spawner: $*; this instance powers off. Use an image that has ec2spawner in it"
    systemctl poweroff
    exit 1
}

# $1: minutes; $2: what it is; the rest is the command.
within() {
    local status
    timeout --kill-after=30s "$1m" "${@:3}"
    status=$?
    if ((status == 124)); then echo "$2 was not done after $1 minutes"; fi
    return "$status"
}

# New enough for the agent, and able to make environments: Debian and Ubuntu keep a part of venv in
# a package of its own.
is_usable() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in python3.14 python3.13 python3.12 python3.11 python3 /opt/pytorch/bin/python; do
        if command -v "$candidate" >/dev/null && is_usable "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# An image may be updating its lists: for their lock, unlike dpkg's, apt does not wait.
apt_update() { # $@: apt-get
    local said status
    while true; do
        said=$("$@" update 2>&1)
        status=$?
        echo "$said"
        ((status)) && [[ $said == *lists/lock* ]] || return "$status"
        sleep 2
    done
}

# Ubuntu 24.04 has 3.12, Ubuntu 22.04 has 3.11 beside its 3.10, Amazon Linux 2023 has both.
install_python() {
    local version
    local versions=(3.12 3.11 3.13 3.14)
    if command -v apt-get >/dev/null; then
        local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120)
        export -f apt_update
        # After a failure, the lists that the image has serve.
        within 5 "apt-get update" bash -c 'apt_update "$@"' update "${apt[@]}"
        for version in "${versions[@]}"; do
            within 5 "apt-get install" \
                "${apt[@]}" install --yes "python$version" "python$version-venv" && return
        done
    elif command -v dnf >/dev/null; then
        for version in "${versions[@]}"; do
            within 5 "dnf install" dnf install --assumeyes "python$version" && return
        done
    fi
    echo "this image has no Python 3.11 or newer with venv, and none could be installed"
    return 1
}

make_environment() {
    local python
    python=$(find_python) || { install_python && python=$(find_python); } || return
    within 2 "$python -m venv" "$python" -m venv "$folder"
}

# $1: minutes; the rest are options. Wheels only: building one would run code that nothing pins.
pip_install() {
    within "$1" pip "$folder/bin/python" -m pip install --no-input --no-cache-dir \
        --disable-pip-version-check --progress-bar off --only-binary :all: "${@:2}" "$package"
}

install_agent() {
    make_environment || return
    # The package alone first: it says with which versions of all others it was tested.
    pip_install 1 --no-deps || return
    local tested=("$folder"/lib/python3*/site-packages/ec2spawner/data/constraints.txt)
    pip_install 7 --constraint "${tested[0]}" || return
    [[ -x $folder/bin/ec2spawner-agent ]] || echo "$package has no ec2spawner-agent in it"
}

# needrestart, which Ubuntu 24.04 runs after each apt, restarts what uses a library that apt replaced.
# A user's kernels do, too: they are processes of the agent's unit, and its restart would end the
# server and power off the instance. Without containerd, what runs the notebook's container loses it;
# Docker is left alone by default. The fabric manager aborts all work on the GPUs when it ends
# (ABORT_CUDA_JOBS_ON_FM_EXIT in NVIDIA's user guide).
never_restart_server() {
    local folder=${EC2SPAWNER_ROOT:-}/etc/needrestart/conf.d
    mkdir -p "$folder"
    # shellcheck disable=SC2016 # Perl
    echo '$nrconf{override_rc}->{qr(^(ec2spawner-agent|containerd|soci-snapshotter|nvidia-fabricmanager))} = 0;' \
        >"$folder/ec2spawner.conf"
}

start_agent() {
    local unit=ec2spawner-agent.service
    cat >"$units/ec2spawner-agent-failed.service" <<'UNIT'
[Unit]
Description=Power off an instance whose agent does not run

[Service]
Type=oneshot
EnvironmentFile=-/etc/ec2spawner/agent.env
StandardOutput=journal+console
StandardError=journal+console
ExecStart=/bin/sh -fc "echo ec2spawner: the agent does not run, this instance powers off: $$(journalctl _SYSTEMD_UNIT=ec2spawner-agent.service --lines=1 --output=cat); $${EC2SPAWNER_POWEROFF:-systemctl poweroff}"
UNIT
    cat >"$units/$unit" <<UNIT
[Unit]
Description=Agent of ec2spawner
Wants=network-online.target
After=network-online.target dlami-nvme.service
# Which run the notebook's container: they start before and stop after it.
After=containerd.service docker.service soci-snapshotter.service
# Its invalid settings, and five failures in ten minutes.
OnFailure=ec2spawner-agent-failed.service
StartLimitIntervalSec=600
StartLimitBurst=5

[Service]
EnvironmentFile=-/etc/ec2spawner/agent.env
ExecStart="$agent" --hub-api-url $hub_argument
Restart=on-failure
RestartPreventExitStatus=2
RestartSec=5
StandardOutput=journal+console
StandardError=journal+console
LimitNOFILE=1048576
KillMode=mixed
TimeoutStopSec=60
OOMPolicy=continue
# As sshd's: memory that is used up ends what uses it, which the agent reports.
OOMScoreAdjust=-900

[Install]
WantedBy=multi-user.target
UNIT
    systemctl daemon-reload
    exec systemctl enable --now "$unit"
}

end_if_unclaimed
never_restart_server
agent=$(command -v ec2spawner-agent || echo "$folder/bin/ec2spawner-agent")
if [[ ! -x $agent && -z $package ]]; then
    power_off "this image has no ec2spawner-agent, and nothing says what to install"
fi
if [[ ! -x $agent ]]; then
    echo "this image has no ec2spawner-agent, installing $package into $folder"
    mkdir -p "$folder"
    install_agent >"$folder/install.log" 2>&1
    if [[ ! -x $agent ]]; then
        power_off "installing $package failed: $(tail -n 1 "$folder/install.log")"
    fi
fi
start_agent
