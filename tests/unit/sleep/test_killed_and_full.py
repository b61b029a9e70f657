"""A save that is killed, or that has no room, leaves what was saved before as it was."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ec2spawner.sleep.saving import save_namespace
from ec2spawner.sleep.storage import earlier, folder, manifest
from ec2spawner.sleep.waking.restoring import Restored, Restoring
from tests.unit.sleep.notebook import Notebook, entries

VARIABLES = """
import json
shared = [1]
a, b = {"x": shared}, {"y": shared}
numbers = list(range(100_000))
def double(x): return 2 * x
functions = {"f": double}
class Model:
    def __reduce__(self): return Model, ()
model = Model()
"""

KILLED_AT = """
import os, signal, sys
from ec2spawner import sleep as _sleep
def _attempt(folder, number):
    # Whether a save that is killed at its nth change of the folder came to its end.
    child = os.fork()
    if child == 0:
        try:
            _count = [0]
            def hook(event, arguments):
                if event not in ("open", "os.rename", "os.link", "os.remove"): return
                if any(folder in str(each) for each in arguments[:2]):
                    _count[0] += 1
                    if _count[0] == number and os.getppid() == parent:
                        os.kill(os.getpid(), signal.SIGKILL)
            parent = os.getppid()
            sys.addaudithook(hook)
            _sleep.save(folder, seconds=30, max_bytes=1 << 30)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""


def load(generation: Path) -> Restored:
    return Restoring({}, generation, manifest.read(generation)).begin(1 << 30)


@pytest.mark.nightly(guard="tests/unit/notebook/test_killed_sleep.py::test_a_complete_sleep")
@pytest.mark.slow(seconds=20)
def test_killed_at_every_point_the_last_complete_generation_is_there(tmp_path: Path) -> None:
    kernel = tmp_path / "sleep" / "kernels" / "key"
    with Notebook(tmp_path) as notebook:
        notebook.say(VARIABLES)
        notebook.say(KILLED_AT)
        first = folder.new_generation(kernel)
        notebook.save(first)
        expected = {each.name for each in manifest.read(first).entries if each.name[0] != "_"}
        killed = complete = 0
        for number in range(1, 1000):
            generation = folder.new_generation(kernel)
            status = int(notebook.say(f"print(_attempt({str(generation)!r}, {number}))"))
            latest = folder.latest(kernel)
            assert latest is not None
            if status == 0:
                assert latest == generation
                break
            assert status == -9
            killed += 1
            complete += latest == generation
            assert latest in (first, generation)
            if latest == first:
                earlier.remove_older(generation)
                assert first.exists()
                concluded = folder.conclude(generation, "timed-out")
                # As far as it came: what it says is saved can be restored.
                if concluded:
                    found = load(generation)
                    assert not {each.code for each in found.lost} - {"timed-out"}
            else:
                assert {each.name for each in manifest.read(generation).entries} >= expected
            shutil.rmtree(generation)
        assert killed > 15
        assert complete <= 2
    found = load(first)
    assert set(found.restored) >= expected
    assert not found.lost


def test_without_room_the_large_is_reported_and_the_small_is_saved(tmp_path: Path) -> None:
    generation = tmp_path / "generation"
    with Notebook(tmp_path) as notebook:
        notebook.say("large, small, other = b'x' * 1_000_000, b'y' * 10_000, [1]")
        notebook.say("%keep large")
        notebook.save(generation, max_bytes=100_000)
    found = entries(generation)
    assert found["large"]["code"] == "no-space"
    assert found["small"]["saved"]
    assert found["other"]["saved"]
    assert sum(each.stat().st_size for each in generation.glob("*.sleep")) <= 100_000
    assert not list(generation.glob("*.saving"))


def test_a_disk_that_refuses_is_reported_and_leaves_no_rest(tmp_path: Path) -> None:
    generation = tmp_path / "generation"
    with Notebook(tmp_path) as notebook:
        notebook.say(
            "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
            "class Large:\n"
            "    def __reduce__(self): return Large, (b'x' * 1_000_000,)\n"
            "large, mine, small = b'x' * 1_000_000, Large(), b'y' * 10_000\n"
            "%keep large mine"
        )
        notebook.save(generation)
    found = entries(generation)
    assert {name: found[name]["code"] for name in ("large", "mine", "small")} == {
        "large": "no-space",
        "mine": "no-space",
        "small": "",
    }
    assert not list(generation.glob("*.saving"))


def test_a_manifest_that_fails_for_another_reason_than_space_costs_no_variable(
    tmp_path: Path,
) -> None:
    """The kernel's server concludes the save from its journal."""
    generation = tmp_path / "generation"
    (generation / f"manifest.json.{os.getpid()}").mkdir(parents=True)
    generation.chmod(0o700)
    with pytest.raises(IsADirectoryError):
        save_namespace({"a": [1]}, generation, seconds=20, max_bytes=1 << 30, hidden={})
    (generation / f"manifest.json.{os.getpid()}").rmdir()
    assert folder.conclude(generation, "failed")
    assert load(generation).restored == ["a"]


def test_at_the_deadline_the_rest_is_reported(tmp_path: Path) -> None:
    generation = tmp_path / "generation"
    with Notebook(tmp_path) as notebook:
        notebook.say(
            "import time\n"
            "class Slow:\n"
            "    def __reduce__(self): time.sleep(0.5); return Slow, ()\n"
            "many = {}\n"
            "for n in range(20): globals()[f'slow{n}'] = Slow()\n"
            "quick = 1"
        )
        notebook.save(generation, seconds=3)
    saved = manifest.read(generation)
    assert saved.seconds < 8, "all would take 10 seconds"
    codes = {each.name: each.code for each in saved.entries}
    assert codes["quick"] == ""
    slow = [code for name, code in codes.items() if name.startswith("slow")]
    assert set(slow) == {"", "deadline"}


@pytest.mark.parametrize("damage", ["cut", "changed", "missing", "fifo", "link"])
def test_a_damaged_file_is_reported_and_the_others_are_restored(
    tmp_path: Path, damage: str
) -> None:
    generation = tmp_path / "generation"
    with Notebook(tmp_path) as notebook:
        notebook.say("first, second = [1] * 100, [2]")
        notebook.save(generation)
    file = generation / entries(generation)["first"]["file"]
    content = bytearray(file.read_bytes())
    others = [generation]
    if damage == "cut":
        others = []
        for length in range(0, len(content), 7):
            copy = tmp_path / f"cut{length}"
            shutil.copytree(generation, copy)
            (copy / file.name).write_bytes(content[:length])
            others.append(copy)
    elif damage == "changed":
        others = []
        for place in range(19, len(content), 5):
            copy = tmp_path / f"changed{place}"
            shutil.copytree(generation, copy)
            changed = bytearray(content)
            changed[place] ^= 0x11
            (copy / file.name).write_bytes(changed)
            others.append(copy)
    else:
        file.unlink()
        if damage == "fifo":
            os.mkfifo(file)
        elif damage == "link":
            file.symlink_to("/etc/passwd")
    for each in others:
        found = load(each)
        assert [lost.name for lost in found.lost] in ([], ["first"])
        assert "second" in found.restored
    assert damage == "changed" or [lost.code for lost in found.lost] != []
