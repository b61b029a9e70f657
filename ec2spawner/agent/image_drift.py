"""Whether the image is still what its recipe made: `configs/ami/provision.sh` lists its files."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

MANIFEST: Final = Path("/etc/ec2spawner/image.json")

MAX_NAMED: Final = 5
"""Files that the log names: the first ones say where the change came from."""


def drifted(files: Mapping[str, str], digest_of: Callable[[Path], str]) -> list[str]:
    """Those of a manifest's files (path -> SHA-256) that are different now or gone.

    `digest_of` raises `OSError` for a file that cannot be read.
    """

    def same(path: str, digest: str) -> bool:
        try:
            return digest_of(Path(path)) == digest
        except OSError:
            return False

    return sorted(path for path, digest in files.items() if not same(path, digest))


def report_drift(manifest: Path = MANIFEST) -> None:
    """Log which image this is, and what has changed in it; nothing on an image without a manifest.

    Reads some hundred small files: not for an event loop.
    """
    try:
        image = json.loads(manifest.read_text(encoding="utf-8"))
        recipe, files = str(image["recipe"]), dict(image["files"])
    except FileNotFoundError:
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("%s cannot be read: %r", manifest, error)
        return
    changed = drifted(files, _digest)
    if not changed:
        log.info("the image is as its recipe %s made it", recipe[:12])
        return
    named = ", ".join(changed[:MAX_NAMED]) + (", ..." if len(changed) > MAX_NAMED else "")
    log.warning(
        "the image is not as its recipe %s made it, %d of %d files differ: %s. "
        "Bake the image again instead of changing it",
        recipe[:12],
        len(changed),
        len(files),
        named,
    )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
