"""Which names of a namespace are the user's, and which of them a cell uses."""

from __future__ import annotations

import collections
import gc
import itertools
import re
import sys
import types
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, Final

HISTORY: Final = re.compile(r"_+|_i{0,3}\d*|_(oh|dh|ih|ii|iii)|_exit_code")
"""IPython's names for what was typed and shown."""
IPYTHON: Final = frozenset({"In", "Out", "get_ipython"})
"""Never the user's, whatever their values are: many notebooks import `get_ipython`."""
OF_MODULE: Final = frozenset(
    "__annotate__ __annotations__ __builtin__ __builtins__ __cached__ __conditional_annotations__"
    " __debug__ __doc__ __file__ __loader__ __name__ __package__ __path__ __spec__".split()
)
"""What Python and IPython put into every module: another one has its own."""
IDENTIFIER: Final = re.compile(r"[^\W\d]\w*")
LISTING: Final = re.compile(r"\b(dir|globals|locals|vars|who(_ls|s)?)\b")
"""What shows the names that there are."""
RESET: Final = re.compile(r"^\s*%?reset\b(?!_)", re.MULTILINE)
MAX_OBJECTS: Final = 50_000
"""That are searched for functions for one cell: 50 milliseconds."""
MAX_OBJECTS_OF_NAME: Final = 2000
"""That are searched below one name."""
MAX_ITEMS: Final = 200
"""Of one container."""
MAX_CHAIN: Final = 20
"""Errors that caused each other."""


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
    return [
        name
        for name, value in list(namespace.items())
        if isinstance(name, str)
        and name.isidentifier()
        and name not in OF_MODULE
        and not HISTORY.fullmatch(name)
        and name not in IPYTHON
        and not is_of_shell(name, value, hidden)
    ]


def is_of_shell(name: str, value: Any, hidden: Mapping[str, Any]) -> bool:
    """Whether a name of the namespace has the value that IPython gave it, such as its own `open`.

    Then the user has no variable of this name. `hidden`: as for `of_user`.
    """
    return name in hidden and hidden[name] is value


def used_by(code: str, namespace: Mapping[str, Any], wanted: Container[str]) -> list[str]:
    """Which of the wanted names a cell may use, also in the functions of the notebook it names.

    Every word of the cell counts, in strings and magics too: `eval("x")`, `%timeit x.sum()` and
    `!echo {x}` use `x`. A word too many costs a wait, one too few an error.
    """
    found: list[str] = []
    seen: set[str] = set()
    visited = {id(namespace)}
    waiting = [unicodedata.normalize("NFKC", word) for word in IDENTIFIER.findall(code)]
    while waiting and len(visited) < MAX_OBJECTS:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in namespace:
            waiting += names_in(namespace[name], namespace, visited)
        elif name in wanted:
            found.append(name)
    return found


def names_in(value: Any, namespace: Mapping[str, Any], seen: set[int]) -> set[str]:
    """The names that the notebook's functions and classes use which a value reaches.

    Also in containers, attributes, closures and decorators. The search is bounded, and runs no
    code of the objects. `seen`: the identities of those that were searched.
    """
    names: set[str] = set()
    waiting = collections.deque([value])
    last = len(seen) + MAX_OBJECTS_OF_NAME
    while waiting and len(seen) < last:
        each = waiting.popleft()
        if id(each) in seen or type(each) is types.ModuleType:
            continue
        seen.add(id(each))
        if type(each) is types.FunctionType and each.__globals__ is namespace:
            for code in _nested(each.__code__):
                names.update(code.co_names)
        waiting.extend(_below(each))
    return names


def missing_in(error: BaseException | None, namespace: Mapping[str, Any]) -> list[str]:
    """The names that a failed cell did not find, also by `globals()[name]` or in the module."""
    found: list[str] = []
    for _ in range(MAX_CHAIN):
        match error:
            case None:
                break
            case NameError(name=str(name)):
                found.append(name)
            case KeyError(args=[str(name)]):
                found.append(name)
            case AttributeError(name=str(name), obj=types.ModuleType() as module):
                if vars(module) is namespace:
                    found.append(name)
        error = error.__cause__ or error.__context__
    return found


def _below(value: Any) -> Iterable[Any]:
    kind = type(value)
    if kind is types.FunctionType:
        closure = value.__closure__ or ()
        return (*closure, value.__defaults__, value.__kwdefaults__, value.__dict__)
    if issubclass(kind, type):
        own = type.__dict__["__dict__"].__get__(value)
        is_ours = own.get("__module__") == "__main__"
        return (*own.values(), *value.__bases__) if is_ours else ()
    if kind is dict:
        return itertools.islice(value.values(), MAX_ITEMS)
    if kind in (list, tuple, set, frozenset):
        return itertools.islice(value, MAX_ITEMS)
    return (kind, *gc.get_referents(value)[:MAX_ITEMS])


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _nested(each)
