"""One file for a bug report: calls, answers, logs, console and journal, redacted."""

from __future__ import annotations

import getpass
import json
import os
import platform
import socket
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from .hub.overrides import HubSettings
from .redaction import SECRET, Redaction

MAX_BYTES: Final = 8 << 20
"""Bytes of one log that the bundle takes, from its end."""

PACKAGES: Final = ("ec2spawner", "jupyterhub", "boto3", "botocore", "tornado", "traitlets")

README: Final = """\
Written by `ec2spawner first-light`, to attach to a bug report.

Account numbers, addresses, keys, tokens, names of users and hosts were replaced. No program can
know every secret: please read the files before you publish them.

report.json      every step, with its time and estimated cost
calls*.jsonl     the calls to AWS and their answers, by the command and by its temporary hub
jupyterhub.log   the log of the temporary hub
console-*.txt    what EC2 shows of the instances' consoles
journal-*.txt    the agents' journals
"""


def redaction_of(settings: HubSettings | None, hosts: Sequence[str]) -> Redaction:
    """Knows this machine's names, the hub's `hosts`, and the temporary hub's secrets."""
    known = {socket.gethostname(): "HOST", str(Path.home()): "HOME", **dict.fromkeys(hosts, "HUB")}
    with suppress(OSError, KeyError):  # a user without an entry in passwd
        known[getpass.getuser()] = "USER"
    ordinary = {"root", "/root", "/", "localhost"}
    known = {value: word for value, word in known.items() if value not in ordinary}
    if settings is not None:
        known |= {settings.token: SECRET, settings.proxy_token: SECRET, settings.folder: "FOLDER"}
    return Redaction(known)


def write_bundle(
    path: Path, redact: Redaction, report: Mapping[str, Any], folder: Path, texts: Mapping[str, str]
) -> None:
    """Write the zip file, readable by this user only; `texts` by their names in it. Blocks."""
    shown = json.dumps(redact.value(report), indent=1, ensure_ascii=False)
    files = {"README.txt": README, "report.json": shown}
    files |= {name: redact(text) for name, text in texts.items()}
    files["jupyterhub.log"] = redact(_end_of(folder / "jupyterhub.log"))
    for name in ("calls.jsonl", "calls-of-the-hub.jsonl"):
        files[name] = redact.json_lines(_end_of(folder / name))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as out:
        for name, text in files.items():
            out.writestr(name, text)


def _end_of(path: Path) -> str:
    """Whole lines."""
    try:
        with path.open("rb") as file:
            skipped = max(path.stat().st_size - MAX_BYTES, 0)
            file.seek(skipped)
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return text.partition("\n")[2] if skipped else text


def versions() -> dict[str, str]:
    """Of Python, the system, and the packages that matter."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        **{name: metadata.version(name) for name in PACKAGES},
    }


def bundle_path(folder: Path, now: datetime) -> Path:
    """`first-light-20261122-153000.zip` in the folder."""
    return folder / f"first-light-{now:%Y%m%d-%H%M%S}.zip"


def console_texts(consoles: Mapping[str, str], journals: Sequence[str]) -> dict[str, str]:
    """Names in the bundle -> texts."""
    return {
        **{f"console-{instance_id}.txt": text for instance_id, text in consoles.items()},
        **{f"journal-{number}.txt": text for number, text in enumerate(journals, 1)},
    }
