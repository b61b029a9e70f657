"""Random programs of cells, and what can be said of the variables that they leave.

A program builds graphs of objects that are shared, cyclic, subclassed, slotted, cached; its
variables are described before a sleep and after a wake by code that has nothing in common with
the product's.
"""

from __future__ import annotations

import enum
import itertools
import types
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

HEAD = """
import abc, collections, dataclasses, enum, functools, threading, types, typing, weakref
import attrs, numpy as np, pandas as pd
"""

ATOMS = (
    "0", "-7", "10**30", "0.5", "-0.0", "float('nan')", "1j", "'text'", "''", "b'raw'", "None",
    "True", "...", "(1, 'a')", "frozenset({1, 2})", "range(3)", "'x' * 70_000",
)  # fmt: skip
ARRAYS = (
    "np.arange(6.0)",
    "np.zeros((2, 3), order='F')",
    "np.array(['a', 'bc'])",
    "np.array([1, 2], 'datetime64[D]')",
    "np.ma.array([1, 2], mask=[True, False])",
    "np.array([(1, 2.0)], [('a', int), ('b', float)])",
    "pd.DataFrame({'a': [1, 2], 'b': ['x', None]})",
    "pd.Series([1.0, float('nan')], index=['p', 'q'])",
)
MUTABLE = (
    "[]", "{}", "set()", "bytearray(b'abc')", "object()", "collections.deque([1], 3)",
    "collections.OrderedDict(z=1, a=2)", "collections.defaultdict(list)", "threading.Lock()",
    "collections.Counter('aab')", "types.SimpleNamespace(a=1)", "np.random.default_rng(3)",
)  # fmt: skip


