"""Cases of what a sleep and a wake keep: some cells, and an expression that is as before.

All cases of a table run in one notebook, which sleeps and wakes once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.unit.sleep.notebook import Notebook

HEAD = """
import abc, collections, copy, dataclasses, decimal, enum, functools, gc, random, re, sys, threading
import types, typing, weakref
import attrs, numpy as np
"""


class Case(NamedTuple):
    cells: tuple[str, ...]
    check: str
    said: str = ""
    """Names, of one of which it may be said instead that it is lost, or in what it differs."""


def case(*cells: str, check: str, said: str = "") -> Case:
    return Case(cells, check, said)


def check_all(cases: Mapping[str, Case], home: Path) -> None:
    """Each expression is as before, or the name that may be lost instead is listed; no other is."""
    folder = home / "generation"
    value = "try: print(repr({}))\nexcept BaseException as _e: print('raised', repr(_e))"
    with Notebook(home) as first:
        first.say(f"import sys; sys.path.insert(0, {str(home)!r})")
        first.say(HEAD)
        for each in cases.values():
            for cell in each.cells:
                first.say(cell)
        before = {name: first.say(value.format(each.check)) for name, each in cases.items()}
        saved = {each["name"]: each for each in first.save(folder)["entries"]}
    with Notebook(home) as woken:
        result = woken.restore(folder)
        after = {name: woken.say(value.format(each.check)) for name, each in cases.items()}
    said = {n for n, entry in saved.items() if entry["differs"] or not entry["saved"]}
    assert not {n: v for n, v in before.items() if v.startswith("raised")}
    wrong = {
        name: f"{before[name]} -> {after[name]}"
        for name, each in cases.items()
        if after[name] != before[name] and said.isdisjoint(each.said.split())
    }
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())
    lost = {each["name"]: each for each in result["lost"]}
    unexpected = lost.keys() - {name for each in cases.values() for name in each.said.split()}
    assert not unexpected, [lost[name] for name in unexpected]
