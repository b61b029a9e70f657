"""Every command on the pages of an admin's first days is run, or the page says why not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.hub.test_hub_machine import cannot, run_in_namespaces
from tests.integration.pages.page_commands import NOT_RUN, PAGES, commands

AWS_CLI = Path(sys.prefix) / "aws/awscli"


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    reason = cannot() or ("" if AWS_CLI.exists() else "there is no AWS CLI: run make test-long")
    if reason:
        pytest.skip(f"the commands of the pages were NOT run: {reason}")
    found: list[dict[str, Any]] = run_in_namespaces(
        "tests.integration.pages.admin", tmp_path_factory.mktemp("admin")
    )
    return found


@pytest.mark.long
def test_each_command_succeeds(typed: list[dict[str, Any]]) -> None:
    run = [each for each in typed if not each["reason"]]
    for each in run:
        print(f"{each['page']}: {each['seconds']:g} s: {each['command']}")
    failed = [each for each in run if each["status"] != 0]
    assert not failed, "\n\n".join(
        f"{each['page']}: {each['command']}: {each['status']}\n{each['said']}" for each in failed
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_page_says_why_a_command_is_not_run(page: str) -> None:
    own = [each for each in commands() if each.page == page]
    assert own
    for each in own:
        assert not each.reason or each.reason in NOT_RUN
        if each.reason:
            print(f"NOT run, {NOT_RUN[each.reason]}: {each.text}")


def test_each_reason_is_given_by_a_page() -> None:
    assert {each.reason for each in commands()} - {""} == NOT_RUN.keys()
