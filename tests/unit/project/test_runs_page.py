"""What docs/how-to/runs.md says of runs is held to the code."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest

from ec2spawner.cli import command_line
from ec2spawner.core.fair_share import share
from ec2spawner.core.runs import documents
from ec2spawner.core.runs.attempts import MAX_FAILED_STARTS, PAUSE
from ec2spawner.core.runs.cost_cap import FIRST_SECONDS
from ec2spawner.provisioner.state.run_bytes import MAX_BYTES
from ec2spawner.provisioner.state.runs import MAX_OPEN_OF_USER
from ec2spawner.provisioner.store.runs import KEPT
from ec2spawner.run_executor.log_end import MAX_LOG_BYTES
from ec2spawner.run_executor.parameters import source
from ec2spawner.run_executor.script_arguments import arguments
from ec2spawner.runs.commands.command import options_of
from ec2spawner.runs.parameters import rows_of
from ec2spawner.wire import RunSubmission
from ec2spawner.wire.runs import MAX_ARRAY, MAX_PARAMETER_BYTES, MAX_PLAIN_BYTES

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "runs.md").read_text("utf-8")
TEXT = " ".join(PAGE.split())
MIB = 2**20


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[1:]]


GRID = next(block for block in blocks("text") if block.startswith("lr,"))


def test_the_program_on_the_page_writes_a_submission_of_the_notebook(tmp_path: Path) -> None:
    [program] = [block for block in blocks("python") if "zlib" in block]
    notebook = str(nbformat.writes(nbformat.v4.new_notebook()))
    (tmp_path / "submission.py").write_text(program)
    (tmp_path / "train.ipynb").write_text(notebook)
    done = subprocess.run(
        [sys.executable, "submission.py", "train.ipynb"],
        cwd=tmp_path,
        capture_output=True,
        timeout=30,
        check=True,
    )
    submission = RunSubmission.model_validate_json(done.stdout)
    assert documents.unpack(submission.document).decode() == notebook
    assert len(submission.parameters) == 2
    # No field of it is one that the hub would ignore.
    assert set(json.loads(done.stdout)) <= set(RunSubmission.model_fields)


COMMANDS = re.findall(r"^\$ ec2spawner (.*)$", PAGE, flags=re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_on_the_page_is_understood(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("grid.csv").write_text(GRID)
    arguments = command_line().parse_args(shlex.split(command))
    if arguments.command == "run":
        assert options_of(arguments, datetime.now(UTC)).profile == "a10g"


def test_the_table_on_the_page_is_one_run_for_each_line() -> None:
    assert rows_of(GRID, "grid.csv") == [
        {"lr": 0.1, "layers": [64, 32]},
        {"lr": 0.01, "layers": [64, 32]},
        {"lr": 0.01, "layers": [128]},
    ]


@pytest.mark.parametrize(("option", "field", "_"), rows("Bounds"))
def test_every_bound_on_the_page_is_an_option_and_a_field(option: str, field: str, _: str) -> None:
    command = ["run", "train.ipynb", "--profile", "a10g", *shlex.split(option)]
    if field == "wait_until":
        command += ["--max-spot-price", "0.4"]
    chosen = options_of(command_line().parse_args(command), datetime.now(UTC))
    assert getattr(chosen, field) not in {None, "", False}
    assert field in RunSubmission.model_fields


def test_the_page_has_the_default_of_retries() -> None:
    assert f"{RunSubmission.model_fields['retries'].default} unless you set it" in TEXT


def test_parameters_become_the_cell_on_the_page() -> None:
    [written] = re.findall(r"^`(\{.*\})`:$", section("Parameters"), flags=re.M)
    assert f"{source(json.loads(written))}\n" in blocks("text")


@pytest.mark.parametrize(("parameters", "written"), rows("Parameters"))
def test_parameters_become_the_arguments_on_the_page(parameters: str, written: str) -> None:
    assert arguments(json.loads(parameters)) == shlex.split(written)


def test_the_page_has_the_limits_of_the_code() -> None:
    limits = dict(rows("What limits a run"))
    packed = documents.MAX_PACKED_BYTES // MIB
    plain = MAX_PLAIN_BYTES // MIB
    assert f"{plain} MiB, and {packed} MiB compressed" in limits["a notebook or script"]
    assert limits["a script's log"] == f"its last {MAX_LOG_BYTES // MIB} MiB"
    assert limits["parameters"] == f"100 and {MAX_PARAMETER_BYTES} bytes for each run"
    assert limits["an array"] == f"{MAX_ARRAY} runs"
    assert limits["runs of a user that have not ended"] == str(MAX_OPEN_OF_USER)
    most = share(MAX_BYTES, 0) // 2**30
    assert limits["documents and results of a user"] == f"{most} GiB, compressed"
    assert f"Results are kept for {KEPT.days} days" in TEXT
    assert (FIRST_SECONDS, MAX_FAILED_STARTS, PAUSE.longest) == (180, 5, 600)
    for words in ("paid for three minutes", "Five starts in a row", "after ten minutes at most"):
        assert words in TEXT
