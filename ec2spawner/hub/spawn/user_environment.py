"""The environment of a user's servers, for what else runs on the user's behalf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HUB_VARIABLES: Final = ("JUPYTERHUB_", "JPY_", "EC2SPAWNER_")
"""Prefixes of what JupyterHub and this spawner give to servers: workers and runs get neither tokens
nor addresses of the hub."""


def without_hub_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What admins and hooks have set for servers."""
    return {
        name: value for name, value in environment.items() if not name.startswith(HUB_VARIABLES)
    }
