"""How the journey's hub differs from the admin's: called by the configuration that it starts with.

All that decides whether instances start and reach the hub stays the admin's: region, subnets,
security groups, image, role, key, addresses and limits.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from ..aws import call_log

USER: Final = "first-light"

HUB_LOST_AFTER: Final = "2m"
"""Should this hub be killed, its idle instances power themselves off this soon."""


class HubSettings(BaseModel):
    """Passed to the hub's process in a file that only its user can read."""

    config: str
    """The admin's `jupyterhub_config.py`."""
    folder: str
    """Where this hub has its files."""
    url: str
    """Where its proxy listens, with the base URL."""
    proxy_api_url: str
    token: str
    """An administrator's API token."""
    profiles: list[dict[str, Any]]
    home_gib: int
    idle_seconds: float

    @property
    def calls(self) -> Path:
        """Every AWS call, one JSON object to a line."""
        return Path(self.folder) / "calls.jsonl"


def program(settings: Path) -> str:
    """The text of the hub's configuration file."""
    return (
        "import json\n"
        "from pathlib import Path\n"
        "from ec2spawner.first_light.overrides import HubSettings, override\n"
        f"settings = HubSettings.model_validate_json(Path({str(settings)!r}).read_text())\n"
        "load_subconfig(settings.config)\n"
        "override(get_config(), settings)\n"
    )


def override(c: Any, settings: HubSettings) -> None:
    """Change the loaded configuration `c`, and record the calls to AWS."""
    _spawner(c.EC2Spawner, settings)
    _hub(c, settings)
    handler = logging.FileHandler(settings.calls)
    handler.setFormatter(logging.Formatter("%(message)s"))
    calls = logging.getLogger(call_log.NAME)
    calls.addHandler(handler)
    calls.setLevel(logging.DEBUG)
    calls.propagate = False


def _spawner(spawner: Any, settings: HubSettings) -> None:
    spawner.store_url = f"sqlite:///{settings.folder}/ec2spawner.sqlite"
    spawner.profile_list = settings.profiles
    if _home_kind(spawner) == "ebs":
        spawner.home = {"kind": "ebs", "size_gib": settings.home_gib}
    idle, warn = settings.idle_seconds, settings.idle_seconds / 2
    # The agent's own start-up is no work of a user's, but a busy first minute may look like it.
    spawner.idle = {"server": idle, "warn": warn, "kernel": 0, "cpu_busy_percent": 100}
    spawner.idle_by_group, spawner.idle_hook = {}, None
    spawner.after_stop = "terminate"
    spawner.discounts = []
    spawner.hub_lost_after = HUB_LOST_AFTER


def _home_kind(spawner: Any) -> str:
    home = spawner.get("home", {})
    return str(home.get("kind", "ebs")) if hasattr(home, "get") else "ebs"


def _hub(c: Any, settings: HubSettings) -> None:
    folder = settings.folder
    c.JupyterHub.authenticator_class = "null"
    c.JupyterHub.db_url = f"sqlite:///{folder}/jupyterhub.sqlite"
    c.JupyterHub.cookie_secret_file = f"{folder}/jupyterhub_cookie_secret"
    c.JupyterHub.bind_url = settings.url
    c.JupyterHub.ssl_key = c.JupyterHub.ssl_cert = ""
    c.JupyterHub.proxy_class = "configurable-http-proxy"
    c.ConfigurableHTTPProxy.api_url = settings.proxy_api_url
    c.ConfigurableHTTPProxy.pid_file = f"{folder}/jupyterhub-proxy.pid"
    c.JupyterHub.cleanup_servers = False
    # A start answers at once, so that its progress can be followed from the beginning.
    tornado = c.JupyterHub.get("tornado_settings", {})
    c.JupyterHub.tornado_settings = {**tornado, "slow_spawn_timeout": 0}
    c.JupyterHub.load_groups, c.JupyterHub.custom_scopes = {}, {}
    c.JupyterHub.services = [{"name": USER, "api_token": settings.token}]
    scopes = ["admin:users", "admin:servers", "access:servers", "list:users", "shutdown"]
    c.JupyterHub.load_roles = [{"name": USER, "scopes": scopes, "services": [USER]}]


def write(settings: HubSettings) -> Path:
    """The configuration file of the hub, written beside its settings; both only for this user."""
    folder = Path(settings.folder)
    values, config = folder / "settings.json", folder / "jupyterhub_config.py"
    for path, text in ((values, settings.model_dump_json()), (config, program(values))):
        path.touch(mode=0o600)
        path.write_text(text)
    return config
