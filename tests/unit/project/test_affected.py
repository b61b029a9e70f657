"""`make affected`: what a change reaches, in a tree of a few files and in this one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import affected, loads, tiers
from tests.affected import Graph, choose

SMALL = {
    "ec2spawner/hub/startup.py": "from .api import costs, pool\nfrom .pages import usage_pages\n"
    "from ..provisioner.passes import run",
    "ec2spawner/hub/api/costs.py": 'handlers: list = [(r"/api/ec2/usage/costs", object)]',
    "ec2spawner/hub/api/pool.py": 'handlers: list = [(rf"/api/ec2/pool/{NAME}", object)]',
    "ec2spawner/hub/pages/usage_pages.py": 'PAGE = "ec2spawner/usage.html"\n'
    'handlers: list = [(r"/ec2/usage", object)]',
    f"{loads.TEMPLATES}ec2spawner/usage.html": '{% include "ec2spawner/usage.js" %}',
    f"{loads.TEMPLATES}ec2spawner/usage.js": 'call("ec2/usage/costs?by=day")',
    "ec2spawner/provisioner/__init__.py": "",
    "ec2spawner/provisioner/passes.py": "def run():\n    from . import prices",
    "ec2spawner/provisioner/prices.py": '"""As ec2spawner.embedded has them."""',
    "ec2spawner/embedded/__init__.py": "",
    "ec2spawner/embedded/__main__.py": "",
    "ec2spawner/unused.py": "",
    "ec2spawner/core/money.py": "",
    "labextension/src/panel.ts": "",
    "labextension/test/panel.test.js": "",
    "docs/how-to/usage.md": "",
    "tests/harness.py": "class Hub: ...\n\nclass Embedded: ...",
    "tests/unit/conftest.py": "from tests import nursery",
    "tests/nursery.py": "",
    "tests/unit/killed.py": "",
    "tests/unit/test_passes.py": "import ec2spawner.provisioner.passes",
    "tests/unit/test_killed.py": 'FILE = Path(__file__).with_name("killed.py")',
    "tests/unit/test_unused.py": "from ec2spawner import unused",
    "tests/unit/project/test_language.py": "",
    "tests/integration/test_module.py": 'command = ["python", "-m", "ec2spawner.embedded"]',
    "tests/integration/test_program.py": 'CODE = "from ec2spawner.provisioner import prices"',
    "tests/integration/test_costs.py": "from tests.harness import Hub\n"
    'CALLS = hub.api.get("/ec2/usage/costs?by=day")',
    "tests/integration/test_pool.py": 'from tests import harness\nharness.Hub("/ec2/pool/a")',
    "tests/integration/test_words.py": 'from tests.harness import Hub\nSAID = "costs of the pool"',
    "tests/integration/test_control.py": 'from tests.harness import Hub\nembedded.control("pool")',
    "tests/e2e/test_page.py": 'from tests.harness import Hub\npage.goto("/hub/ec2/usage")',
    "tests/e2e/test_panel.py": 'page.goto(f"{url}/lab")',
}
"""By path, with paths of this tree where `tests/loads.py` has them."""


def reached(*changed: str, graph: Graph | None = None) -> set[str]:
    """The tests that run, beside those about the tree."""
    choice = choose(graph or Graph(SMALL), changed)
    assert not choice.everything
    return {each for each in choice.tests if not each.startswith(loads.ABOUT_THE_TREE)}


# --- in a tree of a few files ------------------------------------------------------------------


def test_imports_are_followed_through_modules_functions_and_packages() -> None:
    expected = {"tests/unit/test_passes.py", "tests/integration/test_program.py"}
    of_hub = {each for each in SMALL if "Hub" in SMALL[each] and affected.is_test(each)}
    assert reached("ec2spawner/provisioner/prices.py") == expected | of_hub
    assert reached("ec2spawner/provisioner/passes.py") == {"tests/unit/test_passes.py"} | of_hub
    assert reached("ec2spawner/provisioner/__init__.py") == expected | of_hub


def test_a_program_is_used_by_who_names_it_in_a_string_but_not_in_a_docstring() -> None:
    assert reached("ec2spawner/embedded/__main__.py") == {"tests/integration/test_module.py"}
    assert reached("tests/unit/killed.py") == {"tests/unit/test_killed.py"}


def test_what_a_conftest_imports_is_used_by_all_tests_below_it() -> None:
    below = {each for each in SMALL if each.startswith("tests/unit/test_")}
    assert reached("tests/nursery.py") == below


def test_handlers_are_reached_by_tests_of_a_hub_with_their_address_or_a_page_that_has_it() -> None:
    by_page = "tests/e2e/test_page.py"
    assert reached("ec2spawner/hub/api/costs.py") == {"tests/integration/test_costs.py", by_page}
    assert reached("ec2spawner/hub/api/pool.py") == {"tests/integration/test_pool.py"}
    for part in ("usage.html", "usage.js"):
        assert reached(f"{loads.TEMPLATES}ec2spawner/{part}") == {by_page}


def test_a_changed_test_runs_and_so_do_those_about_the_tree() -> None:
    choice = choose(Graph(SMALL), ["tests/unit/test_passes.py"])
    assert set(choice.tests) == {
        "tests/unit/test_passes.py",
        "tests/unit/project/test_language.py",
    }
    assert choice.targets == ["lint", "types"]


@pytest.mark.parametrize(
    ("changed", "targets", "tests"),
    [
        ("docs/how-to/usage.md", ["docs"], set()),
        ("labextension/src/panel.ts", ["frontend"], {"tests/e2e/test_panel.py"}),
        ("labextension/test/panel.test.js", ["frontend"], set()),
        ("tests/unit/test_deleted.py", [], set()),
    ],
)
def test_what_is_no_product_code(changed: str, targets: Sequence[str], tests: set[str]) -> None:
    assert reached(changed) == tests
    assert choose(Graph(SMALL), [changed]).targets == ["lint", "types", *targets]


@pytest.mark.parametrize(
    "changed",
    [
        "Makefile",
        "ec2spawner/core/money.py",
        "tests/unit/conftest.py",
        "ec2spawner/provisioner/deleted.py",
        "configs/of-nobody.yaml",
        pytest.param("ec2spawner/unused.py", id="only-tests-use-it"),
    ],
)
def test_what_everything_depends_on_or_has_unknown_users_runs_everything(changed: str) -> None:
    choice = choose(Graph(SMALL), ["tests/unit/test_passes.py", changed])
    assert changed in choice.everything
    assert set(choice.tests) == set(filter(affected.is_test, SMALL))
    assert choice.targets == ("lint", "types", "docs", "frontend")


def test_commands_name_the_tests_unless_all_run() -> None:
    some = choose(Graph(SMALL), ["docs/how-to/usage.md"])
    assert [each[2:] for each in affected.commands(some)] == [
        ["lint", "types", "docs"],
        ["pytest", "ARGS=tests/unit/project/test_language.py"],
    ]
    every = choose(Graph(SMALL), ["Makefile"])
    assert affected.commands(every)[1][2:] == ["pytest", "ARGS="]


def test_report_says_why_and_lists_files() -> None:
    choice = choose(Graph(SMALL), ["tests/unit/killed.py"])
    assert list(affected.report(choice, with_names=True)) == [
        "make lint types, and 2 test files:",
        "    1 use tests/unit/killed.py",
        "        tests/unit/test_killed.py",
        "    1 are in tests/unit/project/",
        "        tests/unit/project/test_language.py",
    ]
    assert len(list(affected.report(choice, with_names=False))) == 3


def test_changed_are_edited_renamed_deleted_and_new_files(tmp_path: Path) -> None:
    def git(*command: str) -> None:
        identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *identity, *command], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    for name in ("same.py", "edited.py", "renamed.py", "deleted.py"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("ignored.py")
    git("add", ".")
    git("commit", "--message=first")
    (tmp_path / "edited.py").write_text("")
    git("mv", "renamed.py", "now.py")
    (tmp_path / "deleted.py").unlink()
    for name in ("ignored.py", "né w.py"):
        (tmp_path / name).write_text("")
    assert affected.changed_since("HEAD", tmp_path) == [
        *("deleted.py", "edited.py", "now.py", "né w.py", "renamed.py"),
    ]


# --- in this tree ------------------------------------------------------------------------------

PROCESSES = {
    "tests/unit/agent": "ec2spawner/agent/notebook_server/prewarmed.py",
    "tests/unit/checkpoint": "ec2spawner/checkpoint/loop.py",
    "tests/unit/cluster_worker": "ec2spawner/cluster_worker/torchrun_process.py",
    "tests/unit/clusters": "ec2spawner/clusters/engines/rendezvous_store.py",
    "tests/unit/commands": loads.CLI,
    "tests/unit/gpu_check": "ec2spawner/gpu_check/__main__.py",
    "tests/unit/load_test": "ec2spawner/load_test/locustfile.py",
    "tests/unit/notebook": "ec2spawner/sleep/magics.py",
    "tests/unit/run_executor": "ec2spawner/run_executor/__main__.py",
    "tests/unit/runs": "ec2spawner/runs/scheduler.py",
    "tests/unit/sleep": "ec2spawner/sleep/kernel.py",
    "tests/unit/store": "tests/postgresql_server.py",
    "tests/integration/agent": "ec2spawner/agent/__main__.py",
    "tests/integration/aws": "ec2spawner/embedded/__main__.py",
    "tests/integration/commands": loads.CLI,
    "tests/integration/embedded": "ec2spawner/embedded/__main__.py",
    "tests/integration/hub": loads.STARTUP,
    "tests/integration/install": loads.CLI,
    "tests/integration/notebook": "ec2spawner/notebook/extension.py",
    "tests/integration/pages": loads.CLI,
    "tests/integration/test_bench_short.py": "tests/bench/__main__.py",
    "tests/boot": "ec2spawner/agent/__main__.py",
    "tests/e2e": "labextension/src/index.ts",
}
"""What processes of each folder load."""


@pytest.fixture(scope="module")
def tree() -> dict[str, str]:
    return affected.read_tree()


@pytest.fixture(scope="module")
def graph(tree: dict[str, str]) -> Graph:
    return Graph(tree)


def test_money_runs_everything(graph: Graph) -> None:
    assert choose(graph, ["ec2spawner/core/pricing/money.py"]).everything


def test_costs_run_what_covers_them(graph: Graph) -> None:
    found = reached("ec2spawner/hub/api/costs.py", graph=graph)
    assert found >= {
        "tests/unit/hub/test_costs_answer.py",
        "tests/integration/hub/test_other_users_instances.py",
        "tests/integration/hub/test_usage_api.py",
        "tests/e2e/test_usage_pages_in_browser.py",
    }
    assert len(found) < len(list(filter(affected.is_test, graph.paths))) / 5


@pytest.mark.parametrize(
    ("changed", "target", "expected"),
    [
        ("labextension/src/panel/panel.ts", "frontend", "tests/e2e/test_panel.py"),
        ("docs/how-to/report.md", "docs", "tests/unit/report/test_report_forms.py"),
        (
            f"{loads.TEMPLATES}ec2spawner/runs/runs.js",
            "lint",
            "tests/e2e/test_runs_page_in_browser.py",
        ),
    ],
)
def test_pages_run_a_few_tests(graph: Graph, changed: str, target: str, expected: str) -> None:
    assert target in choose(graph, [changed]).targets
    found = reached(changed, graph=graph)
    assert expected in found
    assert len(found) < 20


def test_the_users_of_every_module_are_known(graph: Graph) -> None:
    modules = [each for each in graph.below("ec2spawner/") if each.endswith(".py")]
    assert [
        each for each in modules if not affected.is_for_all(each) and not graph.is_known(each)
    ] == []


def test_every_entry_exists_and_is_needed(graph: Graph) -> None:
    files = {*loads.NOT_FOLLOWED, *(each.partition(":")[0] for each in loads.LOADS)}
    entries = {
        *loads.ASKED_OF_A_HUB,
        *loads.ASKED_BY_NAME,
        *sum(map(tuple, loads.LOADS.values()), ()),
    }
    assert [each for each in sorted(files | entries) if not graph.below(each)] == []
    prefixes = {*loads.EVERYTHING, *loads.CALLERS, *loads.NOT_CALLERS, loads.ABOUT_THE_TREE}
    prefixes |= {each for skipped in loads.NOT_FOLLOWED.values() for each in skipped}
    known = [*graph.paths, *loads.LOADS]
    assert [
        each for each in sorted(prefixes) if not any(path.startswith(each) for path in known)
    ] == []


def test_every_name_that_loads_something_exists(tree: dict[str, str]) -> None:
    for entry in loads.LOADS:
        path, _, name = entry.partition(":")
        assert name in tree[path], entry


def test_processes_of_every_folder_are_known(graph: Graph) -> None:
    started = {each for each, kind in tiers.KINDS.items() if kind in tiers.RUN_AGAIN}
    units = {f"tests/unit/{folder}" for folder in tiers.UNITS_WITH_PROCESSES}
    assert units | {each for each in started if not each.startswith("tests/unit/")} <= set(
        PROCESSES
    )
    for folder, module in PROCESSES.items():
        assert any(each.startswith(folder) for each in reached(module, graph=graph)), folder


def test_every_test_of_the_hub_uses_the_hub(graph: Graph) -> None:
    tests = {each for each in graph.below("tests/integration/hub/") if affected.is_test(each)}
    assert tests - reached(loads.STARTUP, graph=graph) == set()


def test_who_uses_a_fixture_that_is_not_followed_uses_its_module(
    tree: dict[str, str], graph: Graph
) -> None:
    """By an import of its type, or of something else."""
    of_server = ("browser", "lab_page", "new_page", "page", "server", "tab")
    fixtures = dict.fromkeys(of_server, ("tests/e2e/", "tests/e2e/canned_server.py"))
    fixtures["postgresql"] = ("tests/", "tests/postgresql_server.py")
    for name, (folder, module) in fixtures.items():
        users = graph.users([module])
        for path in filter(affected.is_test, graph.below(folder)):
            arguments = re.findall(r"def test_\w+\((.*?)\)", tree[path], re.DOTALL)
            is_own = f"def {name}(" in tree[path]
            if not is_own and any(re.search(rf"\b{name}:", each) for each in arguments):
                assert path in users, name


def test_every_command_that_calls_a_hub_is_a_caller(tree: dict[str, str]) -> None:
    calling = [
        path for path in tree if path.startswith("ec2spawner/") and "hub_call import" in tree[path]
    ]
    assert calling
    assert [path for path in calling if not path.startswith(loads.CALLERS)] == []
