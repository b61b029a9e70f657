"""What another version of Python or of a library saved is restored, or reported with the reason.

`EC2SPAWNER_OTHER_PYTHON` may name an interpreter of another version, with IPython and dill.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.sleep.storage.folder import new_generation
from ec2spawner.sleep.storage.manifest import DEFINITION, Entry, Manifest
from ec2spawner.sleep.waking.restoring import Restoring
from tests.unit.sleep.notebook import ROOT, Notebook, entries
from tests.unit.sleep.test_kinds_of_variables import CLASSES, HEAD, SAVED


def test_another_python_restores_definitions_from_their_source(tmp_path: Path) -> None:
    generation = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say("""
import dataclasses, functools
scale = 10
def twice(f):
    @functools.wraps(f)
    def inner(*a): return 2 * f(*a)
    return inner""")
        first.say("""
def times(x, by=scale):
    return x * by""")
        first.say("""
@twice
def loud(x): return x""")
        first.say("""
@dataclasses.dataclass
class Point:
    x: int = scale
    def far(self): return times(self.x)""")
        first.say("""
class Child(Point): pass""")
        first.say("point, child, anonymous, data = Point(3), Child(4), [lambda: 1], {'a': 1}")
        first.say("named = lambda x: 3 * x")
        first.say("pair = lambda x: 1, 2\ntwo = pair[0]")
        first.save(generation)
    path = generation / "manifest.json"
    content = json.loads(path.read_text())
    for each in content["entries"]:
        each["python"] = "3.9"
    path.write_text(json.dumps(content))
    with Notebook(tmp_path) as woken:
        lost = woken.restore(generation)["lost"]
        codes = {each["name"]: each["code"] for each in lost}
        # A lambda that is not all of its statement has no source of its own.
        python = dict.fromkeys(("anonymous", "two"), "python-version")
        assert codes == {**python, "pair": "needs"}
        said = woken.say("print(times(2), loud(2), point, child.far(), type(child) is Child, data)")
        assert woken.say("print(named(2))") == "6"
        assert said == "20 4 Point(x=3) 40 True {'a': 1}"


SOURCES = {
    "Child": """
class Child(Base):
    class Inner:
        made_of = helper(scale=2)
    def broken(self): return gone
""",
    "Base": "class Base: pass\n",
    "gone": "raise ValueError\n",
    "helper": "helper = lambda scale: 2 * scale\n",
    "old": "print 1\n",
}
"""Ordered so that each comes before what it needs."""


def test_a_source_is_run_after_what_it_uses_at_once(tmp_path: Path) -> None:
    generation = new_generation(tmp_path / "sleep" / "kernels" / "key")
    definitions = []
    for number, (name, text) in enumerate(SOURCES.items()):
        (generation / f"{number}.py").write_text(text)
        entry = Entry(name, DEFINITION, saved=True, plain=True, python="3.9")
        definitions.append(replace(entry, file=f"{number}.sleep", source=f"{number}.py"))
    namespace: dict[str, Any] = {}
    found = Restoring(namespace, generation, Manifest(tuple(definitions))).begin(1 << 30)
    assert sorted(found.restored) == ["Base", "Child", "helper"]
    child = namespace["Child"]
    assert (child.__bases__, child.Inner.made_of) == ((namespace["Base"],), 4)
    assert {each.name: (each.code, each.detail) for each in found.lost} == {
        "gone": ("damaged", "its source does not define it"),
        "old": ("damaged", "its source is not valid in this Python"),
    }


def test_paths_of_a_python_that_has_them_in_another_module(tmp_path: Path) -> None:
    generation = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say(
            "import pathlib, sys, types\n"
            "sys.modules['pathlib._local'] = _module = types.ModuleType('pathlib._local')\n"
            "_module.PosixPath = pathlib.PosixPath\n"
            "pathlib.PosixPath.__module__ = 'pathlib._local'\n"
            "path = pathlib.Path('/tmp')"
        )
        first.save(generation)
    assert b"pathlib._local" in (generation / entries(generation)["path"]["file"]).read_bytes()
    with Notebook(tmp_path) as woken:
        woken.restore(generation)
        assert woken.say("print(path.name)") == "tmp"


LIBRARY = """
__version__ = "1"
class Value:
    def __init__(self): self.a = 1
