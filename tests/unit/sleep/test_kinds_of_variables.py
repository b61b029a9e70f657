"""Each kind of variable is saved or reported; none hangs, and none loses another."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.unit.sleep.notebook import Notebook, entries

HEAD = """
import abc, array, ast, asyncio, collections, contextlib, contextvars, ctypes, dataclasses, datetime
import decimal, enum, fractions, functools, io, ipaddress, itertools, logging, mmap, operator, os
import pathlib, queue, random, re, select, socket, sqlite3, struct, subprocess, sys, tempfile
import threading, time, traceback, types, typing, uuid, weakref, zoneinfo
"""

SAVED = {
    "number": ("2 ** 100", "number == 2 ** 100"),
    "text": ("'é' * 10", "text == 'é' * 10"),
    "raw": ("b'x' * 100_000", "raw == b'x' * 100_000"),
    "mutable": ("bytearray(b'abc')", "mutable == b'abc'"),
    "numbers": ("list(range(500_000))", "numbers == list(range(500_000))"),
    "nested": ("{'a': [1, {2: (3, {4})}]}", "nested == {'a': [1, {2: (3, {4})}]}"),
    "frozen": ("frozenset({1, 2})", "frozen == {1, 2}"),
    "deque": ("collections.deque([1], 3)", "deque.maxlen == 3"),
    "default": ("collections.defaultdict(list, a=[1])", "default['b'] == []"),
    "ordered": ("collections.OrderedDict(a=1)", "ordered['a'] == 1"),
    "count": ("collections.Counter('aab')", "count['a'] == 2"),
    "chain": ("collections.ChainMap({}, {'a': 1})", "chain['a'] == 1"),
    "day": ("datetime.date(2026, 1, 2)", "day.day == 2"),
    "instant": (
        "datetime.datetime(2026, 1, 2, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin'))",
        "instant.tzinfo.key == 'Europe/Berlin'",
    ),
    "money": ("decimal.Decimal('1.10')", "str(money) == '1.10'"),
    "third": ("fractions.Fraction(1, 3)", "third * 3 == 1"),
    "path": ("pathlib.Path('/tmp')", "path.name == 'tmp'"),
    "pattern": ("re.compile('a+', re.I)", "bool(pattern.match('AA'))"),
    "identity": ("uuid.UUID(int=1)", "identity.int == 1"),
    "address": ("ipaddress.ip_address('127.0.0.1')", "address.is_loopback"),
    "packed": ("array.array('d', [1.0])", "packed[0] == 1.0"),
    "dice": ("random.Random(3)", "dice.random() == random.Random(3).random()"),
    "space": ("types.SimpleNamespace(a=1)", "space.a == 1"),
    "slots": ("slice(1, 2)", "slots.stop == 2"),
    "span": ("range(0, 10, 2)", "list(span) == [0, 2, 4, 6, 8]"),
    "failure": ("ValueError('no', 1)", "failure.args == ('no', 1)"),
    "nothing": ("None", "nothing is None"),
    "dots": ("...", "dots is ..."),
    "complexity": ("1 + 2j", "complexity.imag == 2"),
    "log": ("logging.getLogger('a')", "log is logging.getLogger('a')"),
    "kind": ("dict[str, list[int]]", "kind == dict[str, list[int]]"),
    "union": ("int | None", "union == int | None"),
    "partial": ("functools.partial(int, base=2)", "partial('11') == 3"),
    "getter": ("operator.itemgetter(1)", "getter('ab') == 'b'"),
    "builtin": ("len", "builtin is len"),
    "library": ("json_dumps", "library([]) == '[]'"),
    "stream": ("io.StringIO('abc')", "stream.read() == 'abc'"),
    "octets": ("io.BytesIO(b'abc')", "octets.read() == b'abc'"),
    "anonymous": ("lambda x: x + 1", "anonymous(1) == 2"),
    "closure": ("(lambda n: (lambda: n))([5])", "closure() == [5]"),
    "tree": ("ast.parse('a = 1')", "tree.body[0].value.value == 1"),
    "lock": ("threading.Lock()", "lock.acquire()"),
    "counter": ("itertools.count(3)", "next(counter) == 3"),
    "handle": ("Plain()", "type(handle) is Plain and handle.a == 1"),
    "slotted": ("Slotted()", "slotted.a == 1"),
    "meta": ("WithMeta()", "meta.tag == 'made'"),
    "abstract": ("Concrete()", "isinstance(abstract, Abstract)"),
    "generic": ("Box[int](3)", "generic.value == 3 and Box.__parameters__ == (T,)"),
    "prints": ("Prints()", "prints.a == 1"),
    "flags": ("Flag.A | Flag.B", "flags == Flag.A | Flag.B"),
    "typed": ("Typed(1)", "typed.b == 2"),
    "weak": ("weakref.ref(handle)", "weak() is handle"),
    "members": ("[handle, handle.__class__]", "members[0] is handle and members[1] is Plain"),
    "variable": ("typing.TypeVar('variable', bound=int)", "variable.__bound__ is int"),
    "new_type": ("typing.NewType('new_type', int)", "new_type.__supertype__ is int"),
    "frozen_data": ("FrozenData(1)", "frozen_data == FrozenData(1)"),
    "proxy": (
        "weakref.proxy(handle)",
        "is_weak_proxy(proxy) and proxy.__repr__.__self__ is handle",
    ),
    "callable_proxy": ("weakref.proxy(wait)", "is_weak_proxy(callable_proxy)"),
    "dead_proxy": ("weakref.proxy(Plain())", "is_weak_proxy(dead_proxy) and is_gone(dead_proxy)"),
}
"""Name -> how it is made, and what is true of it after waking."""

LOST = {
    "generator": ("(x for x in [1])", "not-storable"),
    "coroutine": ("wait()", "not-storable"),
    "file": ("open(os.devnull, 'w')", "not-storable"),
    "temporary": ("tempfile.NamedTemporaryFile()", "not-storable"),
    "connection": ("socket.socket()", "not-storable"),
    "thread": ("threading.Thread(target=print)", "not-storable"),
    "process": ("subprocess.Popen(['true'])", "not-storable"),
    "database": ("sqlite3.connect(':memory:')", "not-storable"),
    "mapped": ("mmap.mmap(-1, 10)", "not-storable"),
    "frame": ("sys._getframe()", "not-storable"),
    "everything": ("globals()", "not-storable"),
    "shell": ("get_ipython()", "not-storable"),
    "output": ("sys.__stdout__", "not-storable"),
    "hangs": ("Hostile(lambda: time.sleep(1000))", "timed-out"),
    "spins": ("Hostile(spin)", "timed-out"),
    "exits": ("Hostile(sys.exit)", "failed"),
    "disappears": ("Hostile(lambda: os._exit(0))", "crashed"),
    "crashes": ("Hostile(lambda: ctypes.string_at(0))", "crashed"),
    "kills": ("Hostile(lambda: os.kill(os.getpid(), 9))", "crashed"),
    "raises": ("Hostile(lambda: 1 / 0)", "failed"),
    "deep": ("Deep()", "too-deep"),
    "fills": ("Hostile(fill)", "memory|timed-out"),
    "wakes_never": ("HangsAtWake()", "timed-out"),
    "wakes_dead": ("ExitsAtWake()", "crashed"),
    "answers_never": ("Silent()", "timed-out"),
    "far": ("weakref.proxy(kept_alive(Silent()))", "timed-out"),
    "says_no_class": ("Liar()", "failed"),
    "hidden_class": ("Refuses('Hidden', (), {'__module__': '__main__'})", "failed"),
    "of_hidden_class": ("hidden_class()", "failed"),
}
"""Name -> how it is made, and why it is not saved."""

CLASSES = """
from json import dumps as json_dumps
class Plain:
    def __init__(self): self.a = 1
