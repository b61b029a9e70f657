"""What a user has after waking: the same values, related to each other as before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.sleep.notebook import ROOT, Notebook, entries, sleep_and_wake


def test_objects_are_instances_of_the_classes_that_are_there_after_waking(tmp_path: Path) -> None:
    cell = """
import dataclasses, enum
from collections import namedtuple
class Base:
    def name(self): return "base"
class Model(Base):
    def name(self): return super().name() + "+"
    class Part:
        pass
@dataclasses.dataclass
class Point:
    x: int
    tags: list = dataclasses.field(default_factory=list)
class Color(enum.Enum):
    RED = 1
    def shout(self): return self.name + "!"
Pair = namedtuple("Pair", "a b")
model, part, point, red, pair = Model(), Model.Part(), Point(1), Color.RED, Pair(1, 2)
"""
    with sleep_and_wake(tmp_path, [cell]) as woken:
        assert (
            woken.say(
                "print(type(model) is Model, isinstance(model, Base), model.name(),"
                " type(part) is Model.Part, type(point) is Point, point == Point(1),"
                " red is Color.RED, red.shout(), type(pair) is Pair, pair)"
            )
            == "True True base+ True True True True RED! True Pair(a=1, b=2)"
        )


def test_classes_refer_to_themselves_and_their_instances(tmp_path: Path) -> None:
    cell = """
import dataclasses, functools, typing
class Registry:
    all = []
    def __init__(self): Registry.all.append(self)
    @classmethod
    def last(cls): return cls.all[-1]
    @staticmethod
    def two(): return 2
    @property
    def three(self): return 3
    @functools.cached_property
    def four(self): return 4
    class Inner:
        def __init_subclass__(cls, **given): cls.given = given
class Child(Registry.Inner, size=3): pass
one = Registry()
Registry.one = one
@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Point:
    x: int
    y: list = dataclasses.field(default_factory=list)
class Row(typing.NamedTuple):
    a: int
    b: int = 2
    def total(self): return self.a + self.b
@functools.lru_cache(maxsize=5)
def cached(n): return n if n < 2 else cached(n - 1) + cached(n - 2)
def pair():
    n = 0
    def up():
        nonlocal n; n += 1
    def get(): return n
    return up, get
up, get = pair()
def recursive():
    def inner(k): return 1 if k == 0 else k * inner(k - 1)
    return inner
factorial = recursive()
"""
    with sleep_and_wake(tmp_path, [cell]) as woken:
        assert woken.say(
            "up(); up()\n"
            "print(Registry.last() is one is Registry.one, Registry.two(), one.three, one.four,"
            " Child.given, [f.name for f in dataclasses.fields(Point)], Point(1) < Point(2),"
            " dataclasses.replace(Point(1), x=5).x, Row(1).total(), cached(30),"
            " cached.cache_info().maxsize, get(), factorial(5))"
        ) == ("True 2 3 4 {'size': 3} ['x', 'y'] True 5 3 832040 5 2 120")


def test_variables_share_what_they_shared(tmp_path: Path) -> None:
    cell = """
import weakref
class Node: pass
node = Node()
nodes = [node, node]
shared = {"a": [1]}
first, second = {"x": shared}, (shared, 2)
alias = shared
loop = []; loop.append(loop)
seen = weakref.ref(node)
method = node.__init__
add, length = nodes.append, len
import types
settings = {"a": 1}
shown, hidden = types.MappingProxyType(settings), types.MappingProxyType({"b": 1})
of_class = vars(Node)
"""
    with sleep_and_wake(tmp_path, [cell]) as woken:
        assert (
            woken.say(
                "print(nodes[0] is node, nodes[1] is node, first['x'] is second[0] is shared,"
                " loop[0] is loop, seen() is node, method.__self__ is node,"
                " settings.update(a=2), shown['a'], hidden, add(1), nodes[2], length is len)"
            )
            == "True True True True True True None 2 {'b': 1} None 1 True"
        )


def test_what_cannot_be_saved_together_is_said_to_have_copies(tmp_path: Path) -> None:
    with Notebook(tmp_path) as first:
        first.say("shared = [1]; a, b, lost = [shared], {1: shared}, [shared, (n for n in ())]")
        first.say("other = [1]; open_file = [other, open('x', 'w')]")
        first.save(tmp_path / "generation")
    found = entries(tmp_path / "generation")
    codes = {name: (each["code"], each["differs"]) for name, each in found.items()}
    copied = dict.fromkeys(("shared", "a", "b"), ("", ["no-longer-shared"]))
    # What shared it alone is not there to see a difference.
    assert codes.items() >= {**copied, "other": ("", [])}.items()
    assert codes["lost"][0] == codes["open_file"][0] == "not-storable"


def test_what_values_print_while_they_are_restored_is_dropped(tmp_path: Path) -> None:
    cell = """
import sys
class Loud:
    def __setstate__(self, state):
        sys.stdout.write("loud"); print("louder"); sys.stdout.flush()
        self.__dict__.update(state)
