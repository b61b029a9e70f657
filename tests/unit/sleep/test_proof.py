"""What was saved is loaded once in a child and compared: nothing of the copy acts, and what is not
as it was is said before the machine is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.sleep.notebook import Notebook, entries

TRAPS = """
import atexit, gc, os, pathlib, shutil, socket, subprocess, sys, threading, weakref
HERE, HOME_PID = os.getcwd(), os.getpid()
def sprung(name, pid=0):
    with open(os.path.join(HERE, name + ".sprung"), "a") as file:
        file.write(str(pid or os.getpid()))
class Ends:
    def __getstate__(self): return {"a": 1}
    def __del__(self): sprung("del")
class EndsUnnamed(Ends):
    def __del__(self): sprung("del-unnamed")
class Folder:
    def __init__(self): os.makedirs("live", exist_ok=True)
    def __getstate__(self): return {}
    def __setstate__(self, state): self.__init__()
    def __del__(self): shutil.rmtree("live", ignore_errors=True)
class Fails:
    def __getstate__(self): return {"a": 1}
    def __setstate__(self, state): raise ValueError("not here")
    def __del__(self): sprung("del-of-failure")
class Finalized:
    def __getstate__(self): return {}
    def __setstate__(self, state): weakref.finalize(self, sprung, "finalize")
class Acts:
    def __init__(self, act): self.act = act
    def __getstate__(self): return {"act": self.act}
    def __setstate__(self, state): self.__init__(state["act"]); self.act()
def start_thread(): threading.Thread(target=sprung, args=("thread",)).start()
def start_process(): subprocess.run(f"echo -n {os.getpid()} >{HERE}/process.sprung", shell=True)
def fork():
    pid = os.getpid()
    if os.fork() == 0: sprung("fork", pid); os._exit(0)
def connect(): socket.create_connection(("127.0.0.1", 9), timeout=1)
def remove(): os.remove(os.path.join(HERE, "kept.txt"))
def write(): open(os.path.join(HERE, "kept.txt"), "w").close()
def at_exit(): atexit.register(sprung, "atexit")
class Watched:
    def __getstate__(self): return {}
