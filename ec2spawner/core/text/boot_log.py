"""The lines of an instance's boot log that say why it failed, safe to show. Pure.

The end of a real console says nothing about a failure: it is what every boot and every shutdown
prints. So our own lines, those of user-data and of the agent, come first; the lines of kernel,
systemd and cloud-init that are known to mean nothing are dropped.

The text comes from the instance, and so is hostile: it may hold terminal escapes, control
characters and lines of any length. A page must escape the result like any other text.
"""

from __future__ import annotations

import re
from typing import Final

from .untrusted import without_escapes

MAX_LINES: Final = 3
MAX_LINE: Final = 130
"""Characters. `MAX_LINES` lines fit into a `Stop.message`, beside the sentence with the reason."""

READ_CHARACTERS: Final = 64 * 1024
"""All that EC2 returns: host keys and a shutdown put kilobytes behind the line that matters."""
READ_LINES: Final = 1000
"""How many lines of the end are searched. 64 KiB of a real console have about 900."""
READ_LINE: Final = 300
"""Characters of a line that are read: `MAX_LINE`, and what precedes them."""

MARK: Final = "ec2spawner: "
"""Begins what user-data prints."""

_PREFIX: Final = re.compile(
    r"(?:[\w.-]{1,64} login: )?(?:\[ *\d+\.\d+\] )?(?:(?P<writer>[\w@:.-]{1,60})\[\d+\]: )?"
)
"""A login prompt, which ends in no newline, the kernel's time stamp, and the program that journald
names when it writes to the console."""

_AGENT: Final = re.compile(r"ec2spawner-agent(?:\.service)?")
_AGENT_RECORD: Final = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]{4,8} ec2spawner[\w.]*: "
)
"""How a log record of the agent begins."""

_GRAVE: Final = re.compile(
    r"Kernel panic|Out of memory: |oom-kill|No space left|I/O error"
    r"|NVRM: .*(?:not supported|failed|Xid)"
)
"""What the kernel says when it is the reason."""

_NOISE: Final = re.compile(
    # systemd, with and without journald's name for it
    r"\[  OK  \]|\[ *\*+ *\]|\[ INFO \]"
    r"|(?:Starting|Started|Stopping|Stopped|Finished|Reached target|Stopped target|Listening on"
    r"|Mounting|Mounted|Unmounting|Unmounted|Deactivated|Created slice|Removed slice|Closed"
    r"|Set up automount|Activating swap|Found device|Queued start job|Hostname set) ?\b"
    r"|systemd \d+.* running in system mode|Detected (?:virtualization|architecture)|Welcome to "
    # shutdown
    r"|Powering off|Rebooting|The system (?:is going down|will (?:power off|reboot|halt))"
    r"|Broadcast message from|Syncing filesystems|Sending SIG(?:TERM|KILL) to"
    r"|All (?:filesystems|swaps|loop devices|MD devices|DM devices).* (?:unmounted|deactivated"
    r"|detached|stopped)|Waiting for process|Power[- ]Off|Watchdog"
    # cloud-init: its own progress, network tables, keys
    r"|Cloud-init (?:v\.|\S* ?received SIGTERM)|(?:Filename|Function|Line number): |ci-info: "
    r"|(?:<\d+>)?[A-Z][a-z]{2} [ \d]\d [\d:]{8} (?:ec2|cloud-init): "
    r"|-----(?:BEGIN|END) SSH HOST KEY|(?:ssh-(?:ed25519|rsa|dss)|ecdsa-sha2-\S+) AAAA"
    r"|Generating public/private |Your (?:identification|public key) has been saved"
    r"|The key(?:'s randomart image is|\sfingerprint is)|SHA256:|\+-*\[|\+-+\+|\|[^|]{17}\|$"
    # the login prompt
    r"|\S+ login:|(?:Ubuntu|Debian|Amazon Linux|Red Hat).* tty\w+$"
)
"""What a boot or a shutdown prints in any case: matched at the beginning of a line's text."""


def last_lines(text: str, lines: int = MAX_LINES, width: int = MAX_LINE) -> tuple[str, ...]:
    """The newest lines that may say why, oldest first: our own before any other.

    Empty if nothing but known noise is there.
    """
    ours: list[tuple[int, str]] = []
    others: list[tuple[int, str]] = []
    end = re.split(r"[\r\n]+", text[-READ_CHARACTERS:])[-READ_LINES:]
    for number in range(len(end) - 1, -1, -1):
        if len(ours) == lines:
            break
        said, is_ours = _said(without_escapes(end[number][:READ_LINE]))
        if said and (is_ours or len(others) < lines):
            found = (number, said if len(said) <= width else f"{said[: width - 1]}…")
            (ours if is_ours else others).append(found)
    chosen = sorted([*ours, *others][:lines])
    return tuple(line for _, line in chosen)


def _said(line: str) -> tuple[str, bool]:
    """What a line says, without its prefixes, and whether it is ours; empty for noise."""
    prefix = _PREFIX.match(line)
    begin = prefix.end() if prefix else 0
    writer = (prefix and prefix["writer"]) or ""
    said = line[begin:].strip()
    if not any(map(str.isalnum, said)):
        return "", False
    if record := _AGENT_RECORD.match(said):
        return said[record.end() :].strip(), True
    if said.startswith(MARK) or _AGENT.fullmatch(writer):
        return said, True
    is_kernels = begin > 0 and not writer
    is_noise = is_kernels or writer.startswith("systemd") or _NOISE.match(said)
    return ("" if is_noise and not _GRAVE.search(said) else said), False


def quoted(text: str) -> str:
    """A sentence for the end of a message; empty if the log has no such line."""
    lines = last_lines(text)
    return f"The end of its boot log: {' / '.join(lines)}" if lines else ""