class Slotted:
    __slots__ = ("a",)
    def __init__(self): self.a = 1
class Meta(type):
    def __new__(cls, name, bases, space):
        return super().__new__(cls, name, bases, {**space, "tag": "made"})
class WithMeta(metaclass=Meta): pass
class Abstract(abc.ABC):
    @abc.abstractmethod
    def act(self): ...
class Concrete(Abstract):
    def act(self): return 1
T = typing.TypeVar("T")
class Box(typing.Generic[T]):
    def __init__(self, value): self.value = value
class Prints:
    def __getstate__(self): print("noise"); return {"a": 1}
class Flag(enum.Flag):
    A = enum.auto()
    B = enum.auto()
class Typed(typing.NamedTuple):
    a: int
    b: int = 2
@dataclasses.dataclass(frozen=True, slots=True)
class FrozenData:
    a: int
async def wait(): pass
class Hostile:
    def __init__(self, act): self.act = act
    def __reduce__(self): return self.act()
class Deep:
    def __reduce__(self): return Deep, (Deep(),)
def spin():
    while True:
        try:
            while True: pass
        except BaseException: pass
def fill():
    held = []
    while True: held.append(bytearray(10 ** 8))
class Silent:
    def __getattribute__(self, name): time.sleep(1000)
    def __getstate__(self): return {}
