"""Nothing that others wrote is obeyed by a terminal that shows it."""

from __future__ import annotations

import ast
import io
import logging
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ec2spawner import reap, terminal
from ec2spawner.check import report as check_report
from ec2spawner.check.finding import failed
from ec2spawner.check.topics import Topic
from ec2spawner.core.text.untrusted import visible, without_escapes
from ec2spawner.hub.app.reporting import log_sanitizer
from ec2spawner.prices import report as prices_report
from ec2spawner.prices.rows import Row as Price
from ec2spawner.reap import report as reap_report
from ec2spawner.reap.rows import Row as Leftover

EVIL = "ada\u202egnp.\x1b]0;owned\x07\x1b[31m\x9b2J\u2066\u200b\r\nroot [red]x[/red]"
SHOWN = r"ada\u202egnp.\x1b]0;owned\x07\x1b[31m\x9b2J\u2066\u200b\r\nroot [red]x[/red]"

COMMANDS = ("check", "prices", "reap")


def active(text: str) -> set[str]:
    """What a terminal obeys, but for the ends of our own lines."""
    kinds = ("Zl", "Zp")
    return {
        each
        for each in text.replace("\n", "")
        if unicodedata.category(each)[0] == "C" or unicodedata.category(each) in kinds
    }


def test_control_characters_are_escaped_visibly() -> None:
    assert visible(EVIL) == SHOWN
    for plain in ("", "Ada Lovelace", "李雷 \N{NO-BREAK SPACE}é", "\N{GRINNING FACE}"):
        assert visible(plain) == plain


@given(text=st.text(st.characters() | st.sampled_from(EVIL)))
def test_any_text_becomes_harmless(text: str) -> None:
    assert active(visible(text)) == active(without_escapes(text)) == set()
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_tables_of_commands_contain_no_control_sequences(columns: int) -> None:
    finding = failed(Topic.OPTION, EVIL, EVIL, name=EVIL)
    leftover = Leftover("volume", EVIL, EVIL, False, EVIL, user=EVIL, store=EVIL)
    kept = reap_report.Report("demo", "s", False, [leftover], trouble=EVIL)
    price = Price(
        EVIL, EVIL, True, EVIL, spot_by_zone={EVIL: 1.0}, steadiness=EVIL, on_demand_source=EVIL
    )
    refused = Price("us-east-1", "T4", False, error=EVIL)
    console = Console(file=io.StringIO(), width=columns)

    check_report.print_report([finding], console)
    reap_report.print_table(kept, console)
    prices_report.print_table([price, refused], console)

    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert active(printed) == set()
    assert r"\u202e" in printed
    assert "[red]" in printed


def test_errors_and_csv_contain_no_control_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.complain("reap", EVIL)
    prices_report.print_csv([Price("us-east-1", EVIL, False, error=EVIL)])
    written = capsys.readouterr()
    assert active(written.out) == active(written.err) == set()
    assert written.err == f"ec2spawner reap: {SHOWN}\n"


def test_commands_write_to_the_terminal_only_through_the_escaping() -> None:
    """What they print goes through `ec2spawner.terminal`, or is JSON."""
    package = Path(reap.__file__).parents[1]
    for path in (each for room in COMMANDS for each in (package / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.module == "rich.text"), path
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
                said = ast.unparse(node.args[0])
                assert said.startswith(("as_json(", "json.dumps(")), f"{path}: {said}"


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    before, logger = logging.getLogRecordFactory(), logging.getLogger("tests.log_sanitizer")
    found: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = found.append  # type: ignore[method-assign, assignment]
    logger.addHandler(handler)
    log_sanitizer.install()
    yield found
    logger.removeHandler(handler)
    logging.setLogRecordFactory(before)


def logged(path: Path, *args: object) -> None:
    """As if a module at this path had logged `args`, in a logger of another's."""
    code = compile("log.warning('%s of %r: %s, %d', *args)", str(path), "exec")
    exec(code, {"log": logging.getLogger("tests.log_sanitizer"), "args": args})


def test_log_records_are_one_line_without_control_sequences(
    records: list[logging.LogRecord],
) -> None:
    logged(Path(log_sanitizer.__file__), EVIL, EVIL, ValueError(EVIL), 7)
    logged(Path("/elsewhere/module.py"), EVIL, EVIL, ValueError(EVIL), 7)

    ours, theirs = (record.getMessage() for record in records)
    assert active(ours) == set()
    assert "\n" not in ours
    assert ours.startswith(f"{SHOWN} of ")
    assert ours.endswith(f": {SHOWN}, 7")
    assert theirs.startswith(EVIL), "what others log is theirs"
