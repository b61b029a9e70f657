"""The hub's own `jupyterhub_config.py`, loaded as JupyterHub loads it, without starting a hub."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlparse

from jupyterhub.app import JupyterHub
from traitlets import HasTraits, TraitError
from traitlets.config import Configurable

from ..config import JupyterHubOptions, Options, Problem, ineffective
from .finding import Finding, failed, warning
from .topics import Topic
from .unread_options import unread_options, unreadable_options

HUB_API_URL = "c.EC2Spawner.hub_api_url"
SPAWNER_CLASS = "c.JupyterHub.spawner_class"
USE_OURS = f'{SPAWNER_CLASS} = "ec2"'

EVERY_ADDRESS = frozenset({None, "*", "0.0.0.0", "::"})  # noqa: S104 - read, not bound


class ConfigurationBroken(Exception):
    """What was asked for cannot be done before this is fixed."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("; ".join(finding.said for finding in findings))
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class HubConfig:
    """What the file says."""

    options: Options
    """As far as they can be followed: what cannot has its default."""
    api_url: str
    """The hub's API as instances reach it."""
    address_option: str
    """The option that decides about its host and port."""
    api_path: str
    bind_ip: str
    """Where the hub listens; empty is every address."""
    bind_port: int
    max_servers: int
    """`c.JupyterHub.active_server_limit`; 0 is no limit."""
    problems: tuple[Problem, ...] = ()
    """What keeps a hub from starting with this configuration."""
    unsound: frozenset[str] = frozenset()
    """Names of options that cannot be followed, and of those that do not exist."""
    unread: tuple[Finding, ...] = ()
    """Options of JupyterHub's classes that the file sets and nothing reads."""
    ineffective: tuple[Problem, ...] = ()
    """Options that have no effect beside others, as far as the configuration shows it."""
    beside: JupyterHubOptions = field(default_factory=JupyterHubOptions)
    """JupyterHub's own options that decide with ours whether something works."""

    @property
    def findings(self) -> list[Finding]:
        """A failure for each invalid option, and a warning for each that has no effect."""
        return [
            *(failed(Topic.OPTION, p.wrong, p.fix, name=p.option) for p in self.problems),
            *self.unread,
            *(warning(Topic.OPTION, p.wrong, p.fix, name=p.option) for p in self.ineffective),
        ]

    @property
    def address_is_known_bad(self) -> bool:
        """Whether the hub's address is among the problems, so that calling it proves nothing."""
        return any(p.option in (self.address_option, HUB_API_URL) for p in self.problems)

    def require(self, *names: str) -> Options:
        """The options, for a command that needs no others than these.

        Raises `ConfigurationBroken` where one of them cannot be followed, and where an option does
        not exist: it may be one of them, misspelt.
        """
        blocking = self.unsound & set(names) | self.unsound - set(Options.model_fields)
        found = [p for p in self.problems if _name(p.option) in blocking]
        if found:
            raise ConfigurationBroken(
                [failed(Topic.OPTION, p.wrong, p.fix, name=p.option) for p in found]
            )
        return self.options


def _name(option: str) -> str:
    """`profile_list` of `c.EC2Spawner.profile_list[0].gpu ("T4")`."""
    found = re.match(r"c\.EC2Spawner\.(\w+)", option)
    return found[1] if found else ""


def load(path: Path, arguments: Sequence[str] = ()) -> HubConfig:
    """The configuration that `jupyterhub --config=path arguments...` would start with.

    Raises `ConfigurationBroken` where it cannot be read at all, or is of another spawner.
    """
    if not path.is_file():
        fix = "run this where the hub is started, or say --config=/etc/jupyterhub/..."
        what = "is a folder, not a file" if path.is_dir() else "does not exist"
        raise ConfigurationBroken([failed(Topic.CONFIGURATION, f"{path} {what}", fix)])
    app = JupyterHub(log_level=logging.CRITICAL)
    app.log.disabled = True  # what is wrong is said in our findings
    # Standard output is for what we say: the file may print.
    with redirect_stdout(sys.stderr):
        _take_arguments(app, arguments)
        try:
            app.load_config_file(str(path.resolve()))
        except (Exception, SystemExit) as error:
            # The file is Python: whatever an admin's code raises is a finding.
            raise ConfigurationBroken([_unreadable(path, error)]) from error
        return _checked(app)