loud, open = Loud(), 2
loud.a = 1
"""
    with Notebook(tmp_path) as first:
        first.say(cell)
        first.save(tmp_path / "generation")
    with Notebook(tmp_path) as woken:
        assert woken.restore(tmp_path / "generation")["lost"] == []
        assert woken.say("print(loud.a, open)") == "1 2"


def test_functions_have_their_closures_defaults_and_globals(tmp_path: Path) -> None:
    cells = [
        """
import functools
scale = 10
def counter():
    n = 0
    def count():
        nonlocal n
        n += 1
        return n
    return count
count = counter(); count()
def times(x, by=[2]):
    "Multiplies."
    return x * by[0] * scale
times.calls = 3
double = lambda x: 2 * x
both = {"f": double, "g": lambda: times(1)}
@functools.lru_cache
def cached(x): return x + 1
def outer(f):
    @functools.wraps(f)
    def inner(*args): return f(*args) + 1
    return inner
@outer
def wrapped(x): return times(x)
partial = functools.partial(times, by=[3])
"""
    ]
    with sleep_and_wake(tmp_path, cells) as woken:
        assert (
            woken.say(
                "scale = 100\n"
                "print(count(), times(1), times.__doc__, times.calls, double(4),"
                " both['f'] is double, both['g'](), wrapped(1), partial(1))"
            )
            == "2 200 Multiplies. 3 8 True 200 201 300"
        )


def test_tracebacks_and_the_next_sleep_have_the_source(tmp_path: Path) -> None:
    cells = ["x = 1", "\ndef fails():\n    # here\n    return 1 / 0\nclass C:\n    a = 1"]
    with sleep_and_wake(tmp_path, cells) as woken:
        assert "# here" in woken.say("import inspect; print(inspect.getsource(fails))")
        woken.save(tmp_path / "next")
        found = entries(tmp_path / "next")
        assert "# here" in (tmp_path / "next" / found["fails"]["source"]).read_text()
        assert "a = 1" in (tmp_path / "next" / found["C"]["source"]).read_text()


def test_modules_are_imported_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "mine.py").write_text("answer = 42")
    cell = f"""
import sys; sys.path.append({str(tmp_path / "lib")!r})
import json as j, xml.etree.ElementTree as ET, mine
from os.path import join
holder = [j, mine]
import os; os.chdir({str(tmp_path / "lib")!r})
"""
    with sleep_and_wake(tmp_path, [cell]) as woken:
        said = woken.say(
            "print(j.dumps([]), ET.__name__, mine.answer, join('a', 'b'), holder[1] is mine,"
            " os.path.basename(os.getcwd()))"
        )
        assert said == "[] xml.etree.ElementTree 42 a/b True lib"


def test_only_folders_that_the_session_added_are_searched_and_last(tmp_path: Path) -> None:
    mine, ours = tmp_path / "mine", tmp_path / "ours"
    for folder, answer in ((mine, 1), (ours, 2)):
        folder.mkdir()
        (folder / "answers.py").write_text(f"answer = {answer}")
    with Notebook(tmp_path) as first:
        first.say(f"import sys; sys.path.insert(0, {str(mine)!r})")
        assert first.save(tmp_path / "generation")["search_path"] == [str(mine)]
    environment = {"PYTHONPATH": f"{ROOT}:{ours}"}
    with Notebook(tmp_path, environment=environment) as woken:
        woken.restore(tmp_path / "generation")
        said = woken.say("import sys, answers; print(answers.answer, sys.path[-1])")
        assert said == f"2 {mine}"


def test_large_variables_wait_for_the_first_cell_that_names_them(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    cell = """
small, data, other = 1, list(range(200_000)), list(range(200_001))
def total(): return sum(data)
class Holder:
    def total(self): return total()
