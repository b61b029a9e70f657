"""The lines of an instance's boot log that say why it failed, safe to show. Pure.

The end of a real console says nothing about a failure: it is what every boot and every shutdown
prints. So what user-data and the agent say of a failure and what the kernel says of a broken disk,
memory or GPU come first; the lines of kernel, systemd and cloud-init that are known to mean nothing
are dropped.

The text comes from the instance, and so is hostile: it may hold terminal escapes, control
characters and lines of any length. A page must escape the result like any other text.
"""

from __future__ import annotations

import re
from enum import IntEnum
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
"""Begins what user-data and the failed units print before they power off."""

_PREFIX: Final = re.compile(
    r"(?:[\w.-]{1,64} login: )?(?P<stamp>\[ *\d+\.\d+\] )?(?:(?P<writer>[\w@:.-]{1,60})\[\d+\]: )?"
)
"""A login prompt, which ends in no newline, the kernel's time stamp, and the program that journald
names when it writes to the console."""

_AGENT: Final = re.compile(r"ec2spawner-agent(?:\.service)?")
_RECORD: Final = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (?P<level>[A-Z]{4,8}) (?P<logger>[\w.]{1,80}): "
)
"""How a log record of the agent begins."""

_TRACEBACK: Final = re.compile(
    r"Traceback \(most recent call last\)|During handling of the above|The above exception was"
)

_GRAVE: Final = re.compile(
    r"Kernel panic|Unable to mount root|BUG: |Oops: |general protection fault|soft lockup"
    r"|blocked for more than \d+ seconds|\[Hardware Error\]"
    r"|Out of memory: |oom-kill|No space left|emergency mode"
    r"|I/O error|EXT4-fs error|EXT4-fs \([\w-]+\): (?:error|Remounting)|XFS \([\w-]+\): "
    r"(?:Corruption|Internal error|.{0,80}[Ss]hut(?:ting)? ?down)|BTRFS (?:error|critical)"
    r"|nvme nvme\d+: (?:I/O .{0,80}timeout|Device not ready|controller is down)"
    r"|NVRM: .{0,120}(?:not supported|failed|Xid)"
)
"""What the kernel says when it is the reason."""

_FAILED: Final = re.compile(r"Failed to |Dependency failed ")
"""What systemd says of a unit; often it is no matter."""

_STATUS: Final = re.compile(r"\[  OK  \]|\[ *\*+ *\]|\[ INFO \]")
"""systemd's own lines on the console, and `_INDENTED_STATUS`."""
_INDENTED: Final = re.compile(r"(?:\x1b\[[\d;]{0,20}m)*(?:[\w.-]{1,64} login: ?)? {6,}")
_INDENTED_STATUS: Final = re.compile(
    r"(?:Starting|Stopping|Mounting|Unmounting|Activating|Deactivating|Expecting) "
)

_SHUTDOWN: Final = re.compile(
    r"Powering off|Rebooting|The system (?:is going down|will (?:power off|reboot|halt))"
    r"|Broadcast message from|Welcome to .{1,60}!$"
    r"|\S+ login:|(?:Ubuntu|Debian|Amazon Linux|Red Hat).* tty\w+$"
)
"""What comes from no program: of a shutdown, systemd's greeting, and the login prompt."""

_CLOUD_INIT: Final = re.compile(
    r"Cloud-init (?:v\.|\S* ?received SIGTERM)|(?:Filename|Function|Line number): |ci-info: "
    r"|(?:<\d+>)?[A-Z][a-z]{2} [ \d]\d [\d:]{8} (?:ec2|cloud-init): "
    r"|-----(?:BEGIN|END) SSH HOST KEY|(?:ssh-(?:ed25519|rsa|dss)|ecdsa-sha2-\S+) AAAA"
    r"|Generating public/private |Your (?:identification|public key) has been saved"
    r"|The key(?:'s randomart image is|\sfingerprint is)|SHA256:|\+-*\[|\+-+\+|\|[^|]{17}\|$"
)
"""cloud-init's own progress, network tables and keys: matched at the beginning, as all of these."""


