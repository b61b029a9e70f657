"""The admin's SSH key (`key_name`) keeps working when the user's home hides that of the image.

cloud-init writes the key into `~/.ssh/authorized_keys` of the root disk, over which the home is
mounted. So the key also goes where no user can write, and sshd reads that file in addition. The
user's own file is neither read nor changed here: what users add to it is theirs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from pathlib import Path
from typing import Final

from .command import run
from .metadata.imds import Metadata, MetadataError
from .settings import Settings

log = logging.getLogger(__name__)

SSH: Final = "etc/ssh"
KEYS: Final = "ec2spawner_keys"
"""Folder below `SSH`, with a file for each user. sshd demands that only root can write there."""

DROP_IN: Final = "sshd_config.d/10-ec2spawner.conf"
"""Before all other files there: of AuthorizedKeysFile, sshd takes the first."""

SERVICES: Final = ("ssh.service", "sshd.service")
"""Names of sshd's unit: Debian's and Ubuntu's, and Amazon Linux's."""

COMMAND_SECONDS: Final = 20.0

_FIND_FILES: Final = """\
configuration=$("$0" -T -f "$1") || exit
printf '%s\\n' "$configuration" | grep -i '^authorizedkeysfile '
"""

_CANNOT_LOG_IN: Final = "the key pair of this instance cannot log in once a home is mounted"


async def keep_admin_key(settings: Settings, metadata: Metadata) -> None:
    """Let the key that EC2 launched this instance with log in also below a mounted home.

    Does nothing without such a key, without sshd, or where sshd is configured to read no such
    files. Raises nothing: a start needs no SSH.
    """
    try:
        if await asyncio.to_thread(_has_image_key, settings) and (keys := await _keys(metadata)):
            await _install(settings, keys)
    except (OSError, MetadataError) as error:
        log.warning("%s: %s", _CANNOT_LOG_IN, error)


def _has_image_key(settings: Settings) -> bool:
    """Whether cloud-init has given the key to the notebook's user, and this is the instance's own
    sshd. Nothing is read from the home."""
    if settings.root == Path("/") and not settings.metadata_is_amazon:
        return False  # a simulated instance on a real machine
    has_sshd = (settings.root / SSH / "sshd_config").is_file()
    return has_sshd and os.path.lexists(settings.user.home / ".ssh" / "authorized_keys")


async def _keys(metadata: Metadata) -> str:
    """The public keys of the launch, one a line; empty without."""
    listing = await metadata.find("meta-data/public-keys/") or ""
    numbers = [line.partition("=")[0] for line in listing.splitlines()]
    paths = (f"meta-data/public-keys/{each}/openssh-key" for each in numbers if each.isdigit())
    found = [await metadata.find(path) or "" for path in paths]
    return "".join(f"{key.strip()}\n" for key in found if key.strip())


async def _install(settings: Settings, keys: str) -> None:
    folder = settings.root / SSH
    await asyncio.to_thread(_write, folder / KEYS / settings.user.name, keys)
    pattern = str(folder / KEYS / "%u")
    before = await _key_files(settings)
    if before is None or pattern in before or not before:
        return
    drop_in = folder / DROP_IN
    text = f"AuthorizedKeysFile {' '.join(before)} {pattern}\n"
    await asyncio.to_thread(_write, drop_in, text)
    if pattern not in (await _key_files(settings) or ()):
        await asyncio.to_thread(drop_in.unlink, missing_ok=True)
        log.warning("sshd does not read %s: the image's sshd_config must include it", drop_in)
        return
    for service in SERVICES:
        # Fails for the name that this image does not use.
        await run("systemctl", "try-reload-or-restart", service, seconds=COMMAND_SECONDS)


async def _key_files(settings: Settings) -> list[str] | None:
    """Which files sshd reads keys from, by its own word; None, and a warning, if it says none."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    sshd = shutil.which("sshd", path=path)
    if sshd is None:
        log.warning("there is no sshd on %s: %s", path, _CANNOT_LOG_IN)
        return None
    # sshd checks for this folder first, and with socket activation nobody has made it yet.
    await asyncio.to_thread((settings.root / "run/sshd").mkdir, parents=True, exist_ok=True)
    config = settings.root / SSH / "sshd_config"
    command = "/bin/sh", "-c", _FIND_FILES, sshd, str(config)
    status, output = await run(*command, seconds=COMMAND_SECONDS)
    if status:
        log.warning("sshd -T: status %d, %s: %s", status, output, _CANNOT_LOG_IN)
        return None
    files = output.splitlines()[-1].split()[1:]  # after what sshd warns of
    return [] if files == ["none"] else files


def _write(file: Path, text: str) -> None:
    """Whole, and readable for sshd, which reads it as the user who logs in."""
    file.parent.mkdir(mode=0o755, exist_ok=True)
    new = file.with_name(f".{file.name}.new")
    new.write_text(text)
    new.chmod(0o644)
    new.replace(file)
