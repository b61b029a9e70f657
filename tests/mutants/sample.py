"""The fixed sample of mutants, in `sample.json`.

Each is kept with its function and the text of its line, so that it is found again after edits
elsewhere.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Final

from tests.mutants.places import KINDS, Mutant, Place, places
from tests.tiers import TREE

SAMPLE: Final = Path(__file__).with_name("sample.json")
PACKAGES: Final = ("core", "provisioner", "hub", "agent", "sleep")
PER_PACKAGE: Final = 24
MAX_PER_FILE: Final = 2


class Unusable(Exception):
    """The sample does not fit the source."""


def every_place(tree: Path = TREE) -> list[Place]:
    """The possible mutants of all packages."""
    files = itertools.chain.from_iterable(
        sorted((tree / "ec2spawner" / package).rglob("*.py")) for package in PACKAGES
    )
    return [
        place
        for file in files
        for place in places(file.relative_to(tree).as_posix(), file.read_bytes())
    ]


def choose(every: Iterable[Mutant], kept: Iterable[Mutant] = ()) -> list[Mutant]:
    """As many of each package as are wanted, of all kinds in turn, of one file at most two.

    The choice follows from the mutants alone; those of `kept` that are still possible are in it.
    """
    ordered = sorted(set(every), key=lambda mutant: mutant.id)
    judged = {replace(mutant, judgement=""): mutant for mutant in kept}
    chosen: list[Mutant] = []
    for package in PACKAGES:
        possible = [mutant for mutant in ordered if mutant.package == package]
        taken = [mutant for mutant in possible if mutant in judged]
        files = Counter(mutant.file for mutant in taken)
        kinds = Counter(mutant.kind for mutant in taken)
        while len(taken) < PER_PACKAGE:
            free = [
                mutant
                for mutant in possible
                if mutant not in taken and files[mutant.file] < MAX_PER_FILE
            ]
            if not free:
                raise Unusable(f"{package} has no {PER_PACKAGE} mutants")
            following = min(
                free,
                key=lambda each: (kinds[each.kind], files[each.file], KINDS.index(each.kind)),
            )
            taken.append(following)
            files[following.file] += 1
            kinds[following.kind] += 1
        chosen += sorted(taken, key=lambda mutant: (mutant.file, mutant.id))
    return [judged.get(mutant, mutant) for mutant in chosen]


def read() -> list[Mutant]:
    """The sample as it is kept."""
    return [Mutant(**entry) for entry in json.loads(SAMPLE.read_text(encoding="utf-8"))]


def write(mutants: Iterable[Mutant]) -> None:
    """Keep a sample."""
    entries = [asdict(mutant) for mutant in mutants]
    text = json.dumps(entries, indent=2, ensure_ascii=False)
    SAMPLE.write_text(text + "\n", encoding="utf-8")


def located(mutants: Iterable[Mutant], tree: Path = TREE) -> tuple[dict[str, Place], list[Mutant]]:
    """The place of each mutant by its id, and the mutants whose place has vanished."""
    found: dict[str, Place] = {}
    vanished = []
    for mutant in mutants:
        file = tree / mutant.file
        possible = places(mutant.file, file.read_bytes()) if file.exists() else []
        wanted = replace(mutant, judgement="")
        place = next((each for each in possible if each.mutant == wanted), None)
        if place is None:
            vanished.append(mutant)
        else:
            found[mutant.id] = place
    return found, vanished
