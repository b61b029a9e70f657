"""The report: codes that are documented, sections, and room for what matters."""

from __future__ import annotations

import argparse
import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from ec2spawner.check import command
from ec2spawner.check.finding import Finding, failed, ok, unproved, warning
from ec2spawner.check.report import PAGE, as_json, print_report
from ec2spawner.check.topics import Section, Topic

ROOT = Path(__file__).resolve().parents[3]


def printed(*findings: Finding, columns: int = 120) -> str:
    console = Console(file=io.StringIO(), width=columns)
    print_report(findings, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_each_code_has_a_section_of_the_page_and_each_section_a_code() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    documented = re.findall(r"^(##|###) `?([^`\n]+)`?$", page, re.M)
    assert [code for level, code in documented if level == "###"] == [t.code for t in Topic]
    assert [name for level, name in documented if level == "##"] == list(Section)


def test_codes_are_slugs() -> None:
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", topic.code) for topic in Topic)


def test_a_code_is_in_the_json_and_in_the_text_of_what_is_not_ok() -> None:
    low = warning(Topic.SUBNETS, "few free addresses", "add a subnet")
    [finding] = json.loads(as_json([low]))["findings"]
    assert finding["code"] == "subnets"
    text = printed(low, ok(Topic.OPENSSL, "/usr/bin/openssl"))
    assert "Code: subnets" in text
    assert "Code: openssl" not in text


def test_findings_are_grouped_by_section() -> None:
    text = printed(
        failed(Topic.QUOTA, "none", "request more"),
        ok(Topic.OPENSSL, "/usr/bin/openssl"),
        ok(Topic.PROFILE, "in 3 zones", name='profile "T4"'),
    )
    places = [text.index(word) for word in (Section.MACHINE, "openssl", Section.PROFILES, "none")]
    assert places == sorted(places)
    assert text.count(Section.PROFILES) == 1


def test_granted_permissions_share_a_line() -> None:
    granted = [ok(Topic.PERMISSION, "granted", name=f"permission ec2:Do{n}") for n in range(9)]
    denied = failed(Topic.PERMISSION, "not granted", "grant it", name="permission ec2:CreateFleet")
    text = printed(*granted, denied)
    assert text.count("✓ ok") == 1
    assert "9 granted: ec2:Do0, " in text
    assert "permission ec2:CreateFleet" in text
    assert len(json.loads(as_json([*granted, denied]))["findings"]) == 10


@pytest.mark.parametrize("as_values", [False, True])
def test_a_missing_configuration_is_a_finding_in_words_or_in_json(
    as_values: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "hub.py")
    arguments = argparse.Namespace(
        config=missing, fix=False, yes=False, json=as_values, test_alarms=False
    )
    assert command.run_check(arguments, ()) == 1
    said = capsys.readouterr().out
    if as_values:
        [finding] = json.loads(said)["findings"]
        assert (finding["state"], finding["said"]) == ("failed", f"{missing} does not exist")
    else:
        assert "✗ failed" in said
        assert "does not exist" in said
        assert "Fix: run this where the hub is started" in said


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_nothing_is_wider_than_the_terminal(columns: int) -> None:
    said = "one of many words " * 20
    text = printed(
        unproved(Topic.AGENT, said),
        failed(Topic.PROFILE, said, said, name=f'profile "{"A very long name " * 4}"'),
        columns=columns,
    )
    assert max(map(len, text.splitlines())) <= columns
    assert "\x1b" not in text
