"""What the hub needs on its own machine. Nothing is written, and nothing is run."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence, Set
from pathlib import Path

from sqlalchemy import URL, make_url

from ..aws.identity import IdentitySetupError, find_openssl, pinned_certificates
from ..config import Options
from ..provisioner.store.databases.database import StoreError
from ..provisioner.store.databases.postgresql import PostgreSQL
from .finding import Finding, failed, ok, warning
from .topics import Topic

DESCRIPTORS = 256
"""Of the hub's process without a server: 30 when it is idle; calls to AWS, databases, pages."""

DESCRIPTORS_PER_SERVER = 3
"""Its agent's held heartbeat, the next one while it takes over, and a call of its notebook."""

FEW_SERVERS = 100
"""A limit that is enough for fewer is worth a warning, whatever the hub's own limit."""

RAISE_LIMIT = "write LimitNOFILE=65536 into the [Service] section of the hub's systemd unit"


def judge_machine(
    options: Options, max_servers: int, unsound: Set[str] = frozenset()
) -> list[Finding]:
    """As the user who runs the check, in the directory where it is run.

    Without what depends on an option that is `unsound`, and so was reported already.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    findings = [
        judge_descriptors(None if soft == resource.RLIM_INFINITY else soft, max_servers),
        judge_openssl(),
    ]
    if not unsound & {"region", "identity_certificates"}:
        findings.append(judge_certificates(options.region, options.identity_certificates))
    if "store_url" not in unsound:
        findings.append(judge_store(options.store_url))
    return findings


def judge_descriptors(limit: int | None, max_servers: int) -> Finding:
    """Whether the hub can keep a connection to each server. `limit`: of open files, None without
    one; `max_servers`: `c.JupyterHub.active_server_limit`, 0 without one."""
    topic = Topic.OPEN_FILES
    if limit is None:
        return ok(topic, "no limit")
    enough_for = max((limit - DESCRIPTORS) // DESCRIPTORS_PER_SERVER, 0)
    said = f"the limit here is {limit}, which is enough for about {enough_for} servers"
    if max_servers > enough_for:
        said = f"{said}; c.JupyterHub.active_server_limit is {max_servers}"
        return warning(topic, said, RAISE_LIMIT)
    if enough_for < FEW_SERVERS and not max_servers:
        return warning(topic, said, RAISE_LIMIT)
    return ok(topic, said)


def judge_openssl() -> Finding:
    """Fails without `openssl`, which verifies identity documents."""
    try:
        return ok(Topic.OPENSSL, find_openssl())
    except IdentitySetupError:
        return failed(
            Topic.OPENSSL,
            "the program is not on the PATH: instances could not prove who they are",
            "install it, such as by apt-get install openssl",
        )


def judge_certificates(region: str, extra: Sequence[str]) -> Finding:
    """Those whose signatures on identity documents count."""
    topic = Topic.CERTIFICATES
    try:
        found = pinned_certificates(region, map(Path, extra))
    except IdentitySetupError as error:
        fix = (
            "name a readable file with the region's RSA-2048 certificate, from AWS's "
            "documentation, in c.EC2Spawner.identity_certificates"
        )
        return failed(topic, str(error), fix)
    return ok(topic, ", ".join(path.name for path in found))


def judge_store(url: str) -> Finding:
    """Whether the store can be made or opened."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        return _judge_server(parsed)
    return _judge_file(parsed.database)


def _judge_server(url: URL) -> Finding:
    try:
        return ok(Topic.STORE, PostgreSQL(url).probe())
    except StoreError as error:
        said, _, fix = str(error).rpartition(": ")
        return failed(Topic.STORE, said, f"{fix} (c.EC2Spawner.store_url)")


def _judge_file(database: str | None) -> Finding:
    """SQLite writes beside its file, too."""
    topic, option = Topic.STORE, "c.EC2Spawner.store_url"
    if database in (None, "", ":memory:"):
        said = "it is in memory: a restarted hub would not know its servers and homes"
        return failed(topic, said, f'{option} = "sqlite:////srv/jupyterhub/ec2spawner.sqlite"')
    path = Path(str(database)).absolute()
    folder = path.parent
    if not folder.is_dir():
        return failed(topic, f"there is no folder {folder}", f"make it, or correct {option}")
    if path.is_dir():
        return failed(topic, f"{path} is a folder", f"name a file in {option}")
    for needed in (folder, path):
        if needed.exists() and not os.access(needed, os.R_OK | os.W_OK):
            fix = f"let the user who runs the hub read and write it, or correct {option}"
            return failed(topic, f"{needed} cannot be written by this user", fix)
    return ok(topic, f"{path}{'' if path.exists() else ', made by the first start'}")
