"""Which test files execute each mutant of the sample.

In a copy of the tree a probe is put into each expression that a mutant changes. It notes the mutant
and the test file, once for each process. Unlike coverage.py it slows no other line, follows forks,
and loses nothing when a process is killed.

A process knows the test file from an entry of `PATH`: this variable reaches agents of embedded
instances, too, whose environment has nothing else of the test's. Where a test replaces `PATH`, the
process looks for the pytest that it descends from.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.mutants.places import NOT_BELOW, Place, Source
from tests.mutants.sample import located, read
from tests.run import run_pytest
from tests.tiers import TREE, path_of

MARK: Final = "/.test-file/"
"""What an entry of `PATH` begins with that names a test file."""

PROBE: Final = '''"""Notes which test file executes which mutant."""

import functools
import os

noted = set()


def hit(mutant):
    test = (
        os.environ.get("PATH", "").partition({mark!r})[2].partition(":")[0]
        or os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
        or of_ancestor(os.getpid())
    )
    if (mutant, test) not in noted:
        noted.add((mutant, test))
        try:
            with open({notes!r}, "ab", buffering=0) as file:
                file.write(f"{{mutant}} {{test}}\\n".encode())
        except OSError:
            pass  # in a container, for example, or where a file may not grow


@functools.cache
def of_ancestor(process):
    while process > 1:
        try:
            with open(f"{notes}.{{process}}") as file:
                return file.read()
        except OSError:
            pass
        try:
            with open(f"/proc/{{process}}/stat") as file:
                process = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            break
    return ""
'''
PROBE_FILE: Final = "ec2spawner/mutant_probe.py"
CALL: Final = '(__import__("ec2spawner.mutant_probe").mutant_probe.hit("{}") or ('
"""Precedes an expression; two parentheses follow it."""

NOTES: Final = "executed.txt"
NOTES_VARIABLE: Final = "EC2SPAWNER_MUTANT_NOTES"
CONTEXTS: Final = "contexts.json"
RESULTS: Final = "tests/output/mutants"
"""The folder of both in the tree."""
MARKS: Final = "not (nightly or long)"
"""The tests of `make test`."""

Probe = tuple[int, int, str]
"""Where the expression begins and ends, and the mutant's id."""


def put_probes(places: Mapping[str, Place], tree: Path, notes: Path) -> None:
    """Put the probes of all mutants into the product's source."""
    (tree / PROBE_FILE).write_text(PROBE.format(mark=MARK, notes=str(notes)), encoding="utf-8")
    for file in sorted((tree / "ec2spawner").rglob("*.py")):
        source = Source(file.read_bytes())
        probes = list(_probes_of(places, file.relative_to(tree).as_posix(), source))
        if probes:
            file.write_bytes(with_probes(source.text, probes))


def with_probes(text: bytes, probes: Iterable[Probe]) -> bytes:
    """The source with a probe around each of these expressions."""
    insertions = []
    for start, end, mutant in set(probes):
        # Of expressions that begin or end at the same place, the longer one is outside.
        insertions.append((start, 1, -end, CALL.format(mutant).encode()))
        insertions.append((end, 0, -start, b"))"))
    done = 0
    parts = []
    for position, _, _, inserted in sorted(insertions):
        parts += [text[done:position], inserted]
        done = position
    return b"".join([*parts, text[done:]])


def read_notes(notes: Path) -> dict[str, list[str]]:
    """The test files that executed each mutant."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in notes.read_text(encoding="utf-8").splitlines():
        mutant, _, test = line.partition(" ")
        if test:
            found[mutant].add(test)
    return {mutant: sorted(tests) for mutant, tests in sorted(found.items())}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Name the test's file in `PATH`, and in a file of this process, while the test runs."""
    path, running = os.environ["PATH"], Path(f"{os.environ[NOTES_VARIABLE]}.{os.getpid()}")
    file = path_of(item.path)
    os.environ["PATH"] = f"{path}:{MARK}{file}"
    running.write_text(file, encoding="utf-8")
    try:
        return (yield)
    finally:
        os.environ["PATH"] = path
        running.unlink()


def _probes_of(places: Mapping[str, Place], file: str, source: Source) -> Iterator[Probe]:
    for mutant, place in places.items():
        is_here = place.mutant.file == file
        if not place.bound:
            if is_here:
                yield *place.evaluated, mutant
        elif place.bound.encode() in source.text and (is_here or not place.mutant.is_private):
            # A value that is computed at import is executed where a function reads it.
            for node in _reads(source.tree, place, _has_name(place, file, source.tree), ""):
                yield *source.span(node), mutant


def _has_name(place: Place, file: str, tree: ast.Module) -> bool:
    """Whether the value's plain name is its in this file: it is made or imported there."""
    if place.mutant.file == file:
        return True
    modules = place.mutant.file.removesuffix(".py").split("/")
    imported = (each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom))
    return any(
        alias.name == place.bound
        for each in imported
        if (each.module or modules[-2]).split(".")[-1] in modules
        for alias in each.names
    )


def _reads(node: ast.AST, place: Place, has_name: bool, scope: str) -> Iterator[ast.expr]:
    """The expressions in functions that may read what a place is bound to."""
    owner = place.mutant.function
    of_class = owner.rpartition(".")[2].lstrip("_")[:1].isupper()
    match node:
        case ast.JoinedStr():
            return
        case ast.Name(id=place.bound, ctx=ast.Load()) if scope and has_name and not of_class:
            if f"{scope}.".startswith(f"{owner}.") or not owner:
                yield node
        case ast.Attribute(attr=place.bound, ctx=ast.Load(), value=base) if scope:
            module = Path(place.mutant.file).stem
            if of_class or (not owner and isinstance(base, ast.Name) and base.id == module):
                yield node
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            scope = f"{scope}.{name}" if scope else name
    for name, value in ast.iter_fields(node):
        if name in NOT_BELOW:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _reads(child, place, has_name, scope)


def main(tree: Path, arguments: Sequence[str]) -> int:
    """Run tests in the copy that is the current directory; the exit status is pytest's.

    What they execute is added to what earlier runs have noted.
    """
    results = tree / RESULTS
    notes = results / NOTES
    for left in results.glob(f"{NOTES}.*"):  # by a run that was killed
        left.unlink()
    notes.touch()
    notes.chmod(0o666)  # instances have users of their own
    os.environ[NOTES_VARIABLE] = str(notes)
    places, _ = located(read())
    put_probes(places, TREE, notes)
    options = ["-p", "tests.mutants.contexts", "-m", MARKS, "-n", "4", "--dist", "loadfile"]
    status, _ = run_pytest([*options, "--no-loadscope-reorder", *arguments])
    found = read_notes(notes)
    (results / CONTEXTS).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{len(found)} of {len(places)} mutants are executed")
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
