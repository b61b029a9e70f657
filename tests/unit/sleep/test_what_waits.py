"""Variables that are not restored yet survive the next sleep, however that one ends."""

from __future__ import annotations

import contextlib
from pathlib import Path

from ec2spawner.sleep.storage import folder
from tests.unit.sleep.notebook import Notebook, entries


def slept(home: Path, generation: Path) -> None:
    with Notebook(home) as notebook:
        notebook.say("data = bytearray(300_000)")
        notebook.save(generation)


def test_the_magic_removes_no_file_that_is_still_needed(tmp_path: Path) -> None:
    with Notebook(tmp_path) as first:
        first.say("data = bytearray(300_000)")
        first.say("%sleep")
    with Notebook(tmp_path) as woken:
        woken.say("from ec2spawner.sleep import magics\nmagics.EAGER_BYTES = 0")
        woken.say("%wake")
        woken.say("%sleep")
        assert woken.say("print(len(data))") == "300000"


def test_a_link_needs_no_free_space(tmp_path: Path) -> None:
    slept(tmp_path, tmp_path / "one")
    with Notebook(tmp_path) as woken:
        woken.restore(tmp_path / "one", eager_bytes=0)
        woken.say(
            "from ec2spawner.sleep import plan\nplan.RESERVE_SHARE, plan.RESERVE_BYTES = 1, 1 << 62"
        )
        woken.save(tmp_path / "two")
    assert entries(tmp_path / "two")["data"]["saved"]


def test_a_kernel_that_dies_while_it_saves_has_noted_what_waits(tmp_path: Path) -> None:
    slept(tmp_path, tmp_path / "one")
    with Notebook(tmp_path) as woken:
        woken.restore(tmp_path / "one", eager_bytes=0)
        woken.say(
            "import ec2spawner.sleep.saving as s, os\ns._Saving._save = lambda *a: os._exit(9)"
        )
        with contextlib.suppress(AssertionError, BrokenPipeError):
            woken.save(tmp_path / "two")
    assert folder.conclude(tmp_path / "two", "died")
    assert entries(tmp_path / "two")["data"]["saved"]


def test_waking_another_notebook_restores_what_waits_of_the_first(tmp_path: Path) -> None:
    slept(tmp_path, tmp_path / "a" / "one")
    with Notebook(tmp_path) as other:
        other.say("x = 1")
        other.save(tmp_path / "b" / "one")
    with Notebook(tmp_path) as woken:
        woken.restore(tmp_path / "a" / "one", eager_bytes=0)
        woken.restore(tmp_path / "b" / "one")
        woken.save(tmp_path / "a" / "two")
    assert entries(tmp_path / "a" / "two")["data"]["saved"]


MEMORY = """
from ec2spawner.sleep import kernel
from ec2spawner.sleep.waking import restoring, trials
from ec2spawner.sleep.bounds.memory import Memory
kernel.memory = restoring.memory = trials.memory = lambda: Memory({available}, 8 << 30)
"""


def test_what_no_cell_has_named_leaves_memory_for_the_next_ones(tmp_path: Path) -> None:
    with Notebook(tmp_path) as first:
        first.say("small, large = bytearray(300_000), bytearray(400_000)")
        first.save(tmp_path / "one")
    reserve = int(0.1 * (8 << 30))
    with Notebook(tmp_path) as woken:
        woken.restore(tmp_path / "one", eager_bytes=0)
        woken.say(MEMORY.format(available=reserve + 350_000))
        idle = "kernel.current().idle(); print([*kernel.current().pending])"
        assert woken.say(idle) == "['large']"
        assert woken.say(idle) == "['large']"
        assert woken.say("print(len(large))") == "400000", "a cell names it, and it fits"


def test_what_does_not_fit_is_reported_and_kept(tmp_path: Path) -> None:
    with Notebook(tmp_path) as first:
        first.say("small, large = bytearray(300_000), bytearray(400_000)")
        first.save(tmp_path / "one")
    with Notebook(tmp_path) as woken:
        woken.say(MEMORY.format(available=350_000))
        [lost] = woken.restore(tmp_path / "one")["lost"]
        assert (lost["name"], lost["code"]) == ("large", "memory")
        assert "needs more memory" in woken.say("%wake large\nprint(len(small))")
        woken.save(tmp_path / "two")
        woken.say(MEMORY.format(available=500_000))
        assert woken.say("%wake large") == "Restored large."
    with Notebook(tmp_path) as larger:
        assert larger.restore(tmp_path / "two")["lost"] == []
        assert larger.say("print(len(large))") == "400000"
