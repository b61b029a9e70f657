"""A variable of the user's may have a name of IPython's: it is the value that says whose it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ec2spawner.sleep import naming
from ec2spawner.sleep.outcome import CarriedOver
from ec2spawner.sleep.saving import save_namespace
from ec2spawner.sleep.storage import earlier
from ec2spawner.sleep.storage.manifest import Entry
from tests.unit.sleep.notebook import Notebook, entries

PRICES = ("open", "high", "low", "exit", "quit")


def test_prices_are_saved_and_the_shells_own_are_not(tmp_path: Path) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.save(tmp_path / "one")
        notebook.say(f"{', '.join(PRICES)} = [1], [2], [3], [4], [5]")
        notebook.say("from IPython import get_ipython")
        notebook.save(tmp_path / "two")
        # The names are IPython's again.
        notebook.say("%reset -f")
        notebook.save(tmp_path / "three")
    assert not {*PRICES, "get_ipython"} & entries(tmp_path / "one").keys()
    found = entries(tmp_path / "two")
    assert {name: found[name]["saved"] for name in PRICES} == dict.fromkeys(PRICES, True)
    assert "get_ipython" not in found
    assert not {*PRICES, "get_ipython"} & entries(tmp_path / "three").keys()


def test_a_name_is_of_the_shell_by_its_value() -> None:
    hidden: dict[str, Any] = {"open": open, "nothing": None}
    assert naming.is_of_shell("open", open, hidden)
    assert naming.is_of_shell("nothing", None, hidden)
    assert not naming.is_of_shell("open", [1], hidden)
    assert not naming.is_of_shell("close", None, hidden)


def test_what_waits_or_is_kept_is_not_hidden_by_the_shells_own(tmp_path: Path) -> None:
    """`open` waits to be restored, `exit` has an earlier value: the shell has both names."""

    def save(namespace: dict[str, Any], folder: Path, **about: Any) -> dict[str, Entry]:
        saved = save_namespace(namespace, folder, seconds=20, max_bytes=1 << 30, **about)
        return {each.name: each for each in saved.entries}

    hidden: dict[str, Any] = {"open": open, "exit": exit}
    first = save({"open": [1], "exit": [2]}, tmp_path / "one", hidden=hidden)
    waits = [CarriedOver(first["open"], tmp_path / "one")]
    known = earlier.values(tmp_path / "one")
    namespace: dict[str, Any] = {**hidden, "other": 1}
    second = save(
        namespace,
        tmp_path / "two",
        hidden=hidden,
        carried_over=waits,
        known=known,
        absent=["exit"],
    )
    assert second.keys() == {"open", "exit", "other"}
    assert second["open"].saved
    assert (second["exit"].code, second["exit"].earlier) == ("not-restored", known["exit"].saved_at)
