"""What is wrong with one variable is noted for it, and the others are saved in their time."""

from __future__ import annotations

import copyreg
import errno
import importlib.util
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.sleep import failure
from ec2spawner.sleep.saving import save_namespace
from ec2spawner.sleep.storage import manifest
from ec2spawner.sleep.survey import kinds
from ec2spawner.sleep.survey.walk import entry_of, survey
from ec2spawner.sleep.values import definitions, pickling
from ec2spawner.wire.sleep import LostVariable
from tests.unit.sleep.notebook import Notebook, entries


def save(namespace: dict[str, Any], folder: Path, **about: Any) -> dict[str, manifest.Entry]:
    saved = save_namespace(
        namespace, folder, seconds=20, max_bytes=1 << 30, **{"hidden": {}, **about}
    )
    return {each.name: each for each in saved.entries}


def test_a_definition_whose_source_is_broken_or_late_is_saved_without_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("def f():\n    return 1\n")
    with Notebook(tmp_path) as notebook:
        notebook.say("%run -i script.py")
        script.write_text("def f():\n    return (1\n")
        notebook.say(
            "import time\n"
            "class Late(type):\n"
            "    def __getattr__(cls, name): time.sleep(1000)\n"
            "class Odd(metaclass=Late): pass\n"
            "class Silent:\n"
            "    def __getattribute__(self, name): time.sleep(1000)\n"
            "class Holds:\n"
            "    held = Silent()\n"
            "from ec2spawner.sleep import plan; plan.USUAL_LIMIT = 1.0"
        )
        notebook.save(tmp_path / "generation")
    found = entries(tmp_path / "generation")
    about = {n: (e["saved"], e["code"], bool(e["source"])) for n, e in found.items()}
    assert about["f"] == about["Odd"] == (True, "", False)
    # It cannot be saved as it is, but its source is there.
    assert about["Holds"] == (True, "", True)
    assert about["Silent"] == (True, "", True)


def test_a_library_whose_version_hangs_costs_a_part_of_the_survey(tmp_path: Path) -> None:
    for library, act in (("mylib", "time.sleep(1000)"), ("other", "1 / 0")):
        (tmp_path / f"{library}.py").write_text(
            "import time\n"
            "class Value: pass\n"
            "def __getattr__(name):\n"
            f"    if name == '__version__': {act}\n"
            "    raise AttributeError(name)\n"
        )
    with Notebook(tmp_path) as notebook:
        notebook.say(
            "import sys; sys.path.append('.')\n"
            "from mylib import Value\nfrom other import Value as Other\n"
            "values, others, more = [Value()], [Other()], [Value(), 1]"
        )
        saved = notebook.save(tmp_path / "generation", seconds=10)
    assert saved["seconds"] < 5
    found = entries(tmp_path / "generation")
    for name in ("values", "others", "more"):
        assert (found[name]["saved"], found[name]["libraries"]) == (True, {}), found[name]


def test_an_array_that_hangs_when_it_is_asked_costs_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Array:
        @property
        def __array_interface__(self) -> Any:
            time.sleep(1000)

    monkeypatch.setitem(sys.modules, "numpy", types.SimpleNamespace(ndarray=Array))
    namespace: dict[str, Any] = {"slow": Array(), "one": [1]}
    namespace["both"] = [namespace["one"]]
    began = time.monotonic()
    found = survey(namespace, namespace, 1.0)
    assert time.monotonic() - began < 30
    slow = found.found[0]
    assert (slow.complete, slow.runs_code, slow.plain) == (False, True, False)
    assert all(each.complete and not each.runs_code for each in found.found[1:])
    assert found.shared == [("one", "both")]


def test_a_name_that_a_thread_removes_meanwhile_is_reported(tmp_path: Path) -> None:
    class Namespace(dict[str, Any]):
        """As if `early` went before anything was read of it, and `late` after its type was."""

        def __getitem__(self, name: str) -> Any:
            found = super().__getitem__(name)
            if name == "early":
                raise KeyError(name)
            if name == "late":
                del self[name]
            return found

    found = save(Namespace(early=1, late=2, kept=3), tmp_path / "generation")
    for name in ("early", "late"):
        assert (found[name].code, found[name].detail) == ("failed", f"KeyError: '{name}'")
    assert found["kept"].saved


