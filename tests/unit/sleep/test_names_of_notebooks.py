"""`%wake` finds a notebook by each of its paths: through links, with blanks, from anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.sleep.notebook import Notebook

LINKED = "link/other.ipynb"
BLANK = "my book.ipynb"
QUOTE = "Ann's.ipynb"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With three notebooks that sleep; of one, the folder is a link."""
    home = tmp_path_factory.mktemp("home")
    (home / "real").mkdir()
    (home / "link").symlink_to("real")
    for path in (LINKED, BLANK, QUOTE):
        with Notebook(home, path=path) as notebook:
            assert "Saved 1 variable" in notebook.say(f"x = {path!r}\n%sleep")
    return home


@pytest.fixture
def second(home: Path) -> Iterator[Notebook]:
    with Notebook(home, path="link/second.ipynb") as notebook:
        notebook.say("import os")
        yield notebook


@pytest.mark.parametrize(
    ("folder", "name", "found"),
    [
        (".", LINKED, LINKED),
        ("link", "other.ipynb", LINKED),
        ("real", "other.ipynb", LINKED),
        ("/tmp", "other.ipynb", LINKED),
        (".", "real/other.ipynb", LINKED),
        ("/tmp", "~/link/other.ipynb", LINKED),
        ("/tmp", "~/real/../real/other.ipynb", LINKED),
        (".", BLANK, BLANK),
        (".", f'"{BLANK}"', BLANK),
        (".", "my\\ book.ipynb", BLANK),
        ("link", f"../{BLANK}", BLANK),
        (".", QUOTE, QUOTE),
        (".", f'"{QUOTE}"', QUOTE),
    ],
)
def test_another_notebook_is_found_by_each_of_its_paths(
    second: Notebook, folder: str, name: str, found: str
) -> None:
    second.say(f"os.chdir({folder!r})")
    second.say(f"%wake {name}")
    assert second.say("print(x)") == found


@pytest.mark.parametrize("path", [LINKED, "real/other.ipynb"])
def test_a_notebook_is_the_same_by_a_link_to_its_folder(home: Path, path: str) -> None:
    with Notebook(home, path=path) as notebook:
        notebook.say("%wake")
        assert notebook.say("print(x)") == LINKED


@pytest.mark.parametrize(
    "name", ["none.ipynb", "no such book.ipynb", "a'b.ipynb", '"', "~no-such-user/x"]
)
def test_of_a_notebook_that_has_not_slept_it_is_said(second: Notebook, name: str) -> None:
    assert second.say(f"%wake {name}") == f"Nothing was saved for {name}."
    assert second.say("print('x' in dir())") == "False"
