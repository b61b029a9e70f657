"""What the hub needs on its own machine. Nothing is written, and nothing is run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import URL, make_url

from ..aws.identity import IdentitySetupError, find_openssl, pinned_certificates
from ..config import Options
from ..provisioner.store_database import StoreError
from ..provisioner.store_postgresql import PostgreSQL
from .finding import Finding, failed, ok


def judge_machine(options: Options) -> list[Finding]:
    """As the user who runs the check, in the directory where it is run."""
    return [
        judge_openssl(),
        judge_certificates(options.region, options.identity_certificates),
        judge_store(options.store_url),
    ]


def judge_openssl() -> Finding:
    try:
        return ok("openssl", find_openssl())
    except IdentitySetupError:
        return failed(
            "openssl",
            "the program is not on the PATH: instances could not prove who they are",
            "install it, such as by apt-get install openssl",
        )


def judge_certificates(region: str, extra: Sequence[str]) -> Finding:
    """Those whose signatures on identity documents count."""
    name = "identity certificates"
    try:
        found = pinned_certificates(region, map(Path, extra))
    except IdentitySetupError as error:
        mend = (
            "name a readable file with the region's RSA-2048 certificate, from AWS's "
            "documentation, in c.EC2Spawner.identity_certificates"
        )
        return failed(name, str(error), mend)
    return ok(name, ", ".join(path.name for path in found))


def judge_store(url: str) -> Finding:
    """Whether the store can be made or opened."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        return _judge_server(parsed)
    return _judge_file(parsed.database)


def _judge_server(url: URL) -> Finding:
    try:
        return ok("store", PostgreSQL(url).look())
    except StoreError as error:
        said, _, mend = str(error).rpartition(": ")
        return failed("store", said, f"{mend} (c.EC2Spawner.store_url)")


def _judge_file(database: str | None) -> Finding:
    """SQLite writes beside its file, too."""
    name, option = "store", "c.EC2Spawner.store_url"
    if database in (None, "", ":memory:"):
        said = "it is in memory: a restarted hub would not know its servers and homes"
        return failed(name, said, f'{option} = "sqlite:////srv/jupyterhub/ec2spawner.sqlite"')
    path = Path(str(database)).absolute()
    folder = path.parent
    if not folder.is_dir():
        return failed(name, f"there is no folder {folder}", f"make it, or mend {option}")
    if path.is_dir():
        return failed(name, f"{path} is a folder", f"name a file in {option}")
    for needed in (folder, path):
        if needed.exists() and not os.access(needed, os.R_OK | os.W_OK):
            mend = f"let the user who runs the hub read and write it, or mend {option}"
            return failed(name, f"{needed} cannot be written by this user", mend)
    return ok(name, f"{path}{'' if path.exists() else ', made by the first start'}")