def test_a_module_is_known_without_asking_it(tmp_path: Path) -> None:
    (tmp_path / "lazy.py").write_text("raise RuntimeError('loaded')")
    spec = importlib.util.spec_from_file_location("lazy_of_a_test", tmp_path / "lazy.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy, nameless = importlib.util.module_from_spec(spec), types.ModuleType("nameless")
    spec.loader.exec_module(lazy)
    del nameless.__name__
    assert entry_of("lazy", lazy).code == "not-storable"
    assert entry_of("nameless", nameless).code == "not-storable"
    entry = entry_of("sys", sys)
    assert (entry.kind, entry.target, entry.saved) == (manifest.MODULE, "sys", True)


def test_classes_whose_objects_or_metaclass_answer_themselves_are_saved_in_a_child() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError(name)

        def __eq__(cls, other: object) -> bool:
            raise RuntimeError

        def __hash__(cls) -> int:
            raise RuntimeError

    def made(meta: type, own: dict[str, Any]) -> kinds.Kind:
        return kinds.about(meta("C", (), {"__module__": "__main__", **own}))

    assert made(Meta, {}).runs_code
    assert made(type, {"__class__": property(lambda _: 1 / 0)}).runs_code
    plain = made(type, {"method": lambda self: 1})
    assert (plain.name, plain.library, plain.runs_code, plain.plain) == (
        "__main__.C",
        "__main__",
        False,
        False,
    )


def test_what_is_known_of_a_class_decides_who_saves_its_objects() -> None:
    class Reduced:
        pass

    Reduced.__module__ = "fractions"
    assert kinds.about(Reduced).plain
    copyreg.pickle(Reduced, lambda _: "Reduced")
    try:
        assert kinds.about(Reduced).runs_code
    finally:
        del copyreg.dispatch_table[Reduced]
    assert kinds.about(int).is_atomic
    assert kinds.about(types.GeneratorType).is_never_saved


def test_a_proxy_of_a_class_is_known_without_asking_a_mapping() -> None:
    class Hostile(dict[str, Any]):
        def __contains__(self, name: object) -> bool:
            raise RuntimeError

    behind = Hostile(a=1)
    assert definitions.mappings_behind(types.MappingProxyType(behind)) == [behind]
    assert definitions.mappings_behind(vars(Hostile)) == []


@pytest.mark.parametrize("depth", [2_000, 60_000])
def test_nesting_beyond_the_stack_is_reported_where_the_limit_was_raised(
    tmp_path: Path, depth: int
) -> None:
    with Notebook(tmp_path) as notebook:
        notebook.say(
            "import sys; sys.setrecursionlimit(10 ** 6)\n"
            "class Node: pass\n"
            "class Reduced(Node):\n"
            "    def __reduce__(self): return Reduced, (), vars(self)\n"
            "deep, nodes, reduced, other = [], None, None, [1]\n"
            f"for _ in range({depth}):\n"
            "    deep = [deep]\n"
            "    for _kind in (Node, Reduced):\n"
            "        _node = _kind()\n"
            "        _node.next = nodes if _kind is Node else reduced\n"
            "        if _kind is Node: nodes = _node\n"
            "        else: reduced = _node\n"
        )
        notebook.save(tmp_path / "generation")
        assert notebook.say("print(sys.getrecursionlimit(), len(deep))") == "1000000 1"
    found = entries(tmp_path / "generation")
    codes = {found[name]["code"] for name in ("deep", "nodes", "reduced")}
    assert codes == ({""} if depth == 2_000 else {"too-deep"})
    assert found["other"]["saved"]


class Speaks(Exception):
    """With a text of the user's."""

    def __init__(self, text: Any) -> None:
        self.text = text

    def __str__(self) -> str:
        return str(self.text())


def test_texts_of_the_users_are_such_that_every_message_can_have_them(tmp_path: Path) -> None:
    class Named:
        def __reduce__(self) -> Any:
            raise ValueError("half \ud83d of\na pair")

    Named.__qualname__ = "Na\ud83dmed"
    found = save({"value": Named()}, tmp_path / "generation")
    lost = LostVariable.model_validate(manifest.lost(found["value"]))
    assert (lost.type, lost.detail) == (
        f"{__name__}.Na?med",
        "ValueError: half ? of a pair",
    )


def test_an_error_is_known_by_its_type() -> None:
    class Liar(Exception):
        __class__ = property(lambda self: 1 / 0)

    assert failure.failure_of(Liar("text")) == ("failed", "Liar: text")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "full"), "no-space"),
        (pickling.NoDill("cannot pickle 'dict_keys' object"), "no-dill"),
        (MemoryError("8 GB"), "memory"),
        (RecursionError("maximum recursion depth exceeded"), "too-deep"),
    ],
)
def test_an_error_that_is_no_fault_of_the_variable_has_a_code_and_no_detail(
    error: BaseException, code: str
) -> None:
    assert failure.failure_of(error) == (code, "")


def test_without_dill_only_what_needs_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "dill", None)
    found = save({"names": {"a": 1}.keys(), "other": ["a"]}, tmp_path / "generation")
    assert {name: (each.saved, each.code) for name, each in found.items()} == {
        "names": (False, "no-dill"),
        "other": (True, ""),
    }


def test_the_text_of_an_error_that_fails_hangs_or_recurses_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failure, "TEXT_SECONDS", 0.05)
    assert failure.described(Speaks(lambda: sys.exit(1))) == "Speaks"
    assert failure.described(Speaks(lambda: time.sleep(1000))) == "Speaks"
    monkeypatch.setattr(failure, "TEXT_SECONDS", 60)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        assert failure.described(ValueError(deep)) == "ValueError"
    finally:
        sys.setrecursionlimit(before)
    assert failure.described(ValueError("a\nb")) == "ValueError: a b"
