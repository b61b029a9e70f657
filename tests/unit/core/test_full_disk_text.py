"""Why something was not saved, in words."""

from __future__ import annotations

import errno
import os

import pytest

from ec2spawner.core.text.full_disk import (
    HOME_IS_FULL,
    is_full,
    unsaved_sentence,
    why_not_written,
)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_with_what_helps(code: int) -> None:
    error = OSError(code, os.strerror(code), "/home/ada/.ec2spawner/sleep/x")
    assert is_full(error)
    assert why_not_written(error) == HOME_IS_FULL
    assert "Delete files" in HOME_IS_FULL


def test_another_error_is_as_it_is() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "/home/ada/x")
    assert not is_full(error)
    assert why_not_written(error) == "[Errno 13] Permission denied: '/home/ada/x'"
    assert why_not_written(ValueError()) == "ValueError"
    assert not is_full(ValueError())


def test_documents_that_were_not_saved_are_named() -> None:
    assert unsaved_sentence([], True) == ""
    assert unsaved_sentence(["a.ipynb"], False) == "Not saved: a.ipynb."
    said = unsaved_sentence({f"{number}.ipynb" for number in range(5)}, True)
    assert said.startswith("Not saved: 0.ipynb, 1.ipynb, 2.ipynb, and 2 more, because your home")


def test_a_report_of_unsaved_documents_is_short() -> None:
    said = unsaved_sentence([f"{number}{'x' * 300}" for number in range(1000)], True)
    assert len(said) < 300
