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
FAILS_ANOTHER = """
def test_beside_it():
    assert not Path(__file__).with_suffix(".again").exists()
    Path(__file__).with_suffix(".again").touch()
"""
INTERRUPTED = """
def test_beside_it():
    if Path(__file__).with_suffix(".again").exists():
        raise KeyboardInterrupt
    Path(__file__).with_suffix(".again").touch()
"""
EXITS = "import os\n\ndef test_exits():\n    os._exit(0)\n"
ENDS_ITS_WORKER = """
import os

def test_ends_its_worker():
    if "PYTEST_XDIST_WORKER" in os.environ:
        os._exit(1)
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
            "EC2SPAWNER_SEED": "11",
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
    assert (entry["hash_seed"], entry["seed"]) == ("7", "11")
    assert entry["seconds"] > 0
    assert entry["files_again_seconds"] > 0
    last = ended.output.splitlines()[-5:]
    assert any("FLAKY" in line for line in last)
    assert any(f"{HUB}::test_by_chance" in line for line in last)
    assert "2 passed" in ended.output  # its file, without the other


def test_a_test_that_fails_only_the_second_time_has_failed(tmp_path: Path) -> None:
    ended = run_tests(tmp_path, **{HUB: FAILS_ONCE + FAILS_ANOTHER})
    assert (ended.status, ended.flaky) == (1, [])


def test_a_second_run_that_does_not_come_to_its_end_has_failed(tmp_path: Path) -> None:
    ended = run_tests(tmp_path, **{HUB: FAILS_ONCE + INTERRUPTED})
    assert (ended.status, ended.flaky) == (1, [])


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


def test_a_run_that_ends_before_its_tests_has_failed(tmp_path: Path) -> None:
    ended = run_tests(tmp_path, **{HUB: EXITS})
    assert (ended.status, ended.flaky) == (1, [])
    assert "The run is incomplete" in ended.output


def test_tests_that_no_worker_is_left_for_fail_the_run(tmp_path: Path) -> None:
    how = (*ON_WORKERS, "--max-worker-restart=0")
    ended = run_tests(tmp_path, *how, **{HUB: ENDS_ITS_WORKER, NOTEBOOK: PASSES})
    assert (ended.status, ended.flaky) == (1, [])
    assert "1 tests were not run" in ended.output


def test_a_second_run_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import time\n\ndef test_hangs():\n    time.sleep(600)\n")
    status, _ = run.run_pytest([*IN_PROCESS, f"--rootdir={tmp_path}", str(tmp_path)], 3.0)
    assert status != 0
    assert run.MAX_SECONDS + run.END_SECONDS == 180


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
        "tests/unit/sleep/test_it.py",
        "tests/integration/hub/test_claims.py",
    ],
)
def test_neither_pure_tests_nor_invariants_run_again(file: str) -> None:
    assert file in run.why_not_again([HUB, file])
    assert run.why_not_again([HUB]) == ""


def test_a_repeat_offender_does_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "REPEAT_OFFENDERS", frozenset({HUB}))
    assert HUB in run.why_not_again([HUB])


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


LEFT_OUT = tuple(f"mark.{each}" for each in ("nightly", "long", "gpu", "skip", "xfail"))
TEST_OF_EXTENSION = re.compile(r"""^test\((?P<quote>["'])(?P<title>.+)(?P=quote),""", re.MULTILINE)


def test_what_is_left_to_the_night_has_a_guard_in_each_run() -> None:
    """`guard` names a test of `make test`; one of the lab extension by its file and its title."""
    for file in (tiers.TREE / "tests").rglob("test_*.py"):
        text = file.read_text()
        if "mark.nightly" not in text:
            continue
        for guard in _guards(ast.parse(text)):
            name, _, test = guard.partition("::")
            kept = _tests_of_each_run(tiers.TREE / name)
            assert test in kept, f"{file}: {guard} is no test of make test"


def _guards(tree: ast.AST) -> list[str]:
    """The arguments `guard` of the marks; each mark has one."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    marks = [each for each in calls if ast.unparse(each.func).endswith("mark.nightly")]
    values = [keyword.value for mark in marks for keyword in mark.keywords]
    assert len(values) == len(marks)
    return [ast.literal_eval(each) for each in values]


def _tests_of_each_run(file: Path) -> list[str]:
    """Titles or names of a file's tests that `make test` runs, with some parameters at least."""
    if file.suffix == ".js":
        return [each["title"] for each in TEST_OF_EXTENSION.finditer(file.read_text())]
    return _kept(file.read_text())


def _kept(source: str) -> list[str]:
    """Names of the tests that no mark leaves out, or only with some of their parameters."""
    body = ast.parse(source).body
    marks = _Marks(
        {
            ast.unparse(target): each.value
            for each in body
            if isinstance(each, ast.Assign | ast.AnnAssign) and each.value is not None
            for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
        }
    )
    of_file = marks.constants.get("pytestmark")
    if of_file is not None and marks.leave_out(of_file):
        return []
    return [
        each.name
        for each in body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        if each.name.startswith("test_")
        if not any(map(marks.leave_out, each.decorator_list))
    ]


@dataclass(frozen=True)
class _Marks:
    """The marks in one file."""

    constants: dict[str, ast.expr]
    """Of the file, by name."""

    def leave_out(self, mark: ast.expr) -> bool:
        """Whether a mark, or one of several, leaves out a whole test."""
        mark = self._resolved(mark)
        if isinstance(mark, ast.List | ast.Tuple):
            return any(map(self.leave_out, mark.elts))
        name = ast.unparse(mark.func if isinstance(mark, ast.Call) else mark)
        if name.endswith("mark.parametrize") and isinstance(mark, ast.Call):
            return self._leaves_out_all(mark)
        return name.endswith(LEFT_OUT)

    def _leaves_out_all(self, parametrize: ast.Call) -> bool:
        """Whether every parameter has a mark that leaves it out."""
        values = [*parametrize.args[1:2], *_keyword(parametrize, "argvalues")]
        [listed] = map(self._resolved, values)
        if not isinstance(listed, ast.List | ast.Tuple) or not listed.elts:
            return False
        return all(map(self._is_left_out, listed.elts))

    def _is_left_out(self, parameter: ast.expr) -> bool:
        parameter = self._resolved(parameter)
        if not isinstance(parameter, ast.Call) or not ast.unparse(parameter.func).endswith("param"):
            return False
        return any(map(self.leave_out, _keyword(parameter, "marks")))

    def _resolved(self, value: ast.expr) -> ast.expr:
        """What a constant of the file stands for, and what a star unpacks."""
        if isinstance(value, ast.Starred):
            return self._resolved(value.value)
        if isinstance(value, ast.Name) and value.id in self.constants:
            return self._resolved(self.constants[value.id])
        return value


def _keyword(call: ast.Call, name: str) -> list[ast.expr]:
    return [each.value for each in call.keywords if each.arg == name]


CONSTANT = 'AT_NIGHT = pytest.mark.nightly(guard="x")\n'
TEST = "def test_it(): ...\n"


@pytest.mark.parametrize(
    "source",
    [
        f'@pytest.mark.nightly(guard="x")\n{TEST}',
        f"@pytest.mark.long\n{TEST}",
        f"@pytest.mark.xfail(strict=True)\n{TEST}",
        f"{CONSTANT}@AT_NIGHT\n{TEST}",
        f"{CONSTANT}pytestmark = AT_NIGHT\n{TEST}",
        f"{CONSTANT}MARK: Final = AT_NIGHT\n@MARK\n{TEST}",
        f"{CONSTANT}pytestmark = [pytest.mark.e2e, AT_NIGHT]\n{TEST}",
        f"{CONSTANT}pytestmark = (pytest.mark.e2e, AT_NIGHT)\n{TEST}",
        f"{CONSTANT}MARKS = [AT_NIGHT]\npytestmark = [*MARKS, pytest.mark.e2e]\n{TEST}",
        f'{CONSTANT}@pytest.mark.parametrize("a", [pytest.param(1, marks=AT_NIGHT)])\n{TEST}',
        f'{CONSTANT}@pytest.mark.parametrize("a", (param(1, marks=[AT_NIGHT]),))\n{TEST}',
        f'{CONSTANT}EACH = [param(1, marks=AT_NIGHT)]\n@pytest.mark.parametrize("a", EACH)\n{TEST}',
        f'{CONSTANT}EACH = mark.parametrize("a", [param(1, marks=AT_NIGHT)])\n@EACH\n{TEST}',
    ],
)
def test_a_test_that_runs_only_at_night_guards_nothing(source: str) -> None:
    assert _kept(source) == []


@pytest.mark.parametrize(
    "source",
    [
        TEST,
        f"{CONSTANT}@pytest.mark.slow(seconds=5)\n{TEST}@AT_NIGHT\ndef test_another(): ...\n",
        f'{CONSTANT}@pytest.mark.parametrize("a", [param(1, marks=AT_NIGHT), 2])\n{TEST}',
        f'{CONSTANT}@pytest.mark.parametrize("a", [param(each) for each in EACH])\n{TEST}',
        f'@pytest.mark.parametrize("a", [])\n{TEST}',
    ],
)
def test_a_test_that_runs_with_some_parameters_may_guard(source: str) -> None:
    assert _kept(source) == ["test_it"]