def _take_arguments(app: JupyterHub, arguments: Sequence[str]) -> None:
    """Raises `ConfigurationBroken`, also for what JupyterHub would merely warn about."""
    fix = "fix or remove that option; JupyterHub's are listed by jupyterhub --help-all"
    known = {*_words(app.aliases), *_words(app.flags)}
    for argument in arguments:
        word = argument.partition("=")[0].lstrip("-")
        if argument.startswith("-") and "." not in word and word not in known:
            said = f"there is no option {argument}"
            raise ConfigurationBroken([failed(Topic.COMMAND_LINE, said, fix)])
    said_by_parser = io.StringIO()
    try:
        with redirect_stderr(said_by_parser):
            app.parse_command_line(list(arguments))
    except (Exception, SystemExit) as error:
        said = said_by_parser.getvalue().strip().rpartition("error: ")[2] or str(error)
        raise ConfigurationBroken([failed(Topic.COMMAND_LINE, said, fix)]) from error


def _words(names: Iterable[str | tuple[str, ...]]) -> list[str]:
    """traitlets gives several words for one thing as a tuple."""
    return [word for name in names for word in ((name,) if isinstance(name, str) else name)]


def _unreadable(path: Path, error: BaseException) -> Finding:
    # JupyterHub logs what is wrong with an option of its own, and exits.
    if isinstance(error, SystemExit) and isinstance(error.__context__, TraitError):
        error = error.__context__
    if isinstance(error, TraitError) and (found := re.match(r"The '(\w+)' trait of", str(error))):
        name = f"c.JupyterHub.{found[1]}"
        if name == SPAWNER_CLASS:
            return failed(Topic.OPTION, str(error).rpartition(", but ")[2], USE_OURS, name=name)
        return failed(Topic.OPTION, str(error), "correct that option", name=name)
    line = f", line {error.lineno}" if isinstance(error, SyntaxError) else _line_in(path, error)
    return failed(
        Topic.CONFIGURATION, f"{path}{line}: {type(error).__name__}: {error}", "fix it in that file"
    )


def _line_in(path: Path, error: BaseException) -> str:
    """Where in the admin's file the error came from."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).name == path.name:
            line = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    return line


def _checked(app: JupyterHub) -> HubConfig:
    from ..hub.app.api_address import api_address, api_path
    from ..hub.app.service import utc_now
    from ..hub.configuration import beside, judge
    from ..spawner import EC2Spawner

    unread = unread_options(app.config, _classes(app, EC2Spawner))
    try:
        if not issubclass(app.spawner_class, EC2Spawner):
            wrong = f"is {app.spawner_class.__name__}, so ec2spawner is not used"
            raise ConfigurationBroken(
                [failed(Topic.OPTION, wrong, USE_OURS, name=SPAWNER_CLASS), *unread]
            )
        if unreadable := unreadable_options(app.config, app.spawner_class):
            raise ConfigurationBroken([*unreadable, *unread])
        app.init_hub()
        judged = judge(app)
    except TraitError as error:
        raise ConfigurationBroken(
            [failed(Topic.CONFIGURATION, str(error), "correct that option")]
        ) from error
    address = api_address(app, judged.options)
    hub = beside(app, judged.options)
    # What an option that cannot be followed does beside others is unknown.
    found = () if judged.unsound else ineffective(judged.options, hub, utc_now())
    bind = urlparse(app.hub.bind_url)
    return HubConfig(
        judged.options,
        address.url,
        address.option,
        api_path(app),
        "" if bind.hostname in EVERY_ADDRESS else str(bind.hostname),
        bind.port or app.hub.port,
        app.active_server_limit,
        judged.problems,
        judged.unsound,
        tuple(unread),
        found,
        hub,
    )


def _classes(app: JupyterHub, spawner: type[Configurable]) -> list[type[HasTraits]]:
    """All that read options of the file when this hub starts, and our spawner."""
    configured = [app.spawner_class, app.authenticator_class, app.proxy_class]
    return [type(app), *app.classes, *configured, spawner]
