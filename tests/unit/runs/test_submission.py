"""A submission from a file and options."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.core.runs.documents import unpack
from ec2spawner.runs.errors import WrongRequest
from ec2spawner.runs.moment import moment
from ec2spawner.runs.submission import RunOptions, path_in_home, result_path, submission_of
from ec2spawner.wire.runs import MAX_PLAIN_BYTES

NOW = datetime(2026, 11, 25, 12, tzinfo=timezone(timedelta(hours=1)))


def notebook(**changes: Any) -> str:
    cells = [
        {"cell_type": "markdown", "source": "è", "metadata": {}},
        {
            "cell_type": "code",
            "source": "lr = 1",
            "metadata": {"tags": ["parameters"]},
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "x" * 1000}],
            "execution_count": 7,
        },
    ]
    return json.dumps(
        {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | changes
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    (home / "work" / "train.ipynb").write_text(notebook())
    (home / "train.py").write_text("print('x')\n")
    return home


def test_a_notebook_is_sent_without_its_outputs(home: Path) -> None:
    sent = submission_of(home / "work/train.ipynb", home, RunOptions(profile="t4"))
    assert (sent.path, sent.profile, sent.parameters) == ("work/train.ipynb", "t4", [{}])
    text, code = json.loads(unpack(sent.document))["cells"]
    assert text["source"] == "è"
    assert (code["outputs"], code["execution_count"]) == ([], None)
    assert (code["source"], code["metadata"]) == ("lr = 1", {"tags": ["parameters"]})


def test_a_script_is_sent_as_it_is(home: Path) -> None:
    sent = submission_of(home / "train.py", home, RunOptions(profile="t4", max_usd=5))
    assert (sent.path, unpack(sent.document)) == ("train.py", b"print('x')\n")
    assert (sent.max_usd, sent.retries) == (5, 5)


def test_a_path_is_that_below_the_home_from_wherever(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(home / "work")
    assert path_in_home(Path("train.ipynb"), home) == "work/train.ipynb"
    assert path_in_home(Path("../train.py"), home) == "train.py"
    with pytest.raises(WrongRequest, match="not in your home"):
        path_in_home(Path("../../train.py"), home)
    with pytest.raises(WrongRequest, match="not in your home"):
        path_in_home(tmp_path / "home-of-another" / "train.py", home)
    other = tmp_path / "data"
    other.mkdir()
    (other / "link.py").symlink_to(home / "train.py")
    (home / "data").symlink_to(other)
    (tmp_path / "alias").symlink_to(home)
    assert path_in_home(home / "data" / "link.py", home) == "data/link.py"
    assert path_in_home(other / "link.py", home) == "train.py"
    assert path_in_home(tmp_path / "alias" / "train.py", home) == "train.py"
    assert path_in_home(home / "train.py", tmp_path / "alias") == "train.py"
    assert path_in_home(home / "data" / "link.py", tmp_path / "alias") == "data/link.py"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("gone.py", None, "no such file"),
        ("notes.txt", "x", "script"),
        ("bad.ipynb", "{", "no notebook"),
        ("bad.ipynb", "[]", "format 4"),
        ("bad.ipynb", '{"worksheets": []}', "format 4"),
        ("bad.ipynb", '{"cells": [1]}', "format 4"),
    ],
)
def test_a_file_that_cannot_be_run_is_refused(
    home: Path, name: str, content: str | None, why: str
) -> None:
    if content is not None:
        (home / name).write_text(content)
    with pytest.raises(WrongRequest, match=why) as refused:
        submission_of(home / name, home, RunOptions(profile="t4"))
    assert name in str(refused.value)


def test_a_file_that_is_too_large_is_not_read(home: Path) -> None:
    with (home / "large.py").open("wb") as file:
        file.truncate(MAX_PLAIN_BYTES + 1)
    with pytest.raises(WrongRequest, match=r"large\.py is too large"):
        submission_of(home / "large.py", home, RunOptions(profile="t4"))


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"max_usd": 0}, "--max-usd: "),
        ({"max_usd": float("nan")}, "--max-usd: "),
        ({"retries": -1}, "--retries: "),
        ({"at_once": 0}, "--at-once: "),
        ({"max_spot_usd_per_hour": -1}, "--max-spot-price: "),
        ({"profile": ""}, "--profile: "),
        ({"parameters": [{f"p{i}": i for i in range(101)}]}, "--params or -p: "),
    ],
)
def test_an_error_names_its_option(home: Path, options: dict[str, Any], option: str) -> None:
    with pytest.raises(WrongRequest) as refused:
        submission_of(home / "train.py", home, RunOptions(**{"profile": "t4"} | options))
    assert str(refused.value).startswith(option)


def test_a_result_has_the_name_of_its_file_and_run() -> None:
    assert result_path("work/train.ipynb", 12) == "runs/train-12.ipynb"
    assert result_path("train.v2.py", 3) == "runs/train.v2-3.log"
    assert len(result_path(f"{'é' * 120}.py", 123456).encode()) < 255


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("8h", NOW + timedelta(hours=8)),
        ("1d12h", NOW + timedelta(hours=36)),
        ("1.5h", NOW + timedelta(minutes=90)),
        (" 90m ", NOW + timedelta(minutes=90)),
        ("2026-11-26T08:00", datetime(2026, 11, 26, 8, tzinfo=NOW.tzinfo)),
        ("2026-11-26T08:00Z", datetime(2026, 11, 26, 8, tzinfo=UTC)),
        ("2026-11-26", datetime(2026, 11, 26, tzinfo=NOW.tzinfo)),
    ],
)
def test_a_time_is_from_now_or_an_instant(written: str, at: datetime) -> None:
    assert moment(written, "--deadline", NOW) == at


@pytest.mark.parametrize(
    "written", ["8", "soon", "8 hours", "h", "0h", "-1h", "2026-11-24", "26:00", "9999999d", "1e9d"]
)
def test_another_time_is_refused(written: str) -> None:
    with pytest.raises(WrongRequest, match=r"^--deadline "):
        moment(written, "--deadline", NOW)
