"""From what is known of each variable to groups, each saved in one file. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ..plan import Group
from ..storage.manifest import DEFINITION, VALUE, Entry
from .found import Found


class Grouping(NamedTuple):
    """What is saved together, and what is known of each variable now."""

    groups: list[Group]
    entries: dict[str, Entry]


def grouping(
    entries: Mapping[str, Entry],
    found: Iterable[Found],
    shared: Iterable[tuple[str, str]],
    *,
    kept: Collection[str] = (),
    can_be_limited: bool = True,
) -> Grouping:
    """The groups of what can be saved, in no order; what cannot has its reason in its entry.

    `shared`: pairs of names that share an object which can change; `kept`: what the user wants
    saved first; `can_be_limited`: whether a time limit is possible in this process.
    """
    by_name = {each.name: each for each in found}
    known = {name: _known(entries[name], each) for name, each in by_name.items()}
    storable = [name for name, entry in known.items() if not entry.code]
    pairs = [pair for pair in shared if not any(known[name].code for name in pair)]
    groups = []
    for names in connected(storable, pairs):
        group = _group([by_name[name] for name in names], kept, can_be_limited)
        groups.append(group)
        known |= {n: replace(known[n], gpu=group.gpu, plain=group.plain) for n in names}
    return Grouping(groups, known)


def connected(names: Iterable[str], shared: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    """The names, those that are connected by pairs of `shared` together; in their first order."""
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for one, other in shared:
        parent[root(other)] = root(one)
    together: dict[str, list[str]] = {}
    for name in parent:
        together.setdefault(root(name), []).append(name)
    return [tuple(each) for each in together.values()]


def _known(entry: Entry, found: Found) -> Entry:
    known = replace(
        entry,
        kind=DEFINITION if found.is_definition else VALUE,
        size_bytes=found.size_bytes,
        sharing="complete" if found.complete else "partial",
        differs=tuple(sorted(found.differs)),
        libraries=found.versions,
    )
    if found.holds_namespace:
        return replace(known, code="not-storable", detail="it holds all variables")
    return known


def _group(found: list[Found], kept: Collection[str], can_be_limited: bool) -> Group:
    # What several names reach is known of the first one only: it holds for all of them.
    runs_code = any(each.runs_code for each in found)
    in_process = any(each.in_process for each in found)
    return Group(
        tuple(each.name for each in found),
        size_bytes=sum(each.size_bytes for each in found),
        runs_code=runs_code,
        in_process=in_process,
        # A child cannot use a GPU; and without a main thread, no time limit is possible here.
        in_child=(runs_code or not can_be_limited) and not in_process,
        gpu=any(each.gpu for each in found),
        plain=all(each.plain for each in found),
        definition=all(each.is_definition for each in found),
        kept=any(each.name in kept for each in found),
    )
