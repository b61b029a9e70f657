"""What was saved of a kernel, and what was not, and why.

The manifest is read as untrusted in form: what is damaged, cut off or of a newer version is
reported by `Unreadable`, never by another error.
"""

from __future__ import annotations

import errno
import math
import os
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from ..bounds import own_json
from . import owned

FORMAT: Final = 1
MAX_BYTES: Final = 64 << 20
"""Of a manifest that is read: a hundred thousand variables."""
MAX_TEXT: Final = 300
"""Characters of a type or a detail."""
FILE: Final = re.compile(r"[0-9]{1,9}\.(sleep|py)")
NAME: Final = 1000

MODULE: Final = "module"
DEFINITION: Final = "definition"
VALUE: Final = "value"

CHANGED: Final = "changed"
COPIED: Final = "copied"
NO_CACHE: Final = "without-cache"
NO_GRAPH: Final = "without-graph"
NO_TRACEBACK: Final = "without-traceback"
NOT_SHARED: Final = "no-longer-shared"
RELEASED: Final = "released"


class Unreadable(Exception):
    """A manifest that this version cannot use: why."""


@dataclass(frozen=True)
class Entry:
    """A name of the namespace."""

    name: str
    kind: str = VALUE
    """`module`, `definition` (a function or class of the notebook) or `value`."""
    type: str = ""
    size_bytes: int = 0
    """Its part of its file on the disk; for what is not saved, an estimate in memory."""
    seconds: float = 0.0
    saved: bool = False
    code: str = ""
    """Why it was not saved: see `docs/guide/sleep-and-wake.md`."""
    detail: str = ""
    file: str = ""
    """What holds it; variables that share objects are in one file."""
    source: str = ""
    """The file with a definition's source."""
    target: str = ""
    """The name to import a module by."""
    submodules: tuple[str, ...] = ()
    """Of a package: what else of it was imported."""
    gpu: bool = False
    plain: bool = False
    """Restoring it runs no code of the notebook's own, and none of unknown libraries."""
    sharing: str = "complete"
    """`partial`: the search for objects shared with others was not complete."""
    differs: tuple[str, ...] = ()
    """In what the restored value will differ: `changed`, as `detail` says; `copied`, it was a map
    of a file outside the home, and will be an array with its content; `no-longer-shared`, it
    shares memory or objects with others, and will have copies of them; `released`, a lock that was
    held will be free; `without-cache`, what a function had cached is computed again;
    `without-graph`, of tensors, which cannot go backward; `without-traceback`, of exceptions."""
    proved: bool = False
    """It was loaded after it was saved, and is what it was, apart from `differs`."""
    unproved: str = ""
    """Why that is not known, where there is a reason in the value."""
    libraries: dict[str, str] = field(default_factory=dict)
    """The versions of what it was made of: another one is a reason to try it first."""
    earlier: float = 0.0
    """Of what is not saved: when the value was saved that an earlier generation has, in seconds
    since the epoch; 0 for none."""
    python: str = ""
    """Such as `3.12`: bytecode is of one minor version."""


@dataclass(frozen=True)
class Manifest:
    """A generation."""

    entries: tuple[Entry, ...] = ()
    saved_at: float = 0.0
    """Seconds since the epoch."""
    seconds: float = 0.0
    code: str = ""
    """Why it ended early, empty if it did not."""
    kept: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    search_path: tuple[str, ...] = ()
    """What was added to `sys.path`."""
    directory: str = ""
    settings: str = ""
    """The file with settings of the process."""
    unkept: tuple[str, ...] = ()
    """What of the process will not be there after a wake, in words."""
    format: int = FORMAT

    @property
    def saved(self) -> list[Entry]:
        """Without modules: what people call variables, and their functions and classes."""
        return [each for each in self.entries if each.saved and each.kind != MODULE]

    @property
    def lost(self) -> list[Entry]:
        """What was not saved."""
        return [each for each in self.entries if not each.saved]

    @property
    def size_bytes(self) -> int:
        """On the disk."""
        return sum(each.size_bytes for each in self.saved)