class Program:
    """Cells, and the names that they leave; made of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._random = Random(seed)
        self._count = 0
        self.names: list[str] = []
        self.classes: list[str] = []
        self.functions: list[str] = []
        self.cells: list[str] = [HEAD]
        for _ in range(self._random.randint(3, 18)):
            self.cells.append(self._random.choice(STATEMENTS)(self))

    def new(self, into: list[str] | None = None) -> str:
        """A new name."""
        self._count += 1
        name = f"v{self._count}"
        self.names.append(name)
        if into is not None:
            into.append(name)
        return name

    def any(self) -> str:
        """An earlier variable, or an atomic value."""
        if self.names and self._random.random() < 0.8:
            return self._random.choice(self.names)
        return self._random.choice(ATOMS)

    def one(self, of: tuple[str, ...] | list[str], default: str = "None") -> str:
        """One of these."""
        return self._random.choice(of) if of else default

    def own(self) -> str:
        """An earlier variable; a new one, where there is none."""
        if not self.names:
            name = self.new()
            self.cells.append(f"{name} = [1]")
        return self._random.choice(self.names)

    def maybe(self) -> bool:
        """Half of the time."""
        return self._random.random() < 0.5


def _atom(p: Program) -> str:
    return f"{p.new()} = {p.one(ATOMS)}"


def _mutable(p: Program) -> str:
    return f"{p.new()} = {p.one(MUTABLE)}"


def _array(p: Program) -> str:
    return f"{p.new()} = {p.one(ARRAYS)}"


def _view(p: Program) -> str:
    one = p.any()
    return f"{p.new()} = {one}[1:] if isinstance({one}, (np.ndarray, list)) else {one}"


def _list(p: Program) -> str:
    items = ", ".join(p.any() for _ in range(3))
    left, right = ("[", "]") if p.maybe() else ("(", ")")
    return f"{p.new()} = {left}{items}{right}"


def _dict(p: Program) -> str:
    one, other = p.any(), p.any()
    return f"{p.new()} = {{'z': {one}, 'a': {other}, 1: ({one},)}}"


def _objects(p: Program) -> str:
    one, other = p.any(), p.any()
    name = p.new()
    return f"{name} = np.empty(2, object); {name}[0], {name}[1] = {one}, {other}"


def _cycle(p: Program) -> str:
    one = p.any()
    name = p.new()
    if p.maybe():
        return f"{name} = [{one}]; {name}.append({name})"
    return f"{name} = {{'own': {one}}}; {name}['self'] = ({name},)"


def _alias(p: Program) -> str:
    one = p.any()
    return f"{p.new()} = {one}"


def _grow(p: Program) -> str:
    one, other = p.own(), p.any()
    return (
        f"if type({one}) is list and len({one}) < 50: {one}.append({other})\n"
        f"if type({one}) is dict and len({one}) < 50: {one}[len({one})] = {other}\n"
    )


def _delete(p: Program) -> str:
    if not p.names:
        return ""
    name = p.one(p.names)
    for each in (p.names, p.classes, p.functions):
        if name in each:
            each.remove(name)
    return f"del {name}"


def _show(p: Program) -> str:
    return f"_ = {p.any()}; __ = _; _{p._count} = _"


def _function(p: Program) -> str:
    one, other = p.any(), p.any()
    name = p.new(p.functions)
    return p.one(
        (
            f"def {name}(x=1, given={one}, *, more={other}): return (x, given is {other})",
            f"{name} = lambda x=2: x * 2",
            f"def {name}(x=1):\n    global {name}_n\n    {name}_n = x\n    return x",
            f"@functools.lru_cache\ndef {name}(x=1): return [x]",
            (
                f"@functools.singledispatch\ndef {name}(x=1): return 'any'\n"
                f"@{name}.register\ndef _(x: int): return 'int'"
            ),
            f"{name} = functools.partial(max, 3, key={p.one(p.functions)})",
            (
                f"exec('def made(x=1):\\n    return held, x', _s := {{'held': {one}}}); "
                f"{name} = _s['made']; del _s"
            ),
        )
    )


def _closures(p: Program) -> str:
    one = p.any()
    first, second = p.new(p.functions), p.new(p.functions)
    return (
        f"def _pair():\n    held, n = {one}, 0\n    def up(x=1):\n        nonlocal n\n"
        f"        n += x\n        return n\n    def get(x=1): return held, n\n"
        f"    return up, get\n{first}, {second} = _pair(); {first}(); del _pair"
    )


def _class(p: Program) -> str:
    one, base = p.any(), p.one(p.classes, "object") if p.maybe() else "object"
    name = p.new(p.classes)
    if base != "object":
        return f"class {name}({base}):\n    more = {one}\n    def extra(self): return __class__"
    return p.one(
        (
            (
                f"class {name}:\n    shared = {one}\n    def __init__(self, a=1): self.a = a\n"
                f"    def get(self, x={one}): return self.a"
            ),
            (
                f"class {name}:\n    __slots__ = ('z', 'b', 'a')\n    def __init__(self, a=1): "
                "self.z, self.a = 1, a"
            ),
            (
                f"@dataclasses.dataclass(slots={p.maybe()}, order=True)\nclass {name}:\n"
                "    a: object = 1\n    b: list = dataclasses.field(default_factory=list)"
            ),
            (
                f"@attrs.define\nclass {name}:\n    a: object = 1\n    b: list = attrs.field("
                "factory=list)"
            ),
            (
                f"class {name}(list):\n    def __init__(self, a=()): super().__init__(); "
                "self.a = a; "
                "self.n = 2\n    def append(self, x): super().append((x, self.n))"
            ),
            (
                f"class {name}(dict):\n    def __init__(self, a=1): super().__init__(k=a)\n"
                "    def __setitem__(self, k, v): super().__setitem__(k, (v,))"
            ),
            (
                f"class {name}(Exception):\n    def __init__(self, a=1): super().__init__('no'); "
                "self.a = a"
            ),
            (
                f"class {name}:\n    def __new__(cls, a=1): s = super().__new__(cls); s.a = a; "
                "return s\n    def __getnewargs__(self): return (self.a,)"
            ),
            (
                f"class {name}:\n    def __init__(self, a=1): "
                "self.a, self.lock = a, threading.Lock()\n"
                "    def __getstate__(self): return {'a': self.a}\n"
                "    def __setstate__(self, s): self.__init__(s['a'])"
            ),
            (
                f"class {name}:\n    made = []\n    def __init__(self, a=1): self.a = a\n"
                f"    def __init_subclass__(cls, **k): {name}.made.append(cls)"
            ),
            (
                f"class {name}(abc.ABC):\n    def __init__(self, a=1): self.a = a\n"
                f"{name}.register(int)"
            ),
            (
                f"class {name}:\n    def __init__(self, a=1): self.a = a\n    def __eq__(self, o): "
                "return True\n    def __hash__(self): return 7"
            ),
            (
                f"class {name}:\n    def __init__(self, a=1): self.a = a\n"
                "    def __setattr__(self, n, "
                "v): object.__setattr__(self, n, [v] if n == 'late' else v)"
            ),
        )
    )


def _plain_enum(p: Program) -> str:
    name = p.new()
    return p.one(
        (
            f"class {name}(enum.Enum):\n    A = 1\n    B = (2, 'b')",
            f"class {name}(enum.IntFlag):\n    R = 1\n    W = 2",
            f"class {name}(str, enum.Enum):\n    A = 'a'\n    def __str__(self): return 'it'",
            (
                f"class {name}(enum.Enum):\n    A = (1, 'r')\n    def __new__(cls, n, t):\n"
                "        m = object.__new__(cls); m._value_ = n; m.t = t; return m"
            ),
        )
    ) + (f"\n{p.new()} = list({name})[0]" if p.maybe() else "")


def _named_tuple(p: Program) -> str:
    one = p.any()
    name = p.new()
    return (
        f"{name} = collections.namedtuple('{name}', 'x y', defaults=[{one}])\n"
        f"{p.new()} = {name}({p.any()})"
    )


def _instance(p: Program) -> str:
    if not p.classes:
        return _class(p)
    kind, one, other = p.one(p.classes), p.any(), p.any()
    name = p.new()
    late = f"\ntry: {name}.late = {other}\nexcept AttributeError: pass" if p.maybe() else ""
    more = f"\nif isinstance({name}, list): {name}.append({other})" if p.maybe() else ""
    return f"{name} = {kind}({one if p.maybe() else ''}){late}{more}"


def _method(p: Program) -> str:
    one = p.any()
    return f"{p.new()} = getattr({one}, 'get', getattr({one}, 'append', None))"


def _weak(p: Program) -> str:
    one = p.own()
    return f"try: {p.new()} = weakref.ref({one})\nexcept TypeError: {p.names[-1]} = 0"


STATEMENTS: tuple[Callable[[Program], str], ...] = (
    _atom, _mutable, _array, _view, _list, _list, _dict, _dict, _objects, _cycle, _alias, _grow,
    _grow, _delete, _show, _function, _function, _closures, _class, _class, _plain_enum,
    _named_tuple, _instance, _instance, _instance, _method, _weak,
)  # fmt: skip


# --- what a variable is ---


class Description:
    """Texts for values: the same text, the same value. Objects are numbered as they are met."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._held: list[Any] = []

    def of(self, value: Any, depth: int = 0) -> str:
        kind = type(value)
        if value is None or kind in (bool, int, str, bytes, complex, range, type(...)):
            return repr(value)[:100]
        if kind is float:
            return repr(value)
        if isinstance(value, enum.Enum):
            return f"{kind.__qualname__}.{value._name_}={value._value_!r}{self._own(value, depth)}"
        if isinstance(value, types.ModuleType | types.BuiltinFunctionType):
            return value.__name__
        if isinstance(value, type) and value.__module__ != "__main__":
            return value.__qualname__
        if id(value) in self._numbers:
            return f"#{self._numbers[id(value)]}"
        if kind not in (tuple, frozenset):
            self._numbers[id(value)] = len(self._numbers)
            self._held.append(value)
        if depth > 12:
            return f"a deep {kind.__qualname__}"
        return f"{kind.__qualname__}({', '.join(self._inside(value, kind, depth + 1))})"

    def _inside(self, value: Any, kind: type, depth: int) -> Iterator[str]:
        if isinstance(value, type):
            yield from self._of_class(value, depth)
        elif kind is types.FunctionType:
            yield from (value.__qualname__, self.of(value.__defaults__, depth))
            yield self.of(value.__kwdefaults__, depth)
            yield from (self.of(each.cell_contents, depth) for each in value.__closure__ or ())
            yield self.of(value.__dict__, depth)
        elif isinstance(value, dict):
            for key, item in dict.items(value):
                yield f"{self.of(key, depth)}: {self.of(item, depth)}"
        elif isinstance(value, (list, tuple)):
            base: Any = list if isinstance(value, list) else tuple
            yield from (self.of(each, depth) for each in base.__iter__(value))
        elif isinstance(value, (set, frozenset)):
            yield from sorted(map(repr, value))
        elif kind.__qualname__ == "Generator":
            yield repr(value.bit_generator.state)
        elif kind.__module__.startswith(("numpy", "pandas")):
            yield from self._of_data(value, depth)
        elif kind is types.MethodType:
            yield from (value.__func__.__qualname__, self.of(value.__self__, depth))
        elif hasattr(value, "cache_info"):
            yield from (self.of(value.__wrapped__, depth), repr(value.cache_info()[2:]))
        elif kind.__qualname__ == "partial":
            yield from (self.of(value.func, depth), self.of(value.args, depth))
        elif kind.__qualname__ == "ReferenceType":
            yield self.of(value(), depth)
        elif kind.__qualname__ in ("deque", "bytearray"):
            yield repr(value)
        elif isinstance(value, BaseException):
            yield self.of(value.args, depth)
        yield self._own(value, depth)

    def _of_data(self, value: Any, depth: int) -> Iterator[str]:
        if not hasattr(value, "dtype") or getattr(value.dtype, "hasobject", True) is not True:
            yield repr(value)[:500]
            yield repr(getattr(getattr(value, "flags", None), "writeable", None))
        elif hasattr(value, "tolist") and not hasattr(value, "index"):
            yield from (self.of(each, depth) for each in value.ravel().tolist())
        else:
            yield repr(value)[:500]

    def _of_class(self, kind: type, depth: int) -> Iterator[str]:
        yield kind.__qualname__
        yield from (self.of(each, depth) for each in kind.__bases__)
        yield repr(kind.__dict__.get("__slots__"))
        for name, value in kind.__dict__.items():
            if (not name.startswith("_") and not hasattr(value, "__get__")) or (
                type(value) is types.FunctionType and not name.startswith("_")
            ):
                yield f"{name}={self.of(value, depth)}"

    def _own(self, value: Any, depth: int) -> str:
        if isinstance(value, type) or type(value).__module__ not in ("__main__", "types"):
            return ""
        found = [
            f"{name}={self.of(each, depth)}"
            for name, each in sorted(getattr(value, "__dict__", {}).items())
            if name[0] != "_"
        ]
        slots = itertools.chain.from_iterable(
            getattr(each, "__slots__", ()) for each in type(value).__mro__
        )
        found += [
            f"{name}={self.of(getattr(value, name), depth)}"
            for name in slots
            if not name.startswith("__") and hasattr(value, name)
        ]
        return ", ".join(found)


def described(namespace: dict[str, Any], names: list[str]) -> dict[str, str]:
    """What each of these variables is, by itself and together with one other."""
    found = {}
    for name in names:
        try:
            found[name] = Description().of(namespace[name]) if name in namespace else "missing"
        except Exception as error:
            found[name] = f"raised {error!r}"
    for one, other in itertools.pairwise(names):
        if one in namespace and other in namespace:
            try:
                found[f"{one} {other}"] = Description().of([namespace[one], namespace[other]])
            except Exception as error:
                found[f"{one} {other}"] = f"raised {error!r}"
    return found
