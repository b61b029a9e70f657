"""Values that a sleep could not save, and an earlier one has: they are kept, and offered as old.

A generation lists them as not saved, with the time of the value that is kept. Nothing restores one
unless the user asks for it by name: beside newer variables, an old value is a wrong one. They stay
in the earlier generation, of which everything else is removed.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from . import manifest as manifests
from . import owned
from .folder import generations, is_complete
from .manifest import DEFINITION, Entry, Manifest, Unreadable

NOT_RESTORED: Final = "not-restored"
"""The code of a variable that was saved before, and could not be woken since."""


class Earlier(NamedTuple):
    """A value of a generation before."""

    entry: Entry
    folder: Path
    saved_at: float
    """In seconds since the epoch."""


def values(generation: Path | None) -> dict[str, Earlier]:
    """What a generation has, and the values that it knows to be in earlier ones."""
    manifest = _read(generation)
    if generation is None or manifest is None:
        return {}
    found = {e.name: Earlier(e, generation, manifest.saved_at) for e in manifest.saved}
    return kept_values(generation, manifest) | found


def kept_values(generation: Path, manifest: Manifest) -> dict[str, Earlier]:
    """The values in earlier generations of what this one could not save."""
    found: dict[str, Earlier] = {}
    missing = {each.name for each in manifest.lost if each.earlier}
    for each in _before(generation):
        if missing and (older := _read(each)) is not None:
            new = {e.name: Earlier(e, each, older.saved_at) for e in older.saved}
            found |= {name: new[name] for name in missing & new.keys()}
            missing -= new.keys()
    return found


def before(generation: Path, lineage: Iterable[Path]) -> Path | None:
    """The last generation that the values of this kernel are of, under its own name or in this
    folder of a new one; without one, the latest: a variable of the same name may be what a user
    wants back."""
    own = [generation.parent / each.name for each in lineage]
    if found := max(filter(is_complete, own), default=None):
        return found
    return next((each for each in _before(generation) if is_complete(each)), None)


def absent(known: Mapping[str, Earlier], lacking: Collection[str]) -> list[Entry]:
    """Entries for values that the namespace does not have and that stay where they are."""
    return [
        Entry(
            name,
            kind=each.entry.kind,
            type=each.entry.type,
            size_bytes=each.entry.size_bytes,
            code=NOT_RESTORED,
            earlier=each.saved_at,
        )
        for name, each in known.items()
        if name in lacking
    ]


def remove_older(
    generation: str | Path, keep_bytes: int = 1 << 62, keep: Collection[Path] = ()
) -> int:
    """Remove the kernel's generations before this one, if this one is complete; of what it could
    not save, the last values stay, so many bytes of them, the smallest first. How many stay.

    `keep`: generations that stay as they are, such as those of another kernel of the notebook.
    Errors are ignored: what is left is removed the next time.
    """
    newest = Path(generation)
    manifest = _read(newest)
    if manifest is None:
        return 0
    needed: dict[Path, set[str]] = {}
    by_size = sorted(kept_values(newest, manifest).values(), key=lambda e: e.entry.size_bytes)
    kept = 0
    for each in by_size:
        if kept + each.entry.size_bytes <= keep_bytes:
            kept += each.entry.size_bytes
            needed.setdefault(each.folder, set()).add(each.entry.name)
    for folder in _before(newest):
        if folder in keep:
            continue
        if folder in needed:
            _remove_others(folder, needed[folder])
        else:
            remove(folder)
    return kept


def remove(generation: Path) -> None:
    """Remove a generation: a removal that is cut short leaves an incomplete one."""
    with contextlib.suppress(OSError):
        (generation / owned.MANIFEST).unlink()
    shutil.rmtree(generation, ignore_errors=True)


def remove_incomplete(kernel: Path, before: str) -> None:
    """Remove what kernels have left that ended while they saved, before the time of this name."""
    for each in generations(kernel):
        if each.name < before and not is_complete(each):
            remove(each)


def remove_until(kernel: Path, last: str) -> None:
    """Remove the generations of this kernel up to the one of this name."""
    for each in generations(kernel):
        if each.name <= last:
            remove(each)
    with contextlib.suppress(OSError):
        kernel.rmdir()


def newest(generation: Path, others: Collection[Path] = ()) -> Path:
    """This one, or what its user saved since by `%sleep`, which may have removed this one.

    `others`: generations that are not taken for that, such as those of another kernel of the
    notebook.
    """
    saved = (each for each in reversed(generations(generation.parent)) if each not in others)
    last = next(filter(is_complete, saved), None)
    return last if last is not None and last.name > generation.name else generation


def _remove_others(generation: Path, names: set[str]) -> None:
    """Leave these values, and the definitions that they may need."""
    manifest = _read(generation)
    if manifest is None:
        return
    kept = [e for e in manifest.saved if e.name in names or e.kind == DEFINITION]
    files = {owned.MANIFEST, *(e.file for e in kept), *(e.source for e in kept)}
    with contextlib.suppress(OSError):
        for file in list(generation.iterdir()):
            if file.name not in files:
                file.unlink()


def _before(generation: Path) -> list[Path]:
    """The generations before this one, the last one first."""
    return [e for e in reversed(generations(generation.parent)) if e.name < generation.name]


def _read(generation: Path | None) -> Manifest | None:
    try:
        return manifests.read(generation) if generation is not None else None
    except Unreadable:
        return None
