"""The commands that the pages of an admin's first days have, in the order of the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TREE = Path(__file__).resolve().parents[3]

PAGES = (
    "first-hub-on-aws",
    "how-to/check",
    "how-to/first-light",
    "how-to/region-and-gpu",
    "how-to/prices",
    "how-to/homes",
    "class-of-30",
    "how-to/operate",
    "how-to/upgrade",
)

NOT_RUN = {
    "build": "takes a minute; tests/integration/install builds and installs the wheel",
    "choice": "is for a hub with another database, which has tests of its own",
    "credentials": "needs credentials that the reader has to insert",
    "deletion": "moto deletes a network before what is in it; CloudFormation knows the order",
    "efs": "moto has EFS, but not in the subnets of the embedded EC2",
    "efs-utils": "clones a repository of AWS's from GitHub and builds a package of it",
    "first-light": "takes minutes; tests/integration/commands/test_first_light.py runs it",
    "index": "needs a package index or AWS's own; a namespace without a network has none",
    "open request": "AWS, and the embedded EC2, let one request be open, and decide in days",
    "packer": "Packer is on no package index; tests/integration/image runs what it runs",
    "question": "asks at a terminal; tests/integration/commands/test_check_answers.py answers",
    "session": "needs Session Manager's agent and plugin",
    "second update": "moto cannot update this stack twice; first-hub-on-aws has a first update",
    "update-hub": "needs a package index; tests/integration/hub/test_hub_machine.py runs it",
}
"""Why a block is not run. The page says which, in a comment before it."""

BLOCK = re.compile(
    r"(?:^ *<!-- not run: ([\w -]+?) -->\n\n?)?^ *```(console|bash)\n(.*?)^ *```", re.M | re.S
)


@dataclass(frozen=True)
class Command:
    """A command line of a page, with the lines that continue it."""

    page: str
    text: str
    reason: str
    """A key of `NOT_RUN`; empty for a command that is run."""


def commands() -> Iterator[Command]:
    for page in PAGES:
        text = (TREE / "docs" / f"{page}.md").read_text(encoding="utf-8")
        for reason, language, block in BLOCK.findall(text):
            joined = re.sub(r"\\\n\s*", "", block)
            for line in filter(None, map(str.strip, joined.splitlines())):
                if language == "bash":
                    yield Command(page, line, reason)
                elif line.startswith("$ "):
                    yield Command(page, line[2:], reason)