def python_version() -> str:
    """Of this process, as in a manifest."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def summary(manifest: Manifest) -> dict[str, Any]:
    """What others show of it: the form of a saved kernel in `ec2spawner.wire.sleep`."""
    saved = manifest.saved
    changed = [each for each in saved if CHANGED in each.differs]
    by_size = sorted(saved, key=lambda each: -each.size_bytes)
    return {
        "variables": len(saved),
        "size_bytes": manifest.size_bytes,
        "gpu_bytes": sum(each.size_bytes for each in saved if each.gpu),
        "largest": [
            {"name": e.name, "type": e.type, "size_bytes": e.size_bytes, "gpu": e.gpu}
            for e in by_size[:5]
        ],
        "proved": sum(each.proved for each in saved),
        "lost": [lost(each) for each in manifest.lost[:10]],
        "lost_count": len(manifest.lost),
        "changed": [lost(replace(each, code=CHANGED)) for each in changed[:10]],
        "changed_count": len(changed),
        "code": manifest.code,
    }


def lost(entry: Entry) -> dict[str, Any]:
    """The form of a lost variable in `ec2spawner.wire.sleep`."""
    about = {"name": entry.name, "type": entry.type, "code": entry.code, "detail": entry.detail}
    return about | ({"kept_of": entry.earlier} if entry.earlier else {})


# --- on the disk ---


def write(folder: Path, manifest: Manifest) -> bool:
    """Complete the generation, unless it is complete: whether this call did. Raises OSError,
    Unreadable."""
    mine = folder / f"{owned.MANIFEST}.{os.getpid()}"
    owned.replace_file(mine, own_json.dumps(asdict(manifest)).encode())
    if _manifest(_json(_content(mine))) != manifest:
        raise OSError(errno.EIO, "the list of what was saved is not as it was written", str(mine))
    owned.sync(folder)
    try:
        # Whoever is first: a kernel that was given up on may still write its own.
        os.link(mine, folder / owned.MANIFEST)
    except FileExistsError:
        return False
    finally:
        mine.unlink(missing_ok=True)
    owned.sync(folder)
    return True


def read(folder: Path) -> Manifest:
    """Raises Unreadable."""
    return _manifest(_json(_content(folder / owned.MANIFEST)))


class Journal:
    """What another process needs to finish the manifest of a kernel that cannot."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Begins with the manifest as if nothing was saved."""
        path = folder / owned.JOURNAL
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = open(number, "wb")  # noqa: PTH123, SIM115 - closed by `close`
        self._write(asdict(manifest))

    def note(self, entries: Iterable[Entry]) -> None:
        """What became of these."""
        self._write([asdict(each) for each in entries])

    def close(self) -> None:
        """The manifest has everything."""
        self._file.close()

    def _write(self, value: Any) -> None:
        # Not synced: it is for another process of this machine.
        self._file.write(own_json.dumps(value).encode() + b"\n")
        self._file.flush()


def from_journal(folder: Path, code: str) -> Manifest | None:
    """What a journal says was saved, with this reason for the rest; None without a journal."""
    try:
        lines = _content(folder / owned.JOURNAL).splitlines()
        manifest = _manifest(_json(lines[0]))
    except (Unreadable, IndexError):
        return None
    found = {
        each.name: replace(each, saved=False, code=each.code or code) for each in manifest.entries
    }
    found |= {each.name: each for each in manifest.entries if each.kind == MODULE}
    last = manifest.saved_at
    for line in lines[1:]:
        try:
            found |= {each.name: each for each in map(_entry, _list(_json(line)))}
        except Unreadable:  # the last line may be cut off
            break
    with_files = [each for each in found.values() if (folder / each.file).is_file()]
    last = max((_modified(folder / each.file) for each in with_files), default=last)
    seconds = max(0.0, last - manifest.saved_at)
    return replace(manifest, entries=tuple(found.values()), code=code, seconds=seconds)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _content(path: Path) -> bytes:
    try:
        with open(owned.open_ours(path), "rb") as file:  # noqa: PTH123 - of a descriptor
            content = file.read(MAX_BYTES + 1)
    except owned.NotOurs as why:
        raise Unreadable(str(why)) from None
    except OSError as why:
        raise Unreadable(why.strerror or str(why)) from None
    if len(content) > MAX_BYTES:
        raise Unreadable("it is too large")
    return content


def _json(content: bytes) -> Any:
    try:
        return own_json.loads(content)
    except (ValueError, RecursionError):
        raise Unreadable("it is damaged") from None


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Unreadable("it is damaged")
    return value


def _manifest(value: Any) -> Manifest:
    if not isinstance(value, dict):
        raise Unreadable("it is damaged")
    version = value.get("format")
    if type(version) is int and version > FORMAT:
        raise Unreadable("a newer version of ec2spawner saved it")
    given = _fields(Manifest, value, "entries")
    if given.get("settings") and not FILE.fullmatch(given["settings"]):
        raise Unreadable("a file name in it is not valid")
    entries = tuple(_entry(each) for each in _list(value.get("entries")))
    if len({each.name for each in entries}) != len(entries):
        raise Unreadable("it has a name twice")
    return Manifest(entries, **given)


def _entry(value: Any) -> Entry:
    if not isinstance(value, dict):
        raise Unreadable("it is damaged")
    entry = Entry(**_fields(Entry, value))
    if not entry.name.isidentifier() or len(entry.name) > NAME:
        raise Unreadable("a name in it is not valid")
    for file in (entry.file, entry.source):
        if file and not FILE.fullmatch(file):
            raise Unreadable("a file name in it is not valid")
    return entry


def _fields(kind: type, value: dict[str, Any], *without: str) -> dict[str, Any]:
    """The fields of this class as they are in JSON; unknown ones are ignored."""
    given: dict[str, Any] = {}
    for each in fields(kind):
        if each.name in without or each.name not in value:
            continue
        found = value[each.name]
        if each.type == "tuple[str, ...]":
            valid = isinstance(found, list) and all(isinstance(text, str) for text in found)
            found = tuple(found) if valid else found
        elif each.type == "dict[str, str]":
            valid = isinstance(found, dict) and all(isinstance(v, str) for v in found.values())
        elif each.type == "float":
            valid = type(found) in (int, float) and math.isfinite(found)
        elif each.type == "int":
            valid = type(found) is int and 0 <= found < 1 << 63
        else:
            valid = type(found).__name__ == each.type
        if not valid:
            raise Unreadable(f"its {each.name} is not valid")
        given[each.name] = found
    if kind is Entry and "name" not in given:
        raise Unreadable("an entry in it has no name")
    return given
