"""What holds for all tests. It imports little: those of `core` need neither boto3 nor moto."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections import defaultdict
from collections.abc import Generator, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from ec2spawner import iri_grammar
from tests import nursery, tiers
from tests.deflake import ORDER_VARIABLE
from tests.run import OUTCOMES_VARIABLE, Outcomes

if TYPE_CHECKING:
    from tests.postgresql_server import PostgreSQL

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in a shell's background job: all programs that the tests start would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SIGNALS = {
    number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
}
"""What this process does with them."""

NIGHT = os.environ.get("EC2SPAWNER_LEFT_OUT") == "long" or bool(os.environ.get(ORDER_VARIABLE))
"""Whether this is `make test-all`, see the Makefile, or a run of `make deflake`."""

gc.disable()  # until all is collected, see below
iri_grammar.defer()  # two seconds of each worker, for what no test checks

# A shared machine may stop for a moment anywhere; pytest's own timeout ends what hangs. A change is
# judged by examples that follow from the test, so that it cannot fail for those of another's; each
# night and each run of `make deflake` has new ones. Tests of invariants have no fewer than then.
settings.register_profile("of a night", deadline=None, print_blob=True)
settings.register_profile(
    "of an invariant", settings.get_profile("of a night"), derandomize=True, database=None
)
settings.register_profile("of a change", settings.get_profile("of an invariant"), max_examples=40)

# The benches guess this from the machine's load, on which no test may depend.
os.environ.setdefault("BENCH_SLOWNESS", "1")

HAS_GPU = Path("/proc/driver/nvidia/version").exists()


_outcomes = Outcomes()
_reported: set[str] = set()
"""Ids of the tests that were tried, also of those that were skipped."""


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> None:
    """Refuse a file of which `tests/tiers.py` does not say when it runs."""
    file = tiers.path_of(module_path)
    if tiers.kind_of(file) is None:
        raise parent.CollectError(f"{file} has no kind: add its folder to KINDS in tests/tiers.py")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Choose the profile of a file's property tests, which have that of their import."""
    if isinstance(collector, pytest.Module):
        is_of_invariant = tiers.holds_invariant(tiers.path_of(collector.path))
        kept = "of an invariant" if is_of_invariant else "of a change"
        settings.load_profile("of a night" if NIGHT else kept)
    return (yield)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _outcomes.incomplete = f"{report.nodeid} cannot be collected"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _reported.add(report.nodeid)
    if report.failed:
        took = _outcomes.failed.get(report.nodeid, 0.0) + report.duration
        _outcomes.failed[report.nodeid] = took
    elif report.when == "call" and report.passed:
        _outcomes.passed.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave what became of the tests to `tests/run.py`."""
    file = os.environ.get(OUTCOMES_VARIABLE)
    if file and not hasattr(session.config, "workerinput"):
        stopped = session.shouldfail or session.shouldstop
        left = session.testscollected - len(_reported)  # those of workers that crashed, say
        if left and not session.config.option.collectonly:
            stopped = stopped or f"{left} tests were not run"
        _outcomes.incomplete = _outcomes.incomplete or (str(stopped) if stopped else "")
        Path(file).write_text(json.dumps(asdict(_outcomes)), encoding="utf-8")


@pytest.hookimpl(trylast=True)  # after `-m` has taken its choice
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are left out where there is none, and the summary counts them so.

    Files that take longest come first, as their `slow` marks say: begun last, one would run
    while all other workers have nothing left to do. The mark of a module is of the whole file.
    """
    of_gpu = [] if HAS_GPU else [item for item in items if item.get_closest_marker("gpu")]
    if of_gpu:
        config.hook.pytest_deselected(items=of_gpu)
        items[:] = [item for item in items if item not in of_gpu]
    marks: defaultdict[Path, dict[int, pytest.Mark]] = defaultdict(dict)
    for item in items:
        if mark := item.get_closest_marker("slow"):
            marks[item.path][id(mark)] = mark  # its tests, or its parameters, share one
    seconds = {
        path: sum(mark.kwargs["seconds"] for mark in of_file.values())
        for path, of_file in marks.items()
    }
    if ORDER_VARIABLE not in os.environ:
        items.sort(key=lambda item: -seconds.get(item.path, 0))


@pytest.hookimpl(tryfirst=True)  # xdist's own ends the call
def pytest_runtestloop() -> None:
    """What five thousand collected tests consist of stays: the garbage collector need not look
    through it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None, None, None]:
    """A Jupyter server that a test begins in this process takes its signals for good: a process
    that a later test forks would ignore SIGTERM, and whoever waits for its end would hang."""
    try:
        yield
    finally:
        for number, handler in SIGNALS.items():
            signal.signal(number, handler)


def pytest_report_header() -> str:
    return f"NVIDIA GPU: {'there is one' if HAS_GPU else 'none, tests marked gpu are left out'}"


@pytest.fixture(scope="session", autouse=True)
def _nurseries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hubs and embedded EC2s begin in a tenth of the time."""
    nursery.shared = nursery.Nurseries(tmp_path_factory.mktemp("nurseries"))
    yield
    nursery.shared.stop()
    nursery.shared = None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """A server of this process's own; where none is installed, the test is skipped."""
    from tests.postgresql_server import PostgreSQL

    server = PostgreSQL()
    try:
        yield server.start()
    finally:
        server.remove()
