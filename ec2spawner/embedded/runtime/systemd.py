"""The instance's substitute for systemd: programs that start its units, restart them, and
keep their output.

A service ends and is restarted as systemd's manual pages say (systemd.service, systemd.kill and
systemd.unit) and its source does: once the main process has ended, whatever else is left of the
unit is killed, and a failed service starts again, until it has been started too often.
"""

from __future__ import annotations

from .processes import UNIT_VARIABLE

SYSTEMCTL = """#!/bin/bash
# Units lie in the instance's folder of them. Of a timer OnBootSec counts; of a service ExecStart,
# StandardOutput, Restart (no, on-failure, always), RestartPreventExitStatus, RestartSec, KillMode
# (mixed, control-group), TimeoutStopSec, StartLimitIntervalSec, StartLimitBurst and OnFailure.
# Times are plain seconds.
{press}
units=${EC2SPAWNER_UNITS:-/etc/systemd/system}
wanted=$units/multi-user.target.wants

setting() { # $1: name; $2: default
    local value
    value=$(sed -n "s/^$1=//p" "$units/$unit" | tail -n 1)
    echo "${value:-$2}"
}

start() {
    local unit=$1
    [[ -e $units/$unit ]] || exit 1
    if [[ $unit == *.timer ]]; then
        setsid "$0" --after "$(setting OnBootSec)" "${unit%.timer}.service" >/dev/null 2>&1 &
    else
        setsid "$0" --service "$unit" &
    fi
}

command_line() {
    local command
    command=$(setting ExecStart)
    # What systemd would read as a plain character is one for the shell too.
    command=${command//%%/%}
    command=${command//'$$'/'\\$'}
    printf '%s' "${command//'`'/'\\`'}"
}

# Sets `output` to what the unit writes to. As journald writes it down, standard error goes where
# standard output goes.
open_output() {
    local to program
    to=$(setting StandardOutput journal)
    eval "program=($(command_line))"
    journald=
    if [[ $to == null ]]; then
        exec {output}>/dev/null
    elif [[ -n ${EC2SPAWNER_JOURNAL-} ]]; then
        exec {output}> >(
            [[ $to == *+console ]] || unset EC2SPAWNER_CONSOLE
            exec "${0%/*}/journald" "${program##*/}" $$
        )
        journald=$!
    else
        exec {output}>&1
    fi
}

# Runs the service once; its status, 128 and the number for a signal. As in a control group, nothing
# that it has started is left afterwards.
run() {
    local status grace=0
    trap '' TERM  # for journald, which ends with its input
    open_output
    trap exit TERM
    # What a shell's `&` ignores in its children, or `nohup` did further up, systemd does not.
    {unit_variable}=$unit setsid env --default-signal=HUP,INT,QUIT \\
        "$0" --run "$(command_line)" >&"$output" 2>&1 {output}>&- &
    wait $!
    status=$?
    exec {output}>&-
    # `mixed` sends SIGTERM to the main process alone, which has ended.
    if [[ $(setting KillMode control-group) != mixed ]]; then grace=$(setting TimeoutStopSec 90); fi
    (ask "units/$unit/kill/$grace") 2>/dev/null
    if [[ -n $journald ]]; then wait "$journald"; fi
    return "$status"
}

# $1: status. One that exits with 128 and the number of a signal counts as killed by it.
is_failure() {
    case $1 in
        0 | 129 | 130 | 141 | 143) return 1 ;;  # SIGHUP, SIGINT, SIGPIPE, SIGTERM
    esac
}

may_restart() { # $1: status
    [[ " $(setting RestartPreventExitStatus) " != *" $1 "* ]] || return
    case $(setting Restart no) in
        always) ;;
        on-failure) is_failure "$1" ;;
        *) return 1 ;;
    esac
}

# As systemd's `ratelimit_below`: an interval begins with the first start after the one before.
may_start() {
    if ((starts == 0 || SECONDS - interval_began > $(setting StartLimitIntervalSec 10))); then
        starts=0 interval_began=$SECONDS
    fi
    ((starts++ < $(setting StartLimitBurst 5)))
}

serve() {
    local status starts=0 interval_began=0 each
    while may_start; do
        run
        status=$?
        if ! may_restart "$status"; then
            is_failure "$status" && break
            return
        fi
        sleep "$(setting RestartSec 0.1)"
    done
    for each in $(setting OnFailure); do start "$each"; done
}

case ${1-} in
    --service)
        # A shutdown ends it, and restarts nothing.
        trap exit TERM
        unit=$2
        # What it inherits is cloud-init's.
        if [[ -n ${EC2SPAWNER_JOURNAL-} ]]; then exec >/dev/null 2>&1; fi
        serve
        exit
        ;;
    --run)
        # Stays: a program that closes its memory is found by the leader of its session. A signal
        # is for the program, which gets it too.
        trap : TERM
        exec {errors}>&2 2>/dev/null  # not this shell's line about a killed program
        eval "$2 2>&$errors {errors}>&-"
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
        for each in "$wanted"/*; do
            [[ -e $each ]] && start "${each##*/}"
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
""".replace("{unit_variable}", UNIT_VARIABLE)

JOURNALCTL = """#!/bin/bash
# The last lines of a unit: journalctl _SYSTEMD_UNIT=it.service --lines=1 --output=cat.
unit=${EC2SPAWNER_UNITS:-/etc/systemd/system}/${1#_SYSTEMD_UNIT=}
program=$(sed -n 's/^ExecStart="\\{0,1\\}\\([^ "]*\\).*/\\1/p' "$unit" | tail -n 1)
sed -n "s/^[^[]* ${program##*/}\\[[0-9]*\\]: //p" "$EC2SPAWNER_JOURNAL" | tail -n "${2#--lines=}"
"""

JOURNALD = """#!/bin/bash
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
