"""The agents of the embedded EC2's instances, and how slowly those write."""

from __future__ import annotations

from pathlib import Path

from tests.harness import Embedded


def home_on(embedded: Embedded, instance_id: str) -> Path:
    """The home that an instance has mounted."""
    return embedded.data_dir / "ec2/instances" / instance_id / "home/jovyan"


async def agent_of(embedded: Embedded, instance_id: str) -> int | None:
    """Process id of the instance's agent, which may have forked its notebook; None without one."""
    pids = [
        process["pid"]
        for each in await embedded.instances()
        if each["instance_id"] == instance_id
        for process in each["processes"]
    ]
    return min(filter(_is_agent, pids), default=None)


def _is_agent(pid: int) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return len(arguments) > 1 and arguments[1].endswith(b"/ec2spawner-agent")


def make_syncs_slow(embedded: Embedded, wait: str) -> None:
    """Let each `sync` on an instance first wait by this line of bash."""
    shims = embedded.data_dir / "ec2" / "shims"
    (shims / "sync").rename(shims / "sync-at-once")
    (shims / "sync").write_text(f'#!/bin/bash\n{wait}\nexec "${{0%/*}}/sync-at-once" "$@"\n')
    (shims / "sync").chmod(0o755)
