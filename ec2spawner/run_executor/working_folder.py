"""Where in the home a run works: in the folder of its notebook or script, as the user would."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from ..wire import RunWork
from ..wire.runs import RunPath
from .execution import CannotExecute

PATH: TypeAdapter[str] = TypeAdapter(RunPath)


def open_folder(home: Path, work: RunWork, document: bytes) -> Path:
    """The path of the document itself in its folder, which is made where it is missing, as is the
    document: a file of that name stays as it is. Raises `CannotExecute` and `OSError`."""
    try:
        file = home / PATH.validate_python(work.path)
    except ValidationError as error:
        raise CannotExecute(
            f"{work.path!r} cannot be the path of a run: use one below the home, such as "
            "projects/train.ipynb."
        ) from error
    file.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        _write_new(file, document)
    return file


def own_script(file: Path, work: RunWork) -> Path:
    """The path by which a script runs: beside the user's own file, which may have changed since, so
    that modules and data beside it are found; the same at each attempt, for its checkpoints."""
    return file.with_name(f".{file.stem}.run-{work.number}{file.suffix}")


def write_script(path: Path, document: bytes) -> None:
    """Replace the file whole. Raises `OSError`; an incomplete file does not stay."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_bytes(document)
        new.replace(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise


def _write_new(file: Path, document: bytes) -> None:
    """Raises `OSError`, `FileExistsError` among them; an incomplete file does not stay."""
    with file.open("xb") as new:
        try:
            new.write(document)
            new.flush()
            os.fsync(new.fileno())
        except OSError:
            file.unlink(missing_ok=True)
            raise
