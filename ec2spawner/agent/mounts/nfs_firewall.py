"""Keeps users from speaking NFS themselves.

EFS takes calls from any port and believes the user id in them. A program of any user could
therefore read all homes of a file system through its mount target, or through the local end of the
TLS tunnel by which the agent mounts it. The kernel's own calls, which mounts make, have no user and
pass.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ..command import run
from .mount_points import MountError

FIREWALL_SECONDS: Final = 20.0

PORTS: Final = "2049,20049:21049"
"""TCP ports of NFS, and of the local ends of amazon-efs-utils's tunnels in its default
configuration."""

USERS: Final = "1-4294967294"
"""Every user id but root's, also those of the user's own namespaces."""

RULE: Final = (
    *("OUTPUT", "--protocol", "tcp", "--match", "multiport", "--destination-ports", PORTS),
    *("--match", "owner", "--uid-owner", USERS, "--jump", "REJECT"),
)

IPV6: Final = Path("/proc/net/if_inet6")
"""Exists where the kernel has IPv6."""


async def keep_users_from_nfs() -> None:
    """Reject NFS of all users but root, until the next boot. Raises `MountError`."""
    for program in ("iptables", *(["ip6tables"] if IPV6.exists() else [])):
        status, _ = await run(program, "--wait", "10", "--check", *RULE, seconds=FIREWALL_SECONDS)
        if status == 0:
            continue
        status, output = await run(
            program, "--wait", "10", "--insert", *RULE, seconds=FIREWALL_SECONDS
        )
        if status != 0:
            raise MountError(
                f"{program} does not keep users from speaking NFS to the file system, which would "
                f"open all homes to them: {output}. Please tell an admin: the image needs iptables"
            )
