"""What ends the kernel while it is restored does so once, and everything else comes back."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ec2spawner.sleep.waking.crashes import FILE, MARKER, Crashes, interrupted
from tests.unit.sleep.notebook import Notebook

FLAKY = "__version__ = '1'\nclass Thing:\n    a = 1\n"
ABORTS = "import os\nos.abort()\n"


@pytest.fixture
def generation(tmp_path: Path) -> Path:
    """Of a notebook that uses a module which is another one afterwards."""
    (tmp_path / "flaky.py").write_text(FLAKY)
    (tmp_path / "around.py").write_text("import flaky")
    (tmp_path / "beside.py").write_text("a = 1")
    with Notebook(tmp_path) as first:
        first.say(
            "import sys; sys.path.append('.')\n"
            "import around, flaky, beside\n"
            "thing, small, large = flaky.Thing(), [1], [1] * 100_000"
        )
        first.save(tmp_path / "generation")
    (tmp_path / "flaky.py").write_text(ABORTS)
    return tmp_path / "generation"


def dies(home: Path, generation: Path) -> None:
    with Notebook(home) as woken, pytest.raises(AssertionError):
        woken.restore(generation)
    assert woken.process.returncode == -6, "it has aborted"


def test_a_module_ends_the_kernel_once_and_the_rest_comes_back(
    tmp_path: Path, generation: Path
) -> None:
    dies(tmp_path, generation)
    with Notebook(tmp_path) as woken:
        found = woken.restore(generation)
        lost = {each["name"]: (each["code"], each["detail"]) for each in found["lost"]}
        # The first one to import it is not imported, nor what is known to need it.
        assert set(lost) == {"around", "flaky", "thing"}
        assert [lost["around"][0], lost["flaky"][0]] == ["crashed", "crashed"]
        assert "SIGABRT" in lost["flaky"][1]
        assert lost["thing"] == ("needs", "flaky could not be imported")
        assert woken.say("print(small, len(large), beside.a)") == "[1] 100000 1"
        assert not (generation / MARKER).exists()
        woken.save(tmp_path / "next")
        # As soon as it is repaired, here or in a later wake.
        (tmp_path / "flaky.py").write_text(FLAKY)
        assert woken.say("%wake flaky thing") == "Restored flaky, thing."
        assert woken.say("print(thing.a, flaky.__version__)") == "1 1"
    # The next sleep has what is missing, and knows of the module.
    (tmp_path / "flaky.py").write_text(ABORTS)
    with Notebook(tmp_path) as woken:
        again = woken.restore(tmp_path / "next")
        assert {each["name"] for each in again["lost"]} == set(lost)
    (tmp_path / "flaky.py").write_text(FLAKY)
    with Notebook(tmp_path) as woken:
        assert woken.restore(tmp_path / "next")["lost"] == []
    assert not (tmp_path / "next" / FILE).exists()


def test_a_module_that_is_imported_already_is_not_doubted(tmp_path: Path, generation: Path) -> None:
    (generation / FILE).write_text(json.dumps({"flaky": 2, "around": 2}))
    with Notebook(tmp_path) as woken:
        assert {each["code"] for each in woken.restore(generation)["lost"]} == {"crashed", "needs"}
        assert json.loads((generation / FILE).read_text()) == {"flaky": 2, "around": 2}
        (tmp_path / "flaky.py").write_text(FLAKY)
        woken.say("import flaky, around")
        assert woken.restore(generation)["lost"] == []
        assert woken.say("print(thing.a)") == "1"


LESS_GRAVE = pytest.mark.nightly(
    guard="tests/unit/sleep/test_crashes.py::test_a_library_of_another_version_does_not_even_once"
)


@pytest.mark.parametrize(
    "code",
    [
        ABORTS,
        pytest.param("import time; time.sleep(1000)", marks=LESS_GRAVE),
        pytest.param("raise ValueError", marks=LESS_GRAVE),
    ],
)
def test_a_library_of_another_version_does_not_even_once(
    tmp_path: Path, generation: Path, code: str
) -> None:
    (tmp_path / "flaky.py").write_text(code)
    about = tmp_path / "flaky-2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: flaky\nVersion: 2\n")
    with Notebook(tmp_path) as woken:
        if "sleep" in code:
            woken.say("from ec2spawner.sleep.waking import imports; imports.IMPORT_SECONDS = 5.0")
        began = time.monotonic()
        lost = {each["name"]: each["code"] for each in woken.restore(generation)["lost"]}
        assert time.monotonic() - began < 60
        expected = {ABORTS: "crashed", "raise ValueError": "import-failed"}
        assert lost["flaky"] == expected.get(code, "timed-out")
        assert set(lost) == {"around", "flaky", "thing"}
        assert woken.say("print(small, beside.a)") == "[1] 1"


def test_a_value_that_ends_only_the_kernel_does_so_twice(tmp_path: Path) -> None:
    generation = tmp_path / "generation"
    # A trial has a session of its own.
    cell = """
import os
class Value:
    def __setstate__(self, state):
        if state["a"] and os.getsid(0) != os.getpid(): os.abort()
value = Value(); value.a = 0
small = [1]
value.a = 1
"""
    with Notebook(tmp_path) as first:
        first.say(cell)
        first.save(generation)
    dies(tmp_path, generation)
    assert interrupted(generation).endswith(".sleep")
    dies(tmp_path, generation)
    with Notebook(tmp_path) as woken:
        [lost] = woken.restore(generation)["lost"]
        assert (lost["name"], lost["code"]) == ("value", "crashed")
        assert lost["detail"] == "the kernel has ended twice while it was loaded"
        assert woken.say("print(small)") == "[1]"
        woken.save(tmp_path / "next")
    saved = json.loads((tmp_path / "next" / "manifest.json").read_text())
    assert "value" in [each["name"] for each in saved["entries"] if each["saved"]], "its file stays"


def test_modules_stay_known_in_the_next_generation_and_files_do_not(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / FILE).write_text(json.dumps({"flaky": 1, "3.sleep": 1}))
    (one / MARKER).write_text("flaky\nolder text")
    found = Crashes(one)
    assert found.is_refused("flaky")
    assert found.of_files
    found.move_to(two)
    assert Crashes(two).is_refused("flaky")
    assert not Crashes(two).of_files


@pytest.mark.parametrize("content", ["", "[1]", '{"a": "b"}', "{", "[" * 100_000])
def test_a_damaged_list_has_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE).write_text(content)
    found = Crashes(tmp_path)
    assert not found.of_modules
    assert not found.of_files


def test_without_room_for_its_marker_everything_is_restored(tmp_path: Path) -> None:
    found = Crashes(tmp_path / "gone")
    with found, found.noting("a"):
        pass
    assert interrupted(tmp_path / "gone") == ""


def test_the_end_of_a_process_is_noted_and_its_error_is_not(tmp_path: Path) -> None:
    found = Crashes(tmp_path)
    seen = []

    def fails() -> None:
        with found.noting("a"):
            seen.append(interrupted(tmp_path))
            raise ValueError

    with found, pytest.raises(ValueError):  # noqa: PT011
        fails()
    assert seen == ["a"]
    assert not Crashes(tmp_path).of_modules
