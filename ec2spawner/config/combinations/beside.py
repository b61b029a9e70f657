"""JupyterHub's own options that decide with ours whether something works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JupyterHubOptions:
    """What the file says beside our own options. None is unknown."""

    start_timeout: float | None = None
    """`c.EC2Spawner.start_timeout` in seconds."""
    allow_named_servers: bool | None = None
    max_servers: int = 0
    """`c.JupyterHub.active_server_limit`; 0 is no limit."""
