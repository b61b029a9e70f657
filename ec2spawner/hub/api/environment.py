"""The environment of a notebook server, with the addresses at which it reaches the hub."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.sleep.rules import SleepRules
from ..app.api_address import reachable_api_url
from ..app.service import HubService
from ..spawn.sleep_choice import sleep_environment
from . import server_end

if TYPE_CHECKING:
    from jupyterhub.spawner import Spawner


def notebook_environment(
    spawner: Spawner, running: HubService, sleep: SleepRules
) -> tuple[dict[str, str], str]:
    """The notebook's environment, and the hub's API as agents reach it."""
    environment: dict[str, str] = {**spawner.get_env(), **sleep_environment(sleep)}
    secret = spawner.user.settings["cookie_secret"]
    environment[server_end.ADDRESS] = server_end.address(
        spawner.hub.base_url, secret, spawner.lease_id
    )
    own = environment["JUPYTERHUB_API_URL"]
    reachable = reachable_api_url(own, running.options)
    if running.authority is not None:
        # A notebook with certificates trusts only JupyterHub's own authorities.
        return environment, reachable
    for name in ("JUPYTERHUB_API_URL", "JUPYTERHUB_ACTIVITY_URL"):
        environment[name] = environment[name].replace(own, reachable, 1)
    return environment, reachable
