"""The sample of mutants fits the source, and its mutants are what they say."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.mutants import contexts, places, report, sample
from tests.tiers import TREE

SOURCE = '''
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING and 1 < 2:
    from somewhere import something

LIMIT: Literal[3] = 3
__all__ = [1]


def work(items, least=5, *, is_quick: Literal[1] = True):
    """Work."""
    log.warning("%d", 7)
    assert items, f"{8}"
    if not items or len(items) < least and is_quick:
        items.clear()
    else:
        count -= 1
    return "a" + "b" if LIMIT else 0o600 + 1
'''


def invented() -> list[places.Mutant]:
    """More mutants of each package than are wanted."""
    return [
        places.Mutant(f"ec2spawner/{package}/m{number % 30}.py", "work", "", kind, str(number), "")
        for package in sample.PACKAGES
        for number in range(60)
        for kind in places.KINDS
    ]


def test_the_sample_is_in_the_source() -> None:
    mutants = sample.read()
    found, vanished = sample.located(mutants)
    assert not vanished, "`make mutants ARGS=sample` replaces those whose place has vanished"
    assert len(found) == len(mutants)


def test_the_sample_has_as_many_of_each_package_and_few_of_a_file() -> None:
    mutants = sample.read()
    assert Counter(each.package for each in mutants) == dict.fromkeys(sample.PACKAGES, 24)
    assert max(Counter(each.file for each in mutants).values()) <= sample.MAX_PER_FILE
    assert {each.kind for each in mutants} == set(places.KINDS)


def test_each_mutant_compiles_and_differs() -> None:
    for place in sample.located(sample.read())[0].values():
        source = (TREE / place.mutant.file).read_bytes()
        mutated = ast.parse(place.applied_to(source))
        assert ast.dump(mutated) != ast.dump(ast.parse(source)), place.mutant


def test_the_choice_depends_neither_on_order_nor_on_chance() -> None:
    every = invented()
    chosen = sample.choose(every)
    random.Random(1).shuffle(every)
    assert sample.choose(every) == chosen
    assert set(sample.choose(every, kept=chosen[::2])) >= set(chosen[::2])


def test_changes_of_a_source() -> None:
    found = places.places("ec2spawner/core/it.py", SOURCE.encode())
    assert {(each.mutant.before, each.mutant.after) for each in found} == {
        ("3", "4"),
        ("5", "6"),
        ("True", "False"),
        ("not items", "items"),
        (
            "not items or len(items) < least and is_quick",
            "not items and len(items) < least and is_quick",
        ),
        ("len(items) < least and is_quick", "len(items) < least or is_quick"),
        ("len(items) < least", "len(items) <= least"),
        (
            "not items or len(items) < least and is_quick",
            "not (not items or len(items) < least and is_quick)",
        ),
        ("items.clear()", "pass"),
        ("count -= 1", "count += 1"),
        ("1", "2"),
        ("LIMIT", "not (LIMIT)"),
        ("0o600 + 1", "0o600 - 1"),
        ("0o600", "0o601"),
    }


def test_a_mutant_is_found_again_after_edits_elsewhere_only() -> None:
    before = places.places("ec2spawner/core/it.py", SOURCE.encode())
    moved = places.places("ec2spawner/core/it.py", b"import os\n" + SOURCE.encode())
    assert [each.mutant for each in moved] == [each.mutant for each in before]
    edited = places.places("ec2spawner/core/it.py", SOURCE.replace("< least", "< most").encode())
    assert {each.mutant for each in before} - {each.mutant for each in edited}


MODULE = """
LIMIT = 3


class Rules:
    bound: int = 5


def within(number, step=1):
    return number + step < LIMIT or number > Rules().bound
"""

PROGRAM = """
from ec2spawner.core.it import within
print(within(1), within(2), within(6))
"""


def test_probes_note_the_test_and_change_no_value(tmp_path: Path) -> None:
    file = "ec2spawner/core/it.py"
    module, notes = tmp_path / file, tmp_path / "notes"
    module.parent.mkdir(parents=True)
    (tmp_path / "ec2spawner/__init__.py").touch()
    module.write_text(MODULE)
    notes.touch()
    found = places.places(file, MODULE.encode())
    sought = {each.mutant.before.replace(" ", "_"): each for each in found}
    contexts.put_probes(sought, tmp_path, notes)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={"PATH": f"/bin:{contexts.MARK}tests/unit/test_it.py:/usr/bin"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout == "True False True\n"
    assert contexts.read_notes(notes) == {key: ["tests/unit/test_it.py"] for key in sought}
    assert {"3", "5", "1"} < sought.keys()  # computed at import, read in a function


def test_nested_probes() -> None:
    text = b"a < b + 1"
    probed = contexts.with_probes(text, [(0, 9, "one"), (4, 9, "two"), (4, 5, "three")])
    shown = probed.decode()
    for each in ("one", "two", "three"):
        shown = shown.replace(contexts.CALL.format(each), f"{each}((")
    assert shown == "one((a < two((three((b)) + 1))))"


def test_the_page_has_every_mutant_in_one_place() -> None:
    killed, equivalent, survived, undecided = invented()[:: len(places.KINDS)][:4]
    equivalent = replace(equivalent, judgement="equivalent: a | b")
    verdicts = {
        killed.id: {"verdict": "killed", "by": "tests/unit/test_it.py::test_it[a|b]"},
        equivalent.id: {"verdict": "survived", "by": ""},
        survived.id: {"verdict": "survived", "by": ""},
    }
    text = report.page([killed, equivalent, survived, undecided], verdicts)
    assert "| core | 1 | 1 | 1 | 0 | 0 | 1 |" in text
    for each in (killed, equivalent, survived):
        assert text.count(f"`{each.file.removeprefix('ec2spawner/')}` `work`") == 1
