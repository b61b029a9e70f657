"""What a sleep cannot save keeps the value of an earlier one, which is offered as what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from ec2spawner.sleep.storage import earlier, folder, manifest
from tests.unit.sleep.notebook import Notebook, entries

FULL = "from ec2spawner.sleep import plan\nplan.RESERVE_SHARE, plan.RESERVE_BYTES = 1, 1 << 62"
MODEL = "class Model:\n    def __init__(self): self.weights = [1] * 1000\nmodel, step = Model(), 1"


def sleep_again(notebook: Notebook, kernel: Path, max_bytes: int = 1 << 30, more: str = "") -> Path:
    """A generation after which the earlier ones are removed, as far as they may be."""
    made = folder.new_generation(kernel)
    notebook.say(
        "import ec2spawner.sleep as _sleep\n"
        f"_sleep.save({str(made)!r}, seconds=30, max_bytes={max_bytes}{more})"
    )
    earlier.remove_older(made)
    return made


def test_an_old_value_is_offered_and_never_restored_by_itself(tmp_path: Path) -> None:
    kernel = tmp_path / ".ec2spawner" / "sleep" / "kernels" / "key"
    with Notebook(tmp_path) as notebook:
        notebook.say(f"{MODEL}\nother = bytearray(200_000)")
        first = sleep_again(notebook, kernel)
        notebook.say("model.weights[0], step = 2, 2\nother = None")
        second = sleep_again(notebook, kernel, max_bytes=1500)
    assert folder.generations(kernel) == [first, second]
    assert entries(second)["step"]["saved"]
    lost = {each["name"]: each for each in manifest.summary(manifest.read(second))["lost"]}
    assert lost["model"]["kept_of"] == manifest.read(first).saved_at
    assert sum(each.stat().st_size for each in first.glob("*.sleep")) < 100_000, "other is gone"
    with Notebook(tmp_path) as woken:
        [lost] = woken.restore(second)["lost"]
        assert (lost["name"], lost["code"]) == ("model", "no-space")
        assert lost["kept_of"] == manifest.read(first).saved_at
        assert woken.say("print(step, 'model' in globals())") == "2 False"
        said = woken.run("model")
        assert "NameError" in said["error"]
        assert "Its value of 20" in said["said"]
        assert "%wake model" in said["said"]
        third = sleep_again(woken, kernel)
        assert folder.generations(kernel) == [first, third], "nobody has woken it yet"
        assert "Restored model." in woken.say("%wake model")
        assert woken.say("print(model.weights[0], type(model) is Model)") == "1 True"
        last = sleep_again(woken, kernel)
    assert folder.generations(kernel) == [last]


def test_what_was_deleted_or_forgotten_is_not_kept(tmp_path: Path) -> None:
    kernel = tmp_path / ".ec2spawner" / "sleep" / "kernels" / "key"
    with Notebook(tmp_path) as notebook:
        notebook.say("a, b, c = 'a' * 5000, 'b' * 5000, 1")
        first = sleep_again(notebook, kernel)
        notebook.say("del a")
        assert sleep_again(notebook, kernel, max_bytes=100)
        assert first in folder.generations(kernel)
        notebook.say("%forget b c")
        last = sleep_again(notebook, kernel, max_bytes=100)
    assert folder.generations(kernel) == [last]


def test_what_could_not_be_woken_is_kept_beside_the_next_sleep(tmp_path: Path) -> None:
    kernel = tmp_path / ".ec2spawner" / "sleep" / "kernels" / "key"
    with Notebook(tmp_path) as notebook:
        notebook.say("a = 1")
        first = sleep_again(notebook, kernel)
    with Notebook(tmp_path) as notebook:
        notebook.say("b = 2")
        second = sleep_again(notebook, kernel, more=f", asleep={str(first)!r}")
    assert folder.generations(kernel) == [first, second]
    with Notebook(tmp_path) as woken:
        [lost] = woken.restore(second)["lost"]
        assert (lost["name"], lost["code"]) == ("a", "not-restored")
        file = first / entries(first)["a"]["file"]
        content = file.read_bytes()
        file.write_bytes(content[:-1])
        said = woken.say("%wake a")
        assert "a could not be restored: " in said
        assert "Restored nothing." in said
        file.write_bytes(content)
        assert woken.say("%wake a") == "Restored a."
        assert woken.say("print(a, b)") == "1 2"


BY_MAGIC = pytest.mark.nightly(
    guard="tests/unit/sleep/test_earlier_values.py::"
    "test_a_process_that_is_new_deletes_nothing_of_the_one_before"
)


@pytest.mark.parametrize("how", ["order", pytest.param("magic", marks=BY_MAGIC)])
def test_a_process_that_is_new_deletes_nothing_of_the_one_before(tmp_path: Path, how: str) -> None:
    """It was killed, or its user started fresh beside a session that sleeps."""
    with Notebook(tmp_path) as notebook:
        notebook.say("model, step = [1] * 1000, 1")
        notebook.say("%sleep")
        kernel = Path(
            notebook.say("from ec2spawner.sleep import kernel\nprint(kernel.kernel_folder())")
        )
    [first] = folder.generations(kernel)
    with Notebook(tmp_path) as notebook:
        notebook.say("step = 2")
        if how == "magic":
            notebook.say("%sleep")
        else:
            sleep_again(notebook, kernel)
        [_, second] = folder.generations(kernel)
        lost = {each["name"]: each for each in manifest.summary(manifest.read(second))["lost"]}
        assert lost["model"]["code"] == "not-restored"
        assert lost["model"]["kept_of"] == manifest.read(first).saved_at
        assert notebook.say("%wake model\nprint(len(model), step)").endswith("1000 2")
        third = sleep_again(notebook, kernel)
        assert folder.generations(kernel) == [third]
        notebook.say("del model")
        last = sleep_again(notebook, kernel)
        assert not manifest.read(last).lost
    assert folder.generations(kernel) == [last], "this process had it, and deleted it"


def test_waking_another_notebook_keeps_what_sleeps_of_this_one(tmp_path: Path) -> None:
    for path, name in (("a.ipynb", "mine"), ("b.ipynb", "other")):
        with Notebook(tmp_path, path=path) as notebook:
            notebook.say(f"{name} = [1]\n%sleep")
    with Notebook(tmp_path, path="a.ipynb") as fresh:
        fresh.say("%wake b.ipynb")
        assert "1 not saved" in fresh.say("%sleep")
        assert fresh.say("%wake mine\nprint(mine, other)").endswith("[1] [1]")


def test_earlier_values_have_a_bound(tmp_path: Path) -> None:
    kernel = tmp_path / ".ec2spawner" / "sleep" / "kernels" / "key"
    with Notebook(tmp_path) as notebook:
        notebook.say("small, large = 'a' * 5000, 'b' * 50_000")
        first = folder.new_generation(kernel)
        notebook.save(first)
        second = folder.new_generation(kernel)
        notebook.save(second, max_bytes=100)
    earlier.remove_older(second, keep_bytes=10_000)
    kept = earlier.kept_values(second, manifest.read(second))
    there = [name for name, each in kept.items() if (first / each.entry.file).exists()]
    assert there == ["small"]
