"""Where saved variables are: the folders of kernels and their generations, in the owner's home.

```text
~/.ec2spawner/sleep/kernels/<key>/<generation>/manifest.json, and a file for each group
```

A generation is complete once it has its manifest, which is written last. Loading a saved variable
runs code, so only folders and files that belong to this user, and that no other user can write, are
read; links are refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import stat
import time
from pathlib import Path
from typing import Final

from .manifest import from_journal, write
from .owned import MANIFEST, of_sleep, replace_file

KERNELS: Final = "kernels"
HIDDEN: Final = "of-other-notebooks"
"""A file with the names of generations."""
GENERATION: Final = re.compile(r"[0-9]{17}-[0-9a-f]{8}")


def root() -> Path:
    """The folder of sleep in this user's home."""
    return Path.home() / ".ec2spawner" / "sleep"


def kernel_key(path: str, kernel_name: str) -> str:
    """The name of a kernel's folder.

    `path`: of the notebook, absolute or relative to the home, which gives the same key, also by way
    of links; or the name of a console. The first part is for people, the second distinguishes.
    """
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        if path.startswith("/"):
            path = os.path.realpath(path)
        path = str(Path(path).relative_to(os.path.realpath(Path.home())))
    path = path.lstrip("/")
    readable = re.sub(r"[^A-Za-z0-9]+", "-", Path(path).stem).strip("-")[:40] or "kernel"
    digest = hashlib.sha256(f"{path}\0{kernel_name}".encode("utf-8", "surrogatepass"))
    return f"{readable}-{digest.hexdigest()[:16]}"


def renamed_file(connection_file: str) -> Path:
    """Where the notebook server writes the path of a notebook that was renamed while its kernel
    ran."""
    return Path(connection_file).with_suffix(".notebook")


def new_generation(kernel: str | Path) -> Path:
    """A new, empty folder below the kernel's folder `kernels/<key>`; its name sorts by time.

    Raises OSError.
    """
    folder = Path(kernel)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in of_sleep(folder):
        each.chmod(0o700)
    # Of a clock that was set back, too: a new generation is the last one.
    begins = stamp(time.time())
    names = [each.name[:17] for each in generations(folder)]
    if names and begins <= names[-1]:
        begins = f"{int(names[-1]) + 1:017}"
    made = folder / f"{begins}-{secrets.token_hex(4)}"
    made.mkdir(mode=0o700)
    return made


def stamp(now: float) -> str:
    """How the name of a generation begins that is made then, in seconds since the epoch."""
    return time.strftime("%Y%m%d%H%M%S", time.gmtime(now)) + f"{int(now * 1000) % 1000:03}"


def link_into(generation: Path, kernel: Path) -> None:
    """Link a generation of another kernel's folder into this one, under its own name: a notebook
    was renamed. Raises OSError."""
    made = kernel / generation.name
    if made.exists() or not is_complete(generation):
        return
    made.mkdir(mode=0o700)
    files = sorted(generation.iterdir(), key=lambda each: each.name == MANIFEST)
    for file in files:
        if stat.S_ISREG(file.lstat().st_mode):
            os.link(file, made / file.name)


def hand_over(kernel: Path, renamed: Path) -> None:
    """Give what this folder's kernel has saved last to the folder of its notebook's new name.

    Another notebook that gets the old name finds nothing here, and what another one of the new
    name had saved is found there no more; records that name a generation still find it. Raises
    OSError.
    """
    last = latest(kernel)
    if last is None and latest(renamed) is None:
        return
    renamed.mkdir(mode=0o700, parents=True, exist_ok=True)
    _hide(renamed, but=last)
    if last is not None:
        link_into(last, renamed)
        _hide(kernel)


def _hide(kernel: Path, but: Path | None = None) -> None:
    names = [each.name for each in generations(kernel) if but is None or each.name != but.name]
    replace_file(kernel / HIDDEN, "\n".join(names).encode())


def _hidden(kernel: Path) -> list[str]:
    try:
        return (kernel / HIDDEN).read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return []


def generations(kernel: str | Path) -> list[Path]:
    """All generations of a kernel, the oldest first, incomplete ones too."""
    try:
        found = list(Path(kernel).iterdir())
    except OSError:
        return []
    return sorted(each for each in found if GENERATION.fullmatch(each.name))


def latest(kernel: str | Path) -> Path | None:
    """The last complete generation of a kernel's folder `kernels/<key>`, or None. Not one of
    another notebook, which had the name before, see `hand_over`."""
    hidden = _hidden(Path(kernel))
    there = (each for each in generations(kernel) if each.name not in hidden)
    return next(filter(is_complete, reversed([*there])), None)


def is_complete(generation: Path) -> bool:
    """Whether it has a manifest."""
    try:
        return stat.S_ISREG((generation / MANIFEST).lstat().st_mode)
    except OSError:
        return False


def conclude(generation: str | Path, code: str) -> bool:
    """Write the manifest of a generation whose kernel hangs or has ended, from its journal.

    `code`: why the variables that the journal does not have were not saved, such as `timed-out`.
    False: there is nothing that could be read. A manifest that is there stays.
    """
    folder = Path(generation)
    if (folder / MANIFEST).exists():
        return True
    manifest = from_journal(folder, code)
    return manifest is not None and write(folder, manifest)