class Gone(Value): pass
class Breaks(Value): pass
class Aborts(Value): pass
class Internal(Value): pass
class Hangs(Value): pass
class Same(Value): pass
"""

NEWER = """
__version__ = "2"
import os, time
class Value: pass
class Breaks:
    def __setstate__(self, state): self.a = state["b"]
class Aborts:
    def __setstate__(self, state): os.abort()
class Internal:
    def __setstate__(self, state): raise SystemError("bad argument to internal function")
class Hangs:
    def __setstate__(self, state): time.sleep(1000)
class Same(Value): pass
"""


def test_each_value_of_another_version_of_its_library_is_restored_or_reported(
    tmp_path: Path,
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, text in ((one, LIBRARY), (other, NEWER)):
        folder.mkdir()
        (folder / "mylib.py").write_text(text)
    (one / "gonelib.py").write_text("class Value: pass")
    generation = tmp_path / "generation"
    with Notebook(tmp_path, environment={"PYTHONPATH": f"{one}:{ROOT}"}) as first:
        first.say(
            "import mylib, gonelib\n"
            "gone, breaks, aborts = mylib.Gone(), mylib.Breaks(), mylib.Aborts()\n"
            "internal, hangs, same = mylib.Internal(), mylib.Hangs(), mylib.Same()\n"
            "absent, fine, both = gonelib.Value(), 1, [same, mylib.Value()]"
        )
        assert all(each["saved"] for each in first.save(generation)["entries"])
    with Notebook(tmp_path, environment={"PYTHONPATH": f"{other}:{ROOT}"}) as woken:
        woken.say("from ec2spawner.sleep.waking import restoring; restoring.LOAD_SECONDS = 1.0")
        lost = {each["name"]: each for each in woken.restore(generation)["lost"]}
        assert {name: each["code"] for name, each in lost.items()} == {
            "gonelib": "import-failed",
            "absent": "import-failed",
            "gone": "failed",
            "breaks": "failed",
            "aborts": "crashed",
            "internal": "failed",
            "hangs": "timed-out",
        }
        assert "Gone" in lost["gone"]["detail"]
        assert "SystemError" in lost["internal"]["detail"]
        assert "SIGABRT" in lost["aborts"]["detail"]
        assert woken.say("print(fine, same.a, both[0] is same, mylib.__version__)") == "1 1 True 2"


OTHER = os.environ.get("EC2SPAWNER_OTHER_PYTHON", "")


@pytest.mark.long
@pytest.mark.skipif(not OTHER, reason="no other version of Python is given")
@pytest.mark.parametrize(("saves", "wakes"), [(sys.executable, OTHER), (OTHER, sys.executable)])
def test_each_kind_wakes_in_another_version_of_python(
    tmp_path: Path, saves: str, wakes: str
) -> None:
    generation = tmp_path / "generation"
    with Notebook(tmp_path, python=saves) as first:
        first.say(HEAD)
        first.say(CLASSES)
        for name, (expression, _) in SAVED.items():
            first.say(f"{name} = {expression}")
        first.save(generation, seconds=40)
    with Notebook(tmp_path, python=wakes) as woken:
        lost = {each["name"]: each["code"] for each in woken.restore(generation)["lost"]}
        # A function within a function has no source of its own.
        assert lost == {"closure": "python-version"}
        wrong = {n: woken.run(f"print({c})") for n, (_, c) in SAVED.items() if n not in lost}
        assert not {n: done for n, done in wrong.items() if done["said"].strip() != "True"}
