"""The page of the reference about mutants, from what is decided."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from tests.mutants.judge import KILLED, NOT_EXECUTED, SURVIVED, TIMEOUT, VERDICTS
from tests.mutants.places import Mutant
from tests.mutants.sample import PACKAGES, read
from tests.tiers import TREE

PAGE: Final = TREE / "docs" / "reference" / "mutants.md"

EQUIVALENT: Final = "equivalent"
UNDECIDED: Final = "not decided"
COLUMNS: Final = (KILLED, EQUIVALENT, SURVIVED, TIMEOUT, NOT_EXECUTED, UNDECIDED)

MAX_CODE: Final = 100
"""Characters of a piece of code in a table."""

INTRODUCTION: Final = """\
# Mutants

A mutant is the product with one small change, such as `<` in place of `<=`. A test should notice
it. `tests/mutants/sample.json` has a fixed sample: 24 mutants of each of `core`, `provisioner`,
`hub`, `agent` and `sleep`, of eight kinds, and at most two of a file.

`make mutants` tries them one after the other, in a copy of the tree, with the tests of `make test`
that execute the changed expression, in whatever process. Pure tests and tests in virtual time run
first, then those that start processes, then those with a browser. The first failure ends the trial,
and three minutes do. A failure counts if the test passes without the mutant; a test that starts
processes has to fail twice. This page is written by `make mutants ARGS=report`.

| verdict | meaning |
|---|---|
| killed | a test fails because of the mutant, or hangs |
| equivalent | no test can notice it, for the reason that is given |
| survived | all these tests pass |
| timeout | no test failed in three minutes, in which not all could run |
| not executed | no test of `make test` executes the expression |
"""


def write_page() -> None:
    """Write the page of what is decided by now."""
    verdicts = json.loads((TREE / VERDICTS).read_text(encoding="utf-8"))
    PAGE.write_text(page(read(), verdicts), encoding="utf-8")
    print(PAGE.relative_to(TREE))


def page(mutants: Sequence[Mutant], verdicts: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of the page."""
    return "\n".join([INTRODUCTION, *_numbers(mutants, verdicts), *_lists(mutants, verdicts)])


def verdict_of(mutant: Mutant, verdicts: Mapping[str, Mapping[str, Any]]) -> str:
    """The verdict, as the page shows it."""
    verdict: str = verdicts.get(mutant.id, {}).get("verdict", UNDECIDED)
    return EQUIVALENT if verdict != KILLED and mutant.is_equivalent else verdict


def _numbers(mutants: Sequence[Mutant], verdicts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "## Numbers\n"
    yield from _table_head("package", *COLUMNS)
    for package in (*PACKAGES, "all"):
        chosen = (each for each in mutants if package in {each.package, "all"})
        counts = Counter(verdict_of(each, verdicts) for each in chosen)
        yield _row(package, *(str(counts[column]) for column in COLUMNS))
    yield ""


def _lists(mutants: Sequence[Mutant], verdicts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    alive = [each for each in mutants if verdict_of(each, verdicts) not in {KILLED, UNDECIDED}]
    if alive:
        yield "## Not killed\n"
        yield from _table_head("where", "change", "verdict", "why")
        for each in alive:
            yield _row(_where(each), _change(each), verdict_of(each, verdicts), each.judgement)
        yield ""
    yield "## Killed\n"
    yield from _table_head("where", "kind", "change", "killed by")
    for each in mutants:
        if verdict_of(each, verdicts) == KILLED:
            by = verdicts[each.id]["by"].partition("[")[0]
            yield _row(_where(each), each.kind, _change(each), f"`{by}`")
    yield ""


def _where(mutant: Mutant) -> str:
    file = mutant.file.removeprefix("ec2spawner/")
    return f"{_code(file)} {_code(mutant.function)}" if mutant.function else _code(file)


def _change(mutant: Mutant) -> str:
    return f"{_code(mutant.before)} → {_code(mutant.after)}"


def _code(text: str) -> str:
    cut = text if len(text) <= MAX_CODE else f"{text[:MAX_CODE]}…"
    return f"`{cut}`".replace("|", r"\|")


def _table_head(*titles: str) -> Iterable[str]:
    return _row(*titles), f"|{'---|' * len(titles)}"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
