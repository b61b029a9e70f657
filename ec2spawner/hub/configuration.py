"""The options of `c.EC2Spawner` beside JupyterHub's own, as the hub and `ec2spawner check` read
them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jupyterhub.app import JupyterHub

from ..config import (
    ConfigError,
    Judged,
    JupyterHubOptions,
    Options,
    bundled_prices,
    ineffective,
    judge_options,
    priced,
)
from .app import api_address, internal_ssl
from .app.service import utc_now
from .spawn.group_overrides import group_overrides

log = logging.getLogger(__name__)


def validate(app: JupyterHub) -> Options:
    """The hub's options, all checked. Raises `ConfigError`; logs what has no effect, which
    `ec2spawner check` warns of."""
    judged = judge(app)
    if judged.problems:
        raise ConfigError(judged.problems)
    options, hub, now = judged.options, beside(app, judged.options), utc_now()
    known = bundled_prices(options)
    for problem in (*ineffective(options, hub, now), *priced(options, hub, known, now)):
        log.warning("%s", problem)
    return options


def judge(app: JupyterHub) -> Judged:
    """The hub's options, and every problem with them and with the hub's address."""
    judged = judge_options(configured(app), cleanup_servers=app.cleanup_servers)
    if judged.unsound & {"endpoint_url", "hub_api_url"}:
        return judged
    found = internal_ssl.problems(app, judged.options) if app.internal_ssl else []
    # If instances cannot reach the hub for two reasons, only the first is reported.
    found = found or api_address.problems(app, judged.options)
    return replace(judged, problems=(*judged.problems, *found))


def configured(app: JupyterHub) -> Mapping[str, Any]:
    """Everything under `c.EC2Spawner`, from file or command line, including misspelt names."""
    probe = app.spawner_class(config=app.config)
    raw = {name: getattr(probe, name) for name in Options.model_fields}
    written = app.config.get("EC2Spawner", {})
    return raw | {name: written[name] for name in written if not probe.has_trait(name)}


def beside(app: JupyterHub, options: Options) -> JupyterHubOptions:
    """JupyterHub's own options that decide with `options` whether something works."""
    probe = app.spawner_class(config=app.config)
    return JupyterHubOptions(
        start_timeout=probe.start_timeout,
        allow_named_servers=app.allow_named_servers,
        max_servers=app.active_server_limit or 0,
        group_overrides=tuple(group_overrides(probe, options)),
    )