pathlib.Path("kept.txt").write_text("kept")
atexit.register(sprung, "own-atexit")
gc.callbacks.append(lambda *_: sprung("gc") if os.getpid() != HOME_PID else None)
sys.setprofile(lambda *_: sprung("profile") if os.getpid() != HOME_PID else None)
ends, unnamed, folder, fails, final = Ends(), EndsUnnamed(), Folder(), Fails(), Finalized()
del EndsUnnamed
thread, process, forks = Acts(start_thread), Acts(start_process), Acts(fork)
connects, removes, writes, exits = Acts(connect), Acts(remove), Acts(write), Acts(at_exit)
watched = Watched(); watch = weakref.ref(watched, lambda _: sprung("callback"))
"""
"""Twelve things that a copy must not do, and those that the notebook itself does at its end."""

OUTSIDE = ("thread", "process", "forks", "connects", "removes", "writes")
"""What acts outside as it is restored: not proved, and the reason is said."""


def sprung(home: Path) -> set[str]:
    return {path.stem for path in home.glob("*.sprung")}


@pytest.mark.slow(seconds=6)
def test_no_copy_acts_while_it_is_proved(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say(TRAPS)
        first.save(folder)
        assert sprung(tmp_path) == set()
        assert (tmp_path / "live").is_dir()
        assert (tmp_path / "kept.txt").read_text() == "kept"
        assert first.say("print(type(ends).__del__ is not None, threading.active_count())")
        found = entries(folder)
    assert {name: found[name]["unproved"][:12] for name in OUTSIDE} == dict.fromkeys(
        OUTSIDE, "restoring it"
    )
    assert (found["fails"]["saved"], found["fails"]["code"]) == (False, "not-restorable")
    assert found["ends"]["proved"]
    assert found["folder"]["saved"]


@pytest.mark.slow(seconds=6)
def test_no_copy_acts_while_it_is_tried_at_a_wake(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say(
            TRAPS.replace("thread, process", "_, process").replace("Acts(start_thread), ", "0, ")
        )
        first.save(folder)
    before = sprung(tmp_path)
    with Notebook(tmp_path) as woken:
        # The wake itself runs what the notebook's own classes do; its child, nothing.
        woken.say(f"import os, pathlib; _home = {str(tmp_path)!r}")
        woken.restore(folder)
        pid = woken.say("print(os.getpid())")
    for path in tmp_path.glob("*.sprung"):
        if path.stem not in before:
            assert path.read_text() == pid, path


CHANGED = {
    "a value": (("class Log(list):\n    def __reduce__(self): return (Log, ([*self, 1],))\n"
                "log = Log()"), "log"),
    "what a class leaves out": (
        ("class Lazy:\n    def __init__(self): self.a, self.cache = 1, 2\n"
        "    def __getstate__(self): return {'a': self.a}\nlazy = Lazy()"), "lazy"),
    "a type": (
        "class Odd:\n    def __reduce__(self): return (list, ([1],))\nodd = Odd()", "odd"),
    "an order": (
        ("class Turned(dict):\n    def __reduce__(self): return (Turned, (), None, None, "
        "iter(list(self.items())[::-1]))\nturned = Turned(a=1, b=2)"), "turned"),
    "the same object": (
        ("class Twice:\n    def __init__(self): self.one = self.other = [1]\n"
        "    def __getstate__(self): return {'one': [1], 'other': [1]}\ntwice = Twice()"), "twice"),
    "below another": (
        ("class Part:\n    def __init__(self): self.n = 1\n"
        "    def __setstate__(self, s): self.n = s['n'] + 1\n"
         "whole = {'parts': [Part()]}"), "whole"),
}  # fmt: skip


@pytest.mark.slow(seconds=4)
def test_what_comes_back_changed_is_said_and_where(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        for cell, _ in CHANGED.values():
            first.say(cell)
        first.say("same = {'a': [1, 2.0, 'x'], 'b': (None,)}")
        first.save(folder)
    found = entries(folder)
    differs = {what: found[name]["differs"] for what, (_, name) in CHANGED.items()}
    assert differs == {key: ["changed"] for key in CHANGED}
    assert found["whole"]["detail"].startswith("whole['parts'][0].n has another value")
    assert (found["same"]["proved"], found["same"]["differs"]) == (True, [])


def test_without_time_what_was_saved_is_not_proved(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say("x = [1]")
        first.say("from ec2spawner.sleep import saving; saving.PROOF_SECONDS = 0.0")
        first.say("saving.PROOF_SHARE = 0.0")
        first.save(folder)
    assert (entries(folder)["x"]["saved"], entries(folder)["x"]["proved"]) == (True, False)


SETTINGS = """
import decimal, os, random, numpy as np, pandas as pd
from IPython.core.magic import register_line_magic
@register_line_magic
def hello(line): return 'hello'
decimal.getcontext().prec = 50
pd.set_option("display.max_rows", 7)
random.seed(3); np.random.seed(4)
os.environ["MINE"] = "1"
"""


def test_settings_of_the_process_are_set_again_or_listed(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    asked = (
        "print(decimal.getcontext().prec, pd.get_option('display.max_rows'), random.random(), "
        "np.random.rand())"
    )
    with Notebook(tmp_path) as first:
        first.say(SETTINGS)
        unkept = first.save(folder)["unkept"]
        before = first.say(asked)
    assert unkept == ["environment variables: MINE", "magics of this notebook: %hello"]
    with Notebook(tmp_path) as woken:
        result: dict[str, Any] = woken.restore(folder)
        assert woken.say(asked) == before
    assert result["unkept"] == unkept


def test_a_kernel_in_use_keeps_its_settings(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    with Notebook(tmp_path) as first:
        first.say("import decimal; decimal.getcontext().prec = 50; x = 1")
        first.save(folder)
    with Notebook(tmp_path) as woken:
        woken.say("import decimal; decimal.getcontext().prec = 9; x = 2")
        woken.restore(folder)
        assert woken.say("print(decimal.getcontext().prec, x)") == "9 2"


def test_a_json_that_the_notebook_has_patched_leaves_the_manifest_readable(tmp_path: Path) -> None:
    folder = tmp_path / "generation"
    patched = (
        "import json; from ec2spawner import sleep\n"
        "dumps, encode = json.dumps, json.JSONEncoder.encode\n"
        "json.dumps = lambda value, **_: 'patched'\n"
        "json.JSONEncoder.encode = lambda self, value: 'patched'\n"
        "x, y = 1, type('Y', (), {})()\n"
        f"sleep.save({str(folder)!r}, seconds=9, max_bytes=1 << 30)\n"
        "json.dumps, json.JSONEncoder.encode = dumps, encode"
    )
    with Notebook(tmp_path) as first:
        first.say(patched)
    assert {"x", "y"} <= {name for name, each in entries(folder).items() if each["proved"]}