class Liar:
    __class__ = property(lambda self: 1 / 0)
class Refuses(type):
    def __getattribute__(cls, name): raise RuntimeError(name)
def kept_alive(value): sys.kept = value; return value
def is_weak_proxy(value): return type(value) in weakref.ProxyTypes
def is_gone(value):
    try: value.a
    except ReferenceError: return True
class HangsAtWake:
    def __init__(self): self.a = 1
    def __setstate__(self, state): time.sleep(1000)
class ExitsAtWake:
    def __init__(self): self.a = 1
    def __setstate__(self, state): os._exit(3)
"""


@pytest.mark.slow(seconds=25)
def test_each_kind_is_saved_or_reported(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say(HEAD)
        first.say(CLASSES)
        for name, (expression, _) in [*SAVED.items(), *LOST.items()]:
            first.say(f"{name} = {expression}")
        # For those that hang.
        first.say("from ec2spawner.sleep import plan; plan.USUAL_LIMIT = 2.0")
        began = time.monotonic()
        first.save(folder, seconds=40)
        assert time.monotonic() - began < 45
        assert first.say("print(number == 2 ** 100, handle.a)") == "True 1"
        found = entries(folder)
    wrong_codes = [n for n, (_, code) in LOST.items() if found[n]["code"] not in code.split("|")]
    assert not wrong_codes, [found[name] for name in wrong_codes]
    assert {name: found[name]["code"] for name in SAVED} == dict.fromkeys(SAVED, "")
    assert len(SAVED) + len(LOST) > 60
    # The survey has asked neither of them.
    assert {found[name]["sharing"] for name in ("answers_never", "far")} == {"complete"}
    with Notebook(tmp_path) as woken:
        result = woken.restore(folder)
        lost = {each["name"]: each for each in result["lost"]}
        assert lost.keys() == LOST.keys(), [lost[each] for each in lost.keys() - LOST.keys()]
        wrong = [n for n, (_, check) in SAVED.items() if woken.say(f"print({check})") != "True"]
        assert not wrong


def test_a_kernel_whose_value_crashes_at_waking_lives(tmp_path: Path) -> None:
    """What loads well when it is saved may still end a process later."""
    folder = tmp_path / "generation"
    switch = tmp_path / "switch"
    cell = f"""
import os, pathlib, time
class Later:
    def __init__(self, act): self.act = act
    def __setstate__(self, state):
        if pathlib.Path({str(switch)!r}).exists(): state["act"]()
exits, fine = Later(lambda: os._exit(1)), {{"a": 1}}
"""
    with Notebook(tmp_path) as first:
        first.say(cell)
        saved = first.save(folder)
        assert all(each["saved"] for each in saved["entries"])
    switch.touch()
    with Notebook(tmp_path) as woken:
        lost = woken.restore(folder)["lost"]
        assert [(each["name"], each["code"]) for each in lost] == [("exits", "crashed")]
        assert woken.say("print(fine)") == "{'a': 1}"
