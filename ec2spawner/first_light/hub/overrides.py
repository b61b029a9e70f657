"""How the journey's hub differs from the admin's: called by the configuration that it starts with.

All that decides whether instances start and reach the hub stays the admin's: region, subnets,
security groups, image, role, key, addresses and limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from jupyterhub.app import JupyterHub
from pydantic import BaseModel
from traitlets.config import Config
from traitlets.config.loader import LazyConfigValue
from traitlets.utils.importstring import import_item

from ...aws.calls import call_log
from ...own_proxy import OwnProxy

SERVICE: Final = "first-light"

HUB_LOST_AFTER: Final = "2m"
"""Should this hub be killed, its idle instances power themselves off this soon."""


class HubSettings(BaseModel):
    """Passed to the hub's process in a file that only its user can read."""

    config: str
    """The admin's `jupyterhub_config.py`."""
    arguments: list[str]
    """The admin's options on the command line: they count as if they were in the file."""
    folder: str
    """Where this hub has its files."""
    store_id: str
    """Id of its store, which all that it creates carries."""
    url: str
    """Where its proxy listens, with the base URL."""
    proxy_api_url: str
    token: str
    """An administrator's API token."""
    proxy_token: str
    user: str
    profiles: list[dict[str, Any]]
    subnets: list[str]
    home_gib: int
    idle_seconds: float

    @property
    def store_url(self) -> str:
        """The journey's own store: what carries its id was created by this journey."""
        return f"sqlite:///{self.folder}/ec2spawner.sqlite"

    @property
    def calls(self) -> Path:
        """Every AWS call of the hub, one JSON object to a line."""
        return Path(self.folder) / "calls-of-the-hub.jsonl"


def write(settings: HubSettings) -> Path:
    """The configuration file of the hub, written beside its settings; both only for this user."""
    folder = Path(settings.folder)
    values, config = folder / "settings.json", folder / "jupyterhub_config.py"
    for path, text in ((values, settings.model_dump_json()), (config, _program(values))):
        path.touch(mode=0o600)
        path.write_text(text)
    return config


def _program(settings: Path) -> str:
    """The text of the hub's configuration file."""
    return (
        "from pathlib import Path\n"
        "from ec2spawner.first_light.hub.overrides import HubSettings, override\n"
        f"settings = HubSettings.model_validate_json(Path({str(settings)!r}).read_text())\n"
        "load_subconfig(settings.config)\n"
        "override(get_config(), settings)\n"
    )


def override(c: Config, settings: HubSettings) -> None:
    """Change the loaded configuration `c`, and record the calls to AWS."""
    # On this hub's own command line, the admin's options would win over all that follows.
    typed = JupyterHub()
    typed.parse_command_line(list(settings.arguments))
    c.merge(typed.cli_config)
    for section in _sections(c):
        _spawner(c[section], settings)
    _hub(c, settings)
    call_log.record_to(settings.calls, settings.store_id)


def _sections(c: Config) -> Iterator[str]:
    """Sections of the spawner: its own class's may say more than `EC2Spawner`."""
    from ...spawner import EC2Spawner

    spawner = c.JupyterHub.get("spawner_class", "ec2")
    if isinstance(spawner, str) and "." in spawner:
        spawner = import_item(spawner)
    classes = spawner.__mro__ if isinstance(spawner, type) else [EC2Spawner]
    for each in classes:
        if issubclass(each, EC2Spawner):
            yield each.__name__


def _written(section: Any, name: str) -> dict[str, Any]:
    """A dict that the admin wrote, also where they only updated the default."""
    value = section.get(name, {})
    if isinstance(value, LazyConfigValue):
        value = value.get_value({})
    return dict(value) if isinstance(value, dict) else {}


def _spawner(spawner: Any, settings: HubSettings) -> None:
    spawner.store_url = settings.store_url
    spawner.profile_list = settings.profiles
    spawner.subnets = settings.subnets
    home = _written(spawner, "home")
    if home.get("kind", "ebs") == "ebs":
        home = {name: value for name, value in home.items() if name != "user_may_choose"}
        spawner.home = {**home, "size_gib": settings.home_gib}
    idle, warn = settings.idle_seconds, settings.idle_seconds / 2
    # The start of a server is no work of its user's, but it may look like it.
    spawner.idle = {"server": idle, "warn": warn, "kernel": 0, "cpu_busy_percent": 100}
    spawner.idle_by_group, spawner.idle_hook = {}, None
    spawner.payers, spawner.limits, spawner.alarms = {}, {}, []
    spawner.after_stop = "terminate"
    spawner.discounts, spawner.data_volumes = [], []
    spawner.capacity_reservations = {}
    spawner.hub_lost_after = HUB_LOST_AFTER
    spawner.start_timeout = 900


def _hub(c: Any, settings: HubSettings) -> None:
    hub, folder = c.JupyterHub, settings.folder
    hub.authenticator_class = "null"
    for section in ("Authenticator", "NullAuthenticator"):
        c[section].admin_users, c[section].allowed_users = set(), set()
        c[section].username_pattern = ""
    hub.db_url, hub.db_kwargs = f"sqlite:///{folder}/jupyterhub.sqlite", {}
    hub.cookie_secret_file = f"{folder}/jupyterhub_cookie_secret"
    hub.pid_file = hub.subdomain_host = hub.ssl_key = hub.ssl_cert = ""
    hub.bind_url = settings.url
    hub.proxy_class = OwnProxy
    proxy = c.ConfigurableHTTPProxy
    proxy.should_start, proxy.api_url = True, settings.proxy_api_url
    proxy.auth_token = settings.proxy_token
    proxy.command = "configurable-http-proxy"
    proxy.pid_file = f"{folder}/jupyterhub-proxy.pid"
    hub.cleanup_servers = False
    # A start answers at once, so that its progress can be followed from the beginning.
    hub.tornado_settings = {**_written(hub, "tornado_settings"), "slow_spawn_timeout": 0}
    hub.load_groups, hub.custom_scopes = {}, {}
    hub.services = [{"name": SERVICE, "api_token": settings.token}]
    scopes = ["admin:users", "admin:servers", "access:servers", "list:users", "shutdown"]
    hub.load_roles = [{"name": SERVICE, "scopes": scopes, "services": [SERVICE]}]
