"""Parameters of a script as its arguments, as `argparse` reads them. Pure.

| JSON | arguments | in the script |
|---|---|---|
| `"adam"`, `3`, `0.1` | `--name adam` | `add_argument("--name", type=…)` |
| `"-fast"`, `-3` | `--name=-3` | the same |
| `true` | `--name` | `action="store_true"` |
| `false`, `null` | none | the default |
| `[64, 32]` | `--name 64 32` | `nargs="*"` |
| `{"a": 1}` | `--name '{"a": 1}'` | `type=json.loads` |
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from .execution import CannotExecute

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def arguments(parameters: Mapping[str, JsonValue]) -> list[str]:
    """The arguments, in the order of the parameters. Raises `CannotExecute`."""
    found: list[str] = []
    for name, value in parameters.items():
        if not _NAME.fullmatch(name):
            raise CannotExecute(
                f"The parameter {name!r} cannot be an argument: use letters, digits, _, - and ., "
                "such as learning-rate."
            )
        found += _of(f"--{name}", value)
    if any("\0" in each for each in found):
        raise CannotExecute("A parameter has a NUL character, which no argument can have.")
    return found


def _of(option: str, value: JsonValue) -> list[str]:
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if isinstance(value, list):
        return [option, *map(_text, value)]
    text = _text(value)
    return [f"{option}={text}"] if text.startswith("-") else [option, text]


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)
