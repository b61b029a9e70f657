"""`python -m tests.policy_use FOLDER`: whether the suite needed all that the hub's policies allow.

What is missing in the policy fails the test that needs it. What is too much is found here: each
action, each resource and each value of a condition that allowed no call in the whole suite.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
POLICIES = ("iam-policy.json", "clusters-policy.json", "interruptions-policy.json")
"""Those of the hub itself: `sessions-policy.json` is for AWS's agent of Session Manager."""

Part = tuple[str, str]
"""A statement's Sid, and what of it, in the form of `Statement.parts_for`."""


def parts(policy: Mapping[str, Any]) -> dict[Part, str]:
    """Every part of the policy, with its words."""
    return {
        (statement["Sid"], part): words
        for statement in policy["Statement"]
        for part, words in _parts(statement)
    }


def _parts(statement: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for action in _many(statement["Action"]):
        yield action, action
    for place, resource in enumerate(_many(statement["Resource"])):
        yield f"Resource/{place}", resource
    for keys in statement.get("Condition", {}).values():
        for key, values in keys.items():
            for place, value in enumerate(_many(values)):
                yield f"Condition/{key.lower()}/{place}", f"{key}={value}"


def _many(value: str | Sequence[str]) -> Sequence[str]:
    return [value] if isinstance(value, str) else value


def used(files: Iterable[Path]) -> set[Part]:
    """What the embedded EC2s noted."""
    found: set[Part] = set()
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            sid, part = line.split(" ")
            found.add((sid, part))
    return found


def too_much(policy: Mapping[str, Any], used_parts: AbstractSet[Part]) -> list[str]:
    """What to remove: parts that nothing used."""
    every = parts(policy)
    unused = every.keys() - used_parts
    return sorted(f"{part[0]}: {every[part]} is never used" for part in unused)


def main(folder: Path) -> int:
    """Exit status: 1 if something is too much, or nothing was noted."""
    noted = used(folder.glob("*.txt"))
    if not noted:
        print(f"no embedded EC2 noted anything in {folder}", file=sys.stderr)
    found = [
        f"configs/{name}: {line}"
        for name in POLICIES
        for line in too_much(json.loads((CONFIGS / name).read_text(encoding="utf-8")), noted)
    ]
    for line in found if noted else ():
        print(line, file=sys.stderr)
    return 1 if found or not noted else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
