"""Which names of a namespace are the user's, and which of them a cell uses."""

from __future__ import annotations

import re
import sys
import types
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final

HISTORY: Final = re.compile(r"_+|_i{0,3}\d*|_(oh|dh|ih|ii|iii)|_exit_code")
"""IPython's names for what was typed and shown."""
IPYTHON: Final = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")
MAX_DEPTH: Final = 10_000
"""Functions and classes that are searched for one cell."""


def shell() -> Any:
    """IPython's shell of this process, or None. Nothing is imported."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def namespace(shell: Any) -> dict[str, Any]:
    """Where the user's variables are."""
    if shell is not None:
        found: dict[str, Any] = shell.user_ns
        return found
    return vars(sys.modules["__main__"])


def of_user(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> list[str]:
    """The names that the user has made, in their order.

    `hidden`: what IPython had put there, with its values; a name that has another value is the
    user's.
    """
    nothing = object()
    return [
        name
        for name, value in list(namespace.items())
        if isinstance(name, str)
        and name.isidentifier()
        and not (name.startswith("__") and name.endswith("__"))
        and not HISTORY.fullmatch(name)
        and name not in IPYTHON
        and hidden.get(name, nothing) is not value
    ]


def used_by(code: str, namespace: Mapping[str, Any], wanted: Container[str]) -> list[str]:
    """Which of the wanted names a cell may use, also in the functions of the notebook it names.

    Every word of the cell counts, in strings and magics too: `eval("x")`, `%timeit x.sum()` and
    `!echo {x}` use `x`. A word too many costs a wait, one too few an error.
    """
    found: list[str] = []
    seen: set[str] = set()
    waiting = [unicodedata.normalize("NFKC", word) for word in IDENTIFIER.findall(code)]
    while waiting and len(seen) < MAX_DEPTH:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in namespace:
            waiting += names_in(namespace[name])
        elif name in wanted:
            found.append(name)
    return found


def names_in(value: Any) -> list[str]:
    """The names that a function or class of the notebook uses, or the class of an object."""
    if not isinstance(value, (type, types.FunctionType)):
        value = (
            getattr(value, "__func__", None) if isinstance(value, types.MethodType) else type(value)
        )
    names: set[str] = set()
    for code in _codes(value, set()):
        names.update(code.co_names)
    return list(names)


def _codes(value: Any, seen: set[int]) -> Iterator[types.CodeType]:
    if id(value) in seen or getattr(value, "__module__", None) != "__main__":
        return
    seen.add(id(value))
    if isinstance(value, types.FunctionType):
        yield from _nested(value.__code__)
        for cell in value.__closure__ or ():
            try:
                yield from _codes(cell.cell_contents, seen)
            except ValueError:  # empty
                continue
    elif isinstance(value, type):
        for kind in value.__mro__[:-1]:
            for each in _functions(vars(kind).values()):
                yield from _codes(each, seen)


def _functions(values: Iterable[Any]) -> Iterator[Any]:
    for each in values:
        if isinstance(each, property):
            yield from filter(None, (each.fget, each.fset, each.fdel))
        else:
            yield getattr(each, "__func__", each)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _nested(each)