holder = Holder()
"""
    with Notebook(tmp_path) as first:
        first.say(cell)
        first.save(folder)
    with Notebook(tmp_path) as woken:
        assert set(woken.restore(folder, eager_bytes=100_000)["later"]) == {"data", "other"}
        listed = woken.say("print([x for x in sorted(globals()) if x in ('d' 'ata', 'other')])")
        assert listed == "Not listed, because they still wait: data.\n['other']"
        assert woken.say("print(holder.total())") == str(sum(range(200_000)))
    with Notebook(tmp_path) as woken:
        woken.restore(folder, eager_bytes=100_000)
        assert woken.say("print(eval('len(data)'))") == "200000"
        done = woken.run("print(len(eval('oth' + 'er')))")
        assert done["error"].startswith("NameError")
        assert "other was asleep, and is restored now: run the cell again" in done["said"]
        assert woken.say("print(len(eval('oth' + 'er')))") == "200001"


def test_what_hides_a_builtin_does_not_wait(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say("max, data, rest = [list(range(200_000 + n)) for n in range(3)]")
        first.save(folder)
    with Notebook(tmp_path) as woken:
        assert woken.restore(folder, eager_bytes=10)["later"] == ["data", "rest"]
        assert woken.say("print(len(eval('m' + 'ax')))") == "200000"
        said = woken.run("globals()['re' + 'st']")["said"]
        assert "rest was asleep, and is restored now: run the cell again" in said
        # After this, nothing comes back by itself.
        woken.say("%reset -f")
        assert woken.run("print(eval('da' + 'ta'))")["said"].count("asleep") == 0


def test_what_was_assigned_meanwhile_is_never_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say("a, b = 1, list(range(100_000))")
        first.save(folder)
    with Notebook(tmp_path) as woken:
        woken.say("a = 'mine'")
        found = woken.restore(folder, eager_bytes=10_000)
        assert found["yours"] == ["a"]
        assert found["later"] == ["b"]
        woken.say("globals()['b' + ''] = 'mine too'")
        assert woken.say("%wake b\nprint(a, b)").endswith("mine mine too")


def test_what_still_waits_is_in_the_next_sleep(tmp_path: Path) -> None:
    with Notebook(tmp_path) as first:
        first.say("data = list(range(100_000))")
        first.save(tmp_path / "one")
    with Notebook(tmp_path) as second:
        second.restore(tmp_path / "one", eager_bytes=10)
        second.say("fresh = 1")
        second.save(tmp_path / "two")
    with Notebook(tmp_path) as third:
        third.restore(tmp_path / "two")
        assert third.say("print(len(data), fresh)") == "100000 1"


def test_registered_functions_save_a_type_and_the_most_specific_wins(tmp_path: Path) -> None:
    cell = """
from ec2spawner import sleep
class Shape:
    def __init__(self, text): self.text = text
    def __reduce__(self): raise TypeError("not this way")
class Square(Shape): pass
def save(value, file): file.write(value.text.encode())
def load(file): return Shape(file.read().decode())
def load_square(file): return Square("square " + file.read().decode())
sleep.register(Shape, save, load)
sleep.register(Square, save, load_square)
shapes = {"plain": Shape("a"), "square": Square("b")}
"""
    with sleep_and_wake(tmp_path, [cell]) as woken:
        assert (
            woken.say(
                "print(type(shapes['plain']) is Shape, shapes['plain'].text, shapes['square'].text)"
            )
            == "True a square b"
        )


def test_magics_save_restore_keep_and_forget(tmp_path: Path) -> None:
    with Notebook(tmp_path) as first:
        first.say("x, raw, lines = [1, 2], 'raw', (n for n in ())")
        assert "Saved first: x." in first.say("%keep x")
        assert "Not saved: raw." in first.say("%forget raw")
        said = first.say("%sleep")
        assert "Saved 1 variable" in said
        assert "a generator" in said
    with Notebook(tmp_path) as woken:
        assert "Restored 1 name" in woken.say("%wake")
        assert woken.say("print(x, 'raw' in globals())") == "[1, 2] False"
        assert "Saved first: x." in woken.say("%keep")
    with Notebook(tmp_path, path="elsewhere.ipynb") as other:
        assert "Nothing was saved for this notebook" in other.say("%wake")
        assert "Restored 1 name" in other.say("%wake work.ipynb")
        assert other.say("print(x)") == "[1, 2]"


def test_waking_another_notebook_keeps_what_was_said_in_this_one(tmp_path: Path) -> None:
    with Notebook(tmp_path, path="other.ipynb") as other:
        other.say("a, b, raw = 1, 2, 3")
        other.say("%keep a b\n%forget raw")
        other.say("%sleep")
    with Notebook(tmp_path) as mine:
        mine.say("%keep model raw\n%forget data a")
        mine.say("%wake other.ipynb")
        assert "Saved first: b, model, raw." in mine.say("%keep")
        assert "Not saved: data, a." in mine.say("%forget")


def test_without_dill_the_rest_is_saved(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "dill.py").write_text("raise ImportError('not here')")
    with Notebook(tmp_path) as first:
        first.say(f"import sys; sys.path.insert(0, {str(hidden)!r})")
        first.say("data, function = {'a': 1}, {}.keys()")
        first.save(tmp_path / "generation")
    found = entries(tmp_path / "generation")
    assert found["data"]["saved"]
    assert found["function"]["code"] == "no-dill"


@pytest.mark.parametrize("statement", ["import ec2spawner.sleep", "import ec2spawner.sleep.magics"])
def test_importing_it_imports_nothing_large(tmp_path: Path, statement: str) -> None:
    with Notebook(tmp_path) as notebook:
        said = notebook.say(
            f"import sys\n{statement}\n"
            "print([m for m in ('dill', 'numpy', 'ec2spawner.sleep.kernel') if m in sys.modules])"
        )
        assert said == "[]"


def test_many_objects_are_saved_and_say_that_sharing_was_not_searched(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say("many = [{'n': n} for n in range(400_000)]; one = [1]; two = {'one': one}")
        first.save(folder, seconds=20)
    found = entries(folder)
    assert found["many"]["saved"]
    assert found["many"]["sharing"] == "partial"
    assert found["one"]["sharing"] == "complete"
    with Notebook(tmp_path) as woken:
        woken.restore(folder)
        assert woken.say("print(len(many), two['one'] is one)") == "400000 True"
