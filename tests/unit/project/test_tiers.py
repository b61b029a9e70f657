"""The tiers of the tests: nothing is forgotten, and nothing that failed is hidden."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import run, tiers

FAILS_ONCE = """
from pathlib import Path

def test_by_chance():
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("only now")

def test_beside():
    pass
"""
FAILS_THEN_SKIPS = """
from pathlib import Path

import pytest

def test_by_chance():
    seen = Path(__file__).with_suffix(".seen")
    if seen.exists():
        pytest.skip("not again")
    seen.touch()
    raise AssertionError("only now")
"""
FAILS = "def test_broken():\n    raise AssertionError('always')\n"
PASSES = "def test_sound():\n    pass\n"
UNREADABLE = "import a_module_that_is_not_there\n"
IN_PROCESS = ("-n", "0")
ON_WORKERS = ("-n", "1", "--dist", "loadfile")

HUB, AGENT, NOTEBOOK = (
    f"tests/integration/{name}/test_it.py" for name in ("hub", "agent", "notebook")
)


@dataclass(frozen=True)
class Ended:
    status: int
    output: str
    flaky: list[dict[str, Any]]


def run_tests(folder: Path, *arguments: str, **files: str) -> Ended:
    """`python -m tests.run` over a tree with only these test files."""
    for name in ("run", "tiers", "conftest", "deflake", "nursery"):
        copy = folder / "tests" / f"{name}.py"
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(tiers.TREE / "tests" / copy.name, copy)
    shutil.copy(tiers.TREE / "pyproject.toml", folder)
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.run",
            "-m",
            "not nightly",
            *(arguments or IN_PROCESS),
            "tests",
        ],
        cwd=folder,
        env={
            "PATH": "",
            "PYTHONPATH": f"{folder}:{tiers.TREE}",
            "PYTHONHASHSEED": "7",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "pytest_asyncio.plugin,pytest_timeout,xdist.plugin",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    flaky = json.loads((folder / "tests/output/flaky.json").read_text())
    return Ended(done.returncode, done.stdout, flaky)


def test_a_failure_by_chance_passes_and_is_reported_last(tmp_path: Path) -> None:
    ended = run_tests(tmp_path, **{HUB: FAILS_ONCE, AGENT: PASSES})
    assert ended.status == 0, ended.output
    [entry] = ended.flaky
    assert entry["test"] == f"{HUB}::test_by_chance"
    assert entry["hash_seed"] == "7"
    last = ended.output.splitlines()[-5:]
    assert any("FLAKY" in line for line in last)
    assert any(f"{HUB}::test_by_chance" in line for line in last)
    assert "2 passed" in ended.output  # its file, without the other


def test_a_test_that_is_skipped_the_second_time_has_failed(tmp_path: Path) -> None:
    ended = run_tests(tmp_path, **{HUB: FAILS_THEN_SKIPS})
    assert (ended.status, ended.flaky) == (1, [])


@pytest.mark.parametrize(
    ("how", "file", "text"),
    [(IN_PROCESS, AGENT, UNREADABLE), (ON_WORKERS, "tests/elsewhere/test_it.py", PASSES)],
    ids=["unreadable", "without a kind"],
)
def test_a_file_that_cannot_be_collected_fails_the_run(
    tmp_path: Path, how: tuple[str, ...], file: str, text: str
) -> None:
    ended = run_tests(tmp_path, *how, **{HUB: FAILS_ONCE, file: text})
    assert ended.status != 0
    assert ended.flaky == []
    assert file in ended.output


def test_a_run_that_stops_early_has_failed(tmp_path: Path) -> None:
    ended = run_tests(tmp_path, *IN_PROCESS, "-x", **{AGENT: FAILS_ONCE, HUB: FAILS})
    assert (ended.status, ended.flaky) == (1, [])


def test_a_broken_test_fails_the_run(tmp_path: Path) -> None:
    ended = run_tests(tmp_path, **{HUB: FAILS})
    assert (ended.status, ended.flaky) == (1, [])
    assert ended.output.count("1 failed") == 2


@pytest.mark.parametrize(
    "file",
    [
        "tests/unit/core/test_it.py",
        "tests/unit/provisioner/test_it.py",
        "tests/unit/aws/test_it.py",
        "tests/integration/hub/test_claims.py",
    ],
)
def test_neither_pure_tests_nor_invariants_run_again(file: str) -> None:
    assert file in run.why_not_again([HUB, file])
    assert run.why_not_again([HUB]) == ""


def test_what_does_not_run_again_has_failed(tmp_path: Path) -> None:
    ended = run_tests(tmp_path, **{"tests/unit/core/test_it.py": FAILS_ONCE})
    assert (ended.status, ended.flaky) == (1, [])
    assert "No file runs once more" in ended.output


def test_many_failed_files_are_not_chance(tmp_path: Path) -> None:
    ended = run_tests(tmp_path, **dict.fromkeys((HUB, AGENT, NOTEBOOK), FAILS_ONCE))
    assert (ended.status, ended.flaky) == (1, [])
    assert run.MAX_FILES == 2


def test_a_run_without_failures_leaves_an_empty_list(tmp_path: Path) -> None:
    ended = run_tests(tmp_path, **{HUB: PASSES})
    assert (ended.status, ended.flaky) == (0, [])
    assert "FLAKY" not in ended.output


def test_every_entry_names_something() -> None:
    entries = [*tiers.KINDS, *tiers.REPEAT_OFFENDERS]
    entries += [each for files in tiers.INVARIANTS.values() for each in files]
    assert [each for each in entries if not (tiers.TREE / each).exists()] == []


LEFT_OUT = ("mark.nightly", "mark.long", "mark.gpu")
TEST_OF_EXTENSION = re.compile(r"""^test\((?P<quote>["'])(?P<title>.+)(?P=quote),""", re.MULTILINE)


def test_what_is_left_to_the_night_has_a_guard_in_each_run() -> None:
    """`guard` names a file with tests of `make test`, or one of them.

    A test of the lab extension is named by its file and its title.
    """
    for file in (tiers.TREE / "tests").rglob("test_*.py"):
        text = file.read_text()
        if "mark.nightly" not in text:
            continue
        for guard in _guards(ast.parse(text)):
            name, _, test = guard.partition("::")
            kept = _tests_of_each_run(tiers.TREE / name)
            assert test in kept if test else kept, f"{file}: {guard} is no test of make test"


def _guards(tree: ast.AST) -> list[str]:
    """The arguments `guard` of the marks; each mark has one."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    marks = [each for each in calls if ast.unparse(each.func).endswith("mark.nightly")]
    values = [keyword.value for mark in marks for keyword in mark.keywords]
    assert len(values) == len(marks)
    return [ast.literal_eval(each) for each in values]


def _tests_of_each_run(file: Path) -> list[str]:
    """Names of a file's tests that no mark leaves out, unless it does so for some parameters."""
    if file.suffix == ".js":
        return [each["title"] for each in TEST_OF_EXTENSION.finditer(file.read_text())]
    body = ast.parse(file.read_text()).body
    functions = [each for each in body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    of_file = [
        mark
        for each in body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark"
        for mark in (each.value.elts if isinstance(each.value, ast.List) else [each.value])
    ]
    return [
        each.name
        for each in functions
        if each.name.startswith("test_")
        if not any(map(_leaves_out, [*of_file, *each.decorator_list]))
    ]


def _leaves_out(mark: ast.expr) -> bool:
    name = ast.unparse(mark.func if isinstance(mark, ast.Call) else mark)
    return name.endswith(LEFT_OUT)