class _Rank(IntEnum):
    """What is shown first."""

    FAILURE = 0
    """Ours: why user-data or a unit powers off, and errors of the agent."""
    GRAVE = 1
    """The kernel's."""
    WARNING = 2
    """The agent's, and what it has printed outside its log, such as the end of a traceback."""
    OURS = 3
    OTHER = 4


def last_lines(text: str, lines: int = MAX_LINES, width: int = MAX_LINE) -> tuple[str, ...]:
    """The newest lines that may say why, oldest first.

    The newest failure that is ours and the newest grave line of the kernel are among them; then
    other such lines, what else the agent says, and any other line. Empty if nothing but known noise
    is there. Takes some milliseconds for `READ_CHARACTERS`, and tens for hostile ones.
    """
    found: dict[_Rank, list[tuple[int, str]]] = {rank: [] for rank in _Rank}
    end = re.split(r"[\r\n]+", text[-READ_CHARACTERS:])[-READ_LINES:]
    for number in range(len(end) - 1, -1, -1):
        raw = end[number][:READ_LINE]
        said, rank = _said(without_escapes(raw), is_indented=_INDENTED.match(raw) is not None)
        if said and len(found[rank]) < lines:
            found[rank].append((number, said if len(said) <= width else f"{said[: width - 1]}…"))
    failures, grave = found[_Rank.FAILURE], found[_Rank.GRAVE]
    reasons = [*failures[:1], *grave[:1], *sorted([*failures[1:], *grave[1:]], reverse=True)]
    rest = (each for rank in _Rank if rank >= _Rank.WARNING for each in found[rank])
    return tuple(line for _, line in sorted([*reasons, *rest][:lines]))


def _said(line: str, *, is_indented: bool) -> tuple[str, _Rank]:
    """What a line says, without its prefixes, and how much it matters; empty for noise."""
    prefix = _PREFIX.match(line)
    begin = prefix.end() if prefix else 0
    writer = (prefix and prefix["writer"]) or ""
    said = line[begin:].strip()
    if not any(map(str.isalnum, said)):
        return "", _Rank.OTHER
    if said.startswith(MARK):
        return said, _Rank.FAILURE
    if _AGENT.fullmatch(writer) or _is_ours(said):
        return _of_agent(said, is_record_end=not line[begin:].startswith(" "))
    if _GRAVE.search(said):
        return said, _Rank.GRAVE
    is_kernels = bool(prefix and prefix["stamp"]) and not writer
    return ("" if is_kernels or _is_noise(said, writer, is_indented) else said), _Rank.OTHER


def _is_ours(said: str) -> bool:
    record = _RECORD.match(said)
    return record is not None and record["logger"].partition(".")[0] == "ec2spawner"


def _of_agent(said: str, *, is_record_end: bool) -> tuple[str, _Rank]:
    """A record of its log, without time and logger, or a line of another form."""
    if record := _RECORD.match(said):
        level = record["level"]
        rank = _Rank.WARNING if level == "WARNING" else _Rank.OURS
        rank = _Rank.FAILURE if level in ("ERROR", "CRITICAL") else rank
        return said[record.end() :].strip(), rank
    is_summary = is_record_end and not _TRACEBACK.match(said)
    return said, _Rank.WARNING if is_summary else _Rank.OTHER


def _is_noise(said: str, writer: str, is_indented: bool) -> bool:
    """What a boot or a shutdown prints in any case. What applications print is never noise."""
    if writer.startswith("systemd"):
        return not _FAILED.match(said)
    if writer:
        return writer == "cloud-init" and _CLOUD_INIT.match(said) is not None
    is_status = _STATUS.match(said) or (is_indented and _INDENTED_STATUS.match(said))
    return bool(is_status or _SHUTDOWN.match(said) or _CLOUD_INIT.match(said))


def quoted(text: str) -> str:
    """A sentence for the end of a message; empty if the log has no such line."""
    lines = last_lines(text)
    return f"The end of its boot log: {' / '.join(lines)}" if lines else ""
