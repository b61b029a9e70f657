"""Which names a cell uses: a variable that waits is restored before the cell that needs it."""

from __future__ import annotations

import time
import types
from typing import Any

import pytest

from ec2spawner.sleep import naming

DEFINED = """
import functools, threading
def total(): return sum(data)
class Holder:
    scale = staticmethod(lambda: scale)
    def total(self): return total()
    @functools.cached_property
    def cached(self): return memo
    @property
    def shown(self): return label
    @classmethod
    def made(cls): return maker
class Child(Holder): pass
class Called:
    def __init__(self, callback): self.callback = callback
def logged(f):
    @functools.wraps(f)
    def inner(*args): return f(*args)
    return inner
@logged
def wrapped(): return data
@functools.lru_cache
def remembered(): return data
def outer():
    def inner(): return [data for _ in range(1)]
    return inner
made, holder, kind = outer(), Child(), Child
functions = {"total": lambda: data}
nested = [({"deep": (Called(lambda: data),)},)]
partial = functools.partial(max, key=lambda each: data)
method, timer = holder.total, threading.Timer(1, total)
default = lambda x=total: x()
simple = [1, {"a": "data"}]
numbers = list(range(1_000_000))
recursive = []; recursive.append(recursive)
"""


@pytest.fixture(scope="module")
def namespace() -> dict[str, Any]:
    module = types.ModuleType("__main__")
    exec(DEFINED, vars(module))
    return vars(module)


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("data", {"data"}),
        ("x = data[1:]; del x", {"data"}),
        ("del data", {"data"}),
        ("%timeit data.sum()", {"data"}),
        ("!echo {data}", {"data"}),
        ("f'{data}'", {"data"}),
        ("eval('data + 1'), globals()['scale']", {"data", "scale"}),
        ("with open('data') as f: pass", {"data"}),
        ("total()", {"data"}),
        ("holder.total()", {"data", "memo", "label", "maker", "scale"}),
        ("kind", {"data", "memo", "label", "maker", "scale"}),
        ("wrapped()", {"data"}),
        ("remembered()", {"data"}),
        ("made()", {"data"}),
        ("functions['total']()", {"data"}),
        ("for each in nested: run(each)", {"data"}),
        ("partial([1])", {"data"}),
        ("timer.start()", {"data"}),
        ("default()", {"data"}),
        ("method()", {"data", "memo", "label", "maker", "scale"}),
        ("simple, numbers, recursive", set()),
        ("eval('da' + 'ta')", set()),
        ("dir()", set()),
    ],
)
def test_names_are_found_where_a_cell_can_reach_them(
    namespace: dict[str, Any], cell: str, found: set[str]
) -> None:
    wanted = {"data", "memo", "label", "maker", "scale"}
    assert set(naming.used_by(cell, namespace, wanted)) == found


def test_large_containers_cost_little(namespace: dict[str, Any]) -> None:
    namespace |= {"many": [{"n": [n]} for n in range(200_000)]}
    namespace |= {f"many{n}": [{"n": [n]} for n in range(5000)] for n in range(50)}
    cell = " ".join(namespace)
    began = time.process_time()
    naming.used_by(cell, namespace, {"data"})
    assert time.process_time() - began < 0.5


def test_a_name_that_is_missing_is_found_in_the_error(namespace: dict[str, Any]) -> None:
    def missing(code: str) -> list[str]:
        try:
            exec(code, namespace)
        except Exception as error:
            return naming.missing_in(error, namespace)
        return []

    assert missing("gone") == ["gone"]
    assert missing("globals()['go' + 'ne']") == ["gone"]
    namespace["main"] = types.SimpleNamespace()
    assert missing("main.gone") == []
    chained = "try:\n gone\nexcept NameError as e:\n raise RuntimeError('no') from e"
    assert missing(chained) == ["gone"]
    assert missing("1 / 0") == missing("{}[1]") == []
