"""A submission from a file of the home: read, checked, and packed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePath
from secrets import token_urlsafe
from typing import Any, Final

from pydantic import JsonValue, ValidationError

from ..core.runs.documents import DocumentError, pack
from ..core.text import sizes
from ..wire import RunSubmission
from ..wire.runs import MAX_PLAIN_BYTES
from .errors import WrongRequest

OPTIONS: Final[Mapping[str, str]] = {
    "path": "FILE",
    "document": "FILE",
    "parameters": "--params or -p",
    "at_once": "--at-once",
    "max_usd": "--max-usd",
    "max_spot_usd_per_hour": "--max-spot-price",
    "wait_until": "--wait-until",
}
"""Field of a submission -> the option that a person gave it with, where that is not its name."""

MAX_STEM_BYTES: Final = 200


@dataclass(frozen=True)
class RunOptions:
    """How a file is to be run; the fields are those of `RunSubmission`."""

    profile: str
    parameters: Sequence[Mapping[str, JsonValue]] = field(default_factory=lambda: [{}])
    at_once: int | None = None
    retries: int | None = None
    """None is the default of `RunSubmission`."""
    max_usd: float | None = None
    deadline: datetime | None = None
    max_spot_usd_per_hour: float | None = None
    wait_until: datetime | None = None
    notify: bool = False


def submission_of(file: Path, home: Path, options: RunOptions) -> RunSubmission:
    """Read the file, and say how to run it. Raises `WrongRequest`, naming the option and the
    fix."""
    path = path_in_home(file, home)
    try:
        document = pack([_read(file)])
    except DocumentError as error:
        raise WrongRequest(
            f"{file.name} is too large: {error}. Move data out of it into a file of the home"
        ) from error
    given: dict[str, Any] = {
        name: value for name, value in vars(options).items() if value is not None
    }
    try:
        return RunSubmission(request_id=token_urlsafe(16), path=path, document=document, **given)
    except ValidationError as error:
        raise WrongRequest(_in_words(error)) from error


def path_in_home(file: Path, home: Path) -> str:
    """The file's path relative to the home, as it is called there. Raises `WrongRequest` for a file
    elsewhere."""
    # Not resolved first: a link in the home is a file of the home.
    written = Path(os.path.abspath(file))  # noqa: PTH100 - Path.resolve follows links
    for above in (home, home.resolve()):
        if written.is_relative_to(above):
            return written.relative_to(above).as_posix()
    real = file.resolve()
    if real.is_relative_to(home.resolve()):
        return real.relative_to(home.resolve()).as_posix()
    raise WrongRequest(
        f"{file} is not in your home, so its result would have no place there. Copy it below {home}"
    )


def result_path(path: str, number: int) -> str:
    """Where the result of a run will be, relative to the home: `runs/train-12.ipynb`."""
    name = PurePath(path)
    # A name that is as long as file systems allow leaves no room for the number.
    stem = name.stem.encode("utf-8", "replace")[:MAX_STEM_BYTES].decode("utf-8", "ignore")
    return f"runs/{stem}-{number}{'.log' if name.suffix == '.py' else '.ipynb'}"


def _read(file: Path) -> bytes:
    if file.suffix not in (".ipynb", ".py"):
        raise WrongRequest(f"{file.name}: a run is of a notebook (.ipynb) or of a script (.py)")
    try:
        if not file.is_file():
            raise WrongRequest(f"{file}: there is no such file")
        with file.open("rb") as content:
            plain = content.read(MAX_PLAIN_BYTES + 1)
    except OSError as error:
        raise WrongRequest(f"{file} cannot be read: {error.strerror or error}") from error
    if len(plain) > MAX_PLAIN_BYTES:
        most = sizes.in_words(MAX_PLAIN_BYTES)
        raise WrongRequest(
            f"{file.name} is too large: at most {most} can be sent. Move data out of it into a "
            "file of the home"
        )
    return _without_outputs(plain, file.name) if file.suffix == ".ipynb" else plain


def _without_outputs(plain: bytes, name: str) -> bytes:
    """The notebook as it was before it was executed: the run makes its own outputs."""
    try:
        notebook = json.loads(plain)
    except (ValueError, RecursionError) as error:
        raise WrongRequest(
            f"{name} is no notebook: it has no valid JSON. Save it again in JupyterLab"
        ) from error
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(each, dict) for each in cells):
        raise WrongRequest(
            f"{name} is no notebook of format 4: open it in JupyterLab, and save it there"
        )
    for cell in cells:
        if cell.get("cell_type") == "code":
            cell.update(outputs=[], execution_count=None)
    return json.dumps(notebook, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _in_words(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][0]) if first["loc"] else "path"
    option = OPTIONS.get(name, f"--{name.replace('_', '-')}")
    said = str(first["msg"]).removeprefix("Value error, ")
    return f"{option}: {said[:1].lower()}{said[1:]}"
