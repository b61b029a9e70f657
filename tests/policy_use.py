"""`python -m tests.policy_use FOLDER`: whether the suite needed all that the hub's policy allows.

What is missing in the policy fails the test that needs it. What is too much is found here: each
pair of a statement and an action that allowed no call in the whole suite.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

POLICY = Path(__file__).resolve().parents[1] / "configs" / "iam-policy.json"

Pair = tuple[str, str]
"""A statement's Sid, and an action."""

RARE: Mapping[Pair, str] = {}
"""What no test can need, with the reason."""


def allowed(policy: Mapping[str, Any]) -> set[Pair]:
    """Every pair of the policy."""
    pairs = set()
    for statement in policy["Statement"]:
        actions = statement["Action"]
        for action in [actions] if isinstance(actions, str) else actions:
            pairs.add((statement["Sid"], action))
    return pairs


def used(files: Iterable[Path]) -> set[Pair]:
    """What the embedded EC2s noted."""
    found: set[Pair] = set()
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            sid, action = line.split(" ")
            found.add((sid, action))
    return found


def too_much(policy: Mapping[str, Any], used_pairs: set[Pair]) -> list[str]:
    """What to remove: pairs that nothing used, and exceptions that something does use."""
    unused = allowed(policy) - used_pairs
    never = [f"{sid}: {action} is never used" for sid, action in unused - RARE.keys()]
    listed = "is used, or not in the policy: remove it from RARE"
    return sorted(never) + sorted(
        f"{sid}: {action} {listed}" for sid, action in RARE.keys() - unused
    )


def main(folder: Path) -> int:
    """Exit status: 1 if something is too much, or nothing was noted."""
    pairs = used(folder.glob("*.txt"))
    found = too_much(json.loads(POLICY.read_text(encoding="utf-8")), pairs)
    for line in found if pairs else [f"no embedded EC2 noted anything in {folder}"]:
        print(f"configs/iam-policy.json: {line}", file=sys.stderr)
    return 1 if found or not pairs else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
