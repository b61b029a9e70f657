"""`c.EC2Spawner.read_ahead`: files of the image, and what is refused with its fix."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.config import ConfigError, Options, validate_options


def options(**fields: Any) -> Options:
    written = {"region": "us-east-1", "subnets": ["subnet-1"], **fields}
    return validate_options(written, cleanup_servers=False)


def test_the_notebooks_environment_is_read_by_default() -> None:
    assert options().read_ahead == ("environment",)
    assert options(read_ahead=[]).read_ahead == ()
    assert options(read_ahead=["/opt/data"]).read_ahead == ("/opt/data",)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("opt/data", r'"opt/data" names no files.*"environment"'),
        ("/opt/../home", "names no files"),
        ("/opt/a\tb", "names no files"),
        ("/opt/**/torch", "has \\*\\*.*name the folder"),
        ("/*", "is the whole disk"),
        ("/" + "x" * 300, "names no files"),
    ],
)
def test_what_is_no_file_of_an_image_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"c.EC2Spawner.read_ahead: .*{said}"):
        options(read_ahead=[pattern])


def test_a_list_of_files_is_too_long() -> None:
    with pytest.raises(ConfigError, match="has 51 entries"):
        options(read_ahead=[f"/opt/{n}" for n in range(51)])
