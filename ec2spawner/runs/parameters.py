"""Parameters of a run as a person writes them: on a command line, in a dialog, in a file. Pure."""

from __future__ import annotations

import ast
import csv
import io
import json
import keyword
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from ..wire.runs import MAX_ARRAY
from .errors import WrongRequest

MAX_WRITTEN: Final = 100_000
"""Characters of one value."""

_WORDS: Final[Mapping[str, JsonValue]] = {"True": True, "False": False, "None": None}
"""As Python writes them, and papermill's `-p` reads them."""

_NUMBER: Final = re.compile(
    r"[+-]?(?:(0|[1-9]\d{0,17})|\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)"
)
"""Numbers that JSON does not know: `.5`, `1.`, `+1`. Not `007`, which is more likely a name."""


def value_of(written: str, name: str) -> JsonValue:
    """What the text means: JSON, or a literal of Python, or else the text itself.

    `true`, `True`, `0.1`, `"text"`, `['a', 'b']`. Raises `WrongRequest` for a list or an object
    that is neither, and for a value that is too long; `name` is for the message.
    """
    text = written.strip()
    if len(text) > MAX_WRITTEN:
        raise WrongRequest(
            f"{name}: a value has at most {MAX_WRITTEN} characters, not {len(text)}: write it into "
            "a file in your home, and pass its name"
        )
    if text in _WORDS:
        return _WORDS[text]
    try:
        return _json(text)
    except (ValueError, RecursionError):
        pass  # nested too deeply for JSON is refused as a literal below
    if number := _NUMBER.fullmatch(text):
        return int(text) if number[1] else float(text)
    if text[:1] in tuple("[{('\""):
        return _literal(text, written, name)
    return written


def named_values(pairs: Iterable[Sequence[str]], option: str) -> dict[str, JsonValue]:
    """Of pairs of a name and a written value. Raises `WrongRequest`."""
    found: dict[str, JsonValue] = {}
    for name, written in pairs:
        check_name(name, option)
        if name in found:
            raise WrongRequest(f"{option} {name}: given twice: leave one out")
        found[name] = value_of(written, f"{option} {name}")
    return found


def rows_of(content: str, file_name: str) -> list[dict[str, JsonValue]]:
    """One set of parameters for each run of an array: a JSON list of objects, or a CSV with a
    header, in which an empty cell leaves the parameter out. Raises `WrongRequest`."""
    option = f"--params {file_name}"
    if file_name.lower().endswith(".csv"):
        rows = _csv_rows(content, option)
    elif file_name.lower().endswith(".json"):
        rows = _json_rows(content, option)
    else:
        raise WrongRequest(f"{option}: the file's name must end in .json or .csv")
    if not rows:
        raise WrongRequest(f"{option}: has no rows: write one for each run")
    if len(rows) > MAX_ARRAY:
        raise WrongRequest(
            f"{option}: has {len(rows)} rows, and an array has at most {MAX_ARRAY} runs: split it"
        )
    return rows


def combined(
    common: Mapping[str, JsonValue], rows: Sequence[Mapping[str, JsonValue]]
) -> list[dict[str, JsonValue]]:
    """Each row with what is common to all. Raises `WrongRequest` for a name in both."""
    both = sorted({name for row in rows for name in row} & common.keys())
    if both:
        raise WrongRequest(f"-p {both[0]}: is in the file of --params as well: leave one out")
    return [{**common, **row} for row in rows]


def check_name(name: str, option: str) -> None:
    """Raises `WrongRequest` unless it can be a variable, and so an argument of a script, too."""
    if not name.isidentifier() or keyword.iskeyword(name):
        raise WrongRequest(
            f"{option} {name}: is no name of a variable in Python, such as learning_rate"
        )


def _json(text: str) -> JsonValue:
    found: JsonValue = json.loads(text, parse_constant=_finite, parse_float=_finite)
    return found


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{written} is no number of JSON")  # nor are NaN and Infinity
    return number


def _literal(text: str, written: str, name: str) -> JsonValue:
    try:
        # By way of JSON: a tuple becomes a list, a set is refused.
        return _json(json.dumps(ast.literal_eval(text)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        if text[0] in "'\"(":
            return written
        raise WrongRequest(
            f'{name}: is neither JSON nor a literal of Python: write a list as ["a", "b"], and '
            f"text that begins with {text[0]} in double quotes"
        ) from error


def _json_rows(content: str, option: str) -> list[dict[str, JsonValue]]:
    try:
        found = _json(content)
    except (ValueError, RecursionError) as error:
        raise WrongRequest(f"{option}: is no JSON: {error}") from error
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise WrongRequest(
            f'{option}: must be a list of objects, one for each run, such as [{{"lr": 0.1}}]'
        )
    rows = [each for each in found if isinstance(each, dict)]
    for name in {name for row in rows for name in row}:
        check_name(name, f"{option}:")
    return rows


def _csv_rows(content: str, option: str) -> list[dict[str, JsonValue]]:
    reader = csv.reader(io.StringIO(content.removeprefix("\ufeff")), strict=True)
    try:
        lines = [(reader.line_num, line) for line in reader if any(cell.strip() for cell in line)]
    except csv.Error as error:
        raise WrongRequest(f"{option}: line {reader.line_num}: {error}") from error
    if not lines:
        return []
    header = [cell.strip() for cell in lines[0][1]]
    for name in header:
        check_name(name, f"{option}: the header's")
    if len(set(header)) < len(header):
        raise WrongRequest(f"{option}: the header has a name twice: rename one")
    rows = []
    for number, cells in lines[1:]:
        if len(cells) != len(header):
            raise WrongRequest(
                f"{option}: line {number} has {len(cells)} cells, and the header {len(header)}"
            )
        where = f"{option}: line {number},"
        pairs = zip(header, cells, strict=True)
        rows.append({n: value_of(cell, f"{where} {n}") for n, cell in pairs if cell.strip()})
    return rows
