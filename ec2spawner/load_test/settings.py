"""What each simulated user does, and where: the command gives it to the child."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

SETTINGS: Final = "EC2SPAWNER_LOAD_TEST"
"""Environment variable with `Settings` as JSON."""

PASSWORD: Final = "EC2SPAWNER_LOAD_TEST_PASSWORD"  # noqa: S105 - a variable
"""Environment variable with the password that all users log in with."""

TOKEN: Final = "JUPYTERHUB_API_TOKEN"  # noqa: S105 - a variable
"""Environment variable with an admin's token, as for `ec2spawner interrupt`."""


def _base(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ValueError("name the hub as https://hub.example.org/")
    path = parts.path.rstrip("/").removesuffix("/hub")
    return f"{parts.scheme}://{parts.netloc}{path}/"


class Settings(BaseModel):
    """Of one load test. Durations are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: Annotated[str, AfterValidator(_base)]
    """Of the hub's pages without `hub/`, with a slash at the end."""
    login: Literal["password", "token"] = "password"
    users: int = Field(default=0, ge=0)
    """After so many have left, the test is over; 0: locust's own options decide."""
    prefix: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$")] = "load"
    """Users are called `PREFIX-0001` and so on."""
    choices: Mapping[str, str] = {}
    """Fields of the start's form, such as `profile`."""
    cells: int = Field(default=5, ge=0, le=100_000)
    cell_every: float = Field(default=5.0, ge=0, le=3600)
    """From the end of one cell to the next."""
    idle: float = Field(default=30.0, ge=0, le=86_400)
    """After the last cell, until the user stops the server."""
    start_timeout: float = Field(default=1200.0, gt=0, le=7200)
    stop_timeout: float = Field(default=300.0, gt=0, le=3600)
    folder: str = ""
    """Where the child writes samples and the journal of servers; empty: nowhere."""

    def seconds_used(self) -> float:
        """How long a server is used, from ready to its stop, if cells take no time."""
        return self.cells * self.cell_every + self.idle

    def names(self, worker: int = 0) -> str:
        """The prefix of the users of one of locust's workers, counted from 1; 0: the only one."""
        return f"{self.prefix}-w{worker}" if worker else self.prefix
