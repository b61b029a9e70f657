"""The end of a boot log is the instance's own text, and is shown to people."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.text import boot_log, untrusted
from ec2spawner.core.text.boot_log import (
    MAX_LINE,
    MAX_LINES,
    READ_CHARACTERS,
    READ_LINES,
    last_lines,
    quoted,
)
from ec2spawner.embedded.runtime import console

LOG = """\
[    0.000000] Linux version 6.8.0
[   12.345678] cloud-init[1234]: Get:1 http://archive.ubuntu.com noble InRelease
\x1b[0;1;31m[   13.000000] cloud-init[1234]: E: Unable to locate package nvidia-driver\x1b[0m

[   14.000000] cloud-init[1234]: ec2spawner: installing failed; this instance powers off\r
-----------------------
"""


def test_the_last_meaningful_lines_without_decoration() -> None:
    assert last_lines(LOG, 2) == (
        "E: Unable to locate package nvidia-driver",
        "ec2spawner: installing failed; this instance powers off",
    )
    assert quoted(LOG).endswith(" / ec2spawner: installing failed; this instance powers off")
    assert quoted("") == quoted("\n---\n") == ""


BOOT = "\n".join(console.boot_lines("i-0123456789", "10.0.0.7"))
CLOUD_INIT_END = "\n".join(console.cloud_init_end_lines("i-0123456789", "10.0.0.7"))
POWER_OFF = "\n".join(console.shutdown_lines(reboot=False))


@pytest.mark.parametrize(
    "line", f"{BOOT}\n{CLOUD_INIT_END}\n{POWER_OFF}\n".splitlines(), ids=lambda line: line[-40:]
)
def test_what_every_boot_prints_says_nothing(line: str) -> None:
    assert last_lines(line) == ()


def test_our_own_lines_come_before_all_others() -> None:
    log = f"""{BOOT}
[   13.000000] cloud-init[1187]: ec2spawner: installing failed: no space
[   14.000000] ec2spawner-agent[812]: 2026-11-22 15:04:05,678 INFO ec2spawner.agent.agent: lease 7
[   14.500000] ec2spawner-agent[812]: RuntimeError: the last line of a traceback
{"".join(f"[   15.000000] dockerd[99]: noise number {number}{chr(10)}" for number in range(99))}
{CLOUD_INIT_END}
{POWER_OFF}"""
    assert last_lines(log) == (
        "ec2spawner: installing failed: no space",
        "lease 7",
        "RuntimeError: the last line of a traceback",
    )


def test_other_lines_fill_up_and_all_are_in_their_order() -> None:
    log = f"""[   12.0] cloud-init[1187]: first
[   13.0] cloud-init[1187]: ec2spawner: second
[   14.0] dockerd[99]: third
[   15.0] cloud-init[1187]: fourth
{POWER_OFF}"""
    assert last_lines(log) == ("ec2spawner: second", "third", "fourth")


def test_a_grave_line_of_the_kernel_comes_before_what_the_agent_says_of_its_progress() -> None:
    record = "[  20.0] ec2spawner-agent[9]: 2026-11-22 15:04:05,678 INFO ec2spawner.agent: {}"
    oom = "[  20.0] Out of memory: Killed process 812 (python3)"
    log = "\n".join([oom, *map(record.format, range(1, 9))])
    assert last_lines(log) == ("Out of memory: Killed process 812 (python3)", "7", "8")


def test_our_failure_and_the_kernels_are_both_shown() -> None:
    """Each of the two may come in numbers: an I/O error repeats, and so do calls that fail.

    The newest of them are shown.
    """
    ours = "[  20.0] cloud-init[7]: ec2spawner: installing x failed"
    error = "[  {}.0] EXT4-fs error (device nvme0n1p1): ext4_find_entry:1463: inode #2"
    log = "\n".join([ours, *(error.format(number) for number in range(21, 29)), POWER_OFF])
    assert last_lines(log)[0] == "ec2spawner: installing x failed"
    record = "[  20.0] ec2spawner-agent[9]: 2026-11-22 15:04:05,678 ERROR ec2spawner.agent: call {}"
    log = "\n".join([error.format(20), *(record.format(number) for number in range(21, 29))])
    grave, *newest = last_lines(log)
    assert grave.startswith("EXT4-fs error")
    assert newest == ["call 27", "call 28"]


TRACEBACK = """\
2026-11-22 15:04:05,678 ERROR ec2spawner.agent.agent: the agent failed: OSError('no'); powering off
Traceback (most recent call last):
  File "/opt/ec2spawner/lib/python3.12/site-packages/ec2spawner/agent/agent.py", line 60, in run
    await self._run_leases()
ConnectionError: 1

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/ec2spawner/lib/python3.12/site-packages/ec2spawner/agent/agent.py", line 60, in run
    await self._run_leases()
    ^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: 2
During handling of the above exception, another exception occurred:
KeyError: 3
OSError: no
"""


def test_why_the_agent_failed_is_shown_before_its_traceback() -> None:
    lines = [f"[  20.0] ec2spawner-agent[9]: {line}" for line in TRACEBACK.splitlines()]
    found = last_lines("\n".join([BOOT, *lines, POWER_OFF]))
    assert found == ("the agent failed: OSError('no'); powering off", "KeyError: 3", "OSError: no")


@pytest.mark.parametrize(
    "said",
    [
        "Starting the model server failed",
        "Started with errors",
        "Closed by the remote side",
        "Watchdog: no answer",
        "Welcome to nowhere",
        "Powering off the pump",
        "Reached target 3 of 5",
    ],
)
@pytest.mark.parametrize("prefix", ["[  20.0] server[7]: ", "[  20.0] cloud-init[7]: "])
def test_what_an_application_prints_is_no_noise(prefix: str, said: str) -> None:
    assert last_lines(f"{BOOT}\n{prefix}{said}\n{POWER_OFF}") == (said,)


def test_a_line_of_an_application_without_a_prefix_is_no_noise() -> None:
    for said in ("Starting the server", "Closed", "Started"):
        assert last_lines(f"{said}\nip-10-0-0-7 login: {said}\n") == (said, said)
    assert last_lines("ip-10-0-0-7 login:          Starting cloud-final.service - It...\n") == ()


@pytest.mark.parametrize(
    "line",
    [
        "[  99.123456] Kernel panic - not syncing: Attempted to kill init!",
        "[  99.123456] Out of memory: Killed process 812 (python3)",
        "[  99.123456] EXT4-fs error (device nvme0n1p1): ext4_find_entry:1463: inode #2: reading",
        "[  99.123456] XFS (nvme1n1): Metadata I/O Error (0x1) detected. Shutting down filesystem.",
        "[  99.123456] nvme nvme1: I/O 42 QID 3 timeout, aborting",
        "[  99.123456] systemd[1]: Failed to start ec2spawner-agent.service",
        "[  99.123456] NVRM: The NVIDIA GPU 0000:00:1e.0 (PCI ID: 10de:1db1) not supported",
        "\x1b[0m[\x1b[0;1;31mFAILED\x1b[0m] Failed to start ec2spawner-agent.service",
    ],
)
def test_a_grave_line_of_kernel_and_systemd_is_shown(line: str) -> None:
    assert len(last_lines(f"{line}\n{POWER_OFF}")) == 1


hostile = st.text(
    st.characters() | st.sampled_from("\x1b[]m\x07\r\n\t\x9b\u202e\u2066 "), max_size=400
)


@given(text=hostile)
def test_any_boot_log_is_bounded_and_without_control_sequences(text: str) -> None:
    lines = last_lines(text)
    assert len(lines) <= MAX_LINES
    for line in lines:
        assert 0 < len(line) <= MAX_LINE
        assert not [char for char in line if unicodedata.category(char)[0] == "C"]


@pytest.mark.parametrize("junk", ["x" * 64, ";\n", "\x1b", "\x1b[0", "\u202e", "\x01\r", " \t"])
def test_only_the_end_of_a_long_log_is_searched(monkeypatch: pytest.MonkeyPatch, junk: str) -> None:
    """The hub's event loop waits for it: so many characters are read, and so many lines."""
    read: list[str] = []

    def without_escapes(line: str) -> str:
        read.append(line)
        return untrusted.without_escapes(line)

    monkeypatch.setattr(boot_log, "without_escapes", without_escapes)
    last_lines(f"lost\n{junk * 65536}")
    assert sum(map(len, read)) <= READ_CHARACTERS
    assert len(read) <= READ_LINES


def test_a_long_line_is_cut_and_a_huge_log_is_handled() -> None:
    [line] = last_lines("x" * 10_000_000)
    assert len(line) == MAX_LINE
    assert line.endswith("…")


def test_our_line_counts_behind_a_login_prompt_and_before_a_stack_of_cloud_init() -> None:
    """As a real boot prints it: getty ends its prompt in no newline, and the power-off ends
    cloud-init, which prints where it was."""
    log = """\
ip-172-31-0-10 login: [40113.824582] cloud-init[124]: ec2spawner: installing x failed: no wheel
[40114.000001] cloud-init[124]: Cloud-init 22.4.2 received SIGTERM, exiting...
  Filename: /usr/lib/python3/dist-packages/cloudinit/helpers.py
  Function: lock
  Line number: 70
"""
    assert last_lines(log) == ("ec2spawner: installing x failed: no wheel",)
