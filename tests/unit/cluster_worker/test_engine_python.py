"""A worker runs the engine with a Python and a version that are the notebook's, or not at all."""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from ec2spawner.cluster_worker.engine import CannotJoin
from ec2spawner.cluster_worker.engine_python import find_python
from ec2spawner.wire import ClusterJoin


def join(**changes: Any) -> ClusterJoin:
    given: dict[str, Any] = {
        "engine": "ray",
        "address": "127.0.0.1:6379",
        "token": "t" * 32,
        "python": sys.executable,
        "python_version": platform.python_version(),
        "engine_version": metadata.version("ray"),
    }
    return ClusterJoin(**given | changes)


async def test_the_notebooks_own_path_comes_first() -> None:
    assert await find_python(join()) == sys.executable


async def test_another_python_with_the_same_versions_does(tmp_path: Path) -> None:
    found = await find_python(join(python=str(tmp_path / "bin/python")))
    assert Path(found).resolve() == Path(sys.executable).resolve()


async def test_that_of_the_image_does_where_the_home_is_missing(tmp_path: Path) -> None:
    image = tmp_path / "image-python"
    image.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    image.chmod(0o755)
    home = str(tmp_path / "home/bin/python")
    assert await find_python(join(python=home, image_python=str(image))) == str(image)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"engine_version": "1.2.3"}, "with ray 1.2.3"),
        ({"python_version": "3.9.1"}, "Python 3.9.1"),
    ],
)
async def test_other_versions_are_refused_in_words(changes: dict[str, str], wanted: str) -> None:
    with pytest.raises(CannotJoin) as refused:
        await find_python(join(**changes))
    said = str(refused.value)
    assert wanted in said
    assert f"with ray {metadata.version('ray')}" in said, "what there is instead"
    assert "t" * 32 not in said


async def test_a_program_that_is_no_python_is_passed_over(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    assert await find_python(join(python=str(program))) != str(program)
