"""`c.EC2Spawner.read_ahead`: files that instances of the warm pool read while they wait."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator

from ..values import Texts, shown, wrong

ENVIRONMENT: Final = "environment"
"""As the agent reads it: see `agent.read_ahead.reader`."""

TORCH: Final = "/opt/pytorch/lib/python3*/site-packages/torch/lib/*.so"

MAX_PATTERNS: Final = 50
MAX_LENGTH: Final = 300

_FIX: Final = f'write an absolute path, such as "{TORCH}", or "{ENVIRONMENT}"'


def _patterns(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(value) > MAX_PATTERNS:
        wrong(f"has {len(value)} entries", f"write at most {MAX_PATTERNS}, such as folders")
    for each in value:
        if each == ENVIRONMENT:
            continue
        is_path = each.startswith("/") and each.isprintable() and len(each) <= MAX_LENGTH
        if not is_path or ".." in each.split("/"):
            wrong(f"{shown(each)} names no files of an instance", _FIX)
        if "**" in each:
            wrong(f"{shown(each)} has **", "name the folder: everything below it is read")
        if each.strip("/*?") == "":
            wrong(f"{shown(each)} is the whole disk", _FIX)
    return value


ReadAheadPatterns = Annotated[Texts, AfterValidator(_patterns)]
