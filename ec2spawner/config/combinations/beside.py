"""JupyterHub's own options that decide with ours whether something works."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import Options
from ..problem import Problem


@dataclass(frozen=True, slots=True)
class GroupOverride:
    """An entry of `group_overrides`."""

    option: str
    """Such as `c.EC2Spawner.group_overrides["1-lab"]`."""
    options: Options | None = None
    """Options of the members; None where they are invalid. What a function decides is a function
    here, too."""
    changed: frozenset[str] = frozenset()
    """Names of the options that have other values in it."""
    problems: tuple[Problem, ...] = ()
    """Problems of the entry itself."""


@dataclass(frozen=True, slots=True)
class JupyterHubOptions:
    """The options of the file beside our own. None is unknown."""

    start_timeout: float | None = None
    """`c.EC2Spawner.start_timeout` in seconds."""
    allow_named_servers: bool | None = None
    max_servers: int = 0
    """`c.JupyterHub.active_server_limit`; 0 is no limit."""
    group_overrides: tuple[GroupOverride, ...] = ()
