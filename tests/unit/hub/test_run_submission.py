"""What a submission may be, before anything is stored."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from pydantic import ValidationError

from ec2spawner.core.runs.documents import pack
from ec2spawner.hub.runs.submission import _check_document
from ec2spawner.wire import RunSubmission
from ec2spawner.wire.runs import MAX_VALUES, has_too_many_values

GOOD: dict[str, Any] = {"path": "a/train.py", "document": "eJwDAAAAAAE=", "profile": "t4"}


def read(**fields: Any) -> RunSubmission:
    return RunSubmission.model_validate_json(json.dumps(GOOD | fields))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "[1, [NaN]]"])
def test_what_is_no_json_is_refused_before_it_is_stored(value: str) -> None:
    body = json.dumps(GOOD)[:-1] + f', "parameters": [{{"x": {value}}}]}}'
    with pytest.raises(ValidationError) as refused:
        RunSubmission.model_validate_json(body)
    assert refused.value.errors()[0]["loc"][0] == "parameters"


def test_parameters_are_small() -> None:
    assert read(parameters=[{"x": "y" * 2000}]).parameters
    for large in ({"x": "y" * 2048}, {"x": [1] * 1000}, {f"p{n}": n for n in range(101)}):
        with pytest.raises(ValidationError):
            read(parameters=[large])


@pytest.mark.parametrize(
    "path", ["/a.py", "a/../b.py", "a//b.py", "./a.py", "a.txt", "a\n.py", ".py"]
)
def test_a_path_is_below_the_home(path: str) -> None:
    with pytest.raises(ValidationError):
        read(path=path)


def test_a_body_with_too_many_values_is_known_before_it_is_parsed() -> None:
    assert has_too_many_values(b"[" + b"[]," * MAX_VALUES + b"[]]")
    usual = json.dumps([{"lr": 0.1, "seed": n, "name": "x"} for n in range(1000)])
    assert not has_too_many_values(usual.encode())


def test_a_small_document_that_stands_for_a_large_one_takes_little_memory() -> None:
    """87 KB may stand for 64 MiB, and many may be checked at once."""
    plain = b'{"cells": [], "nbformat": 4, "x": "' + b"y" * (32 * 2**20) + b'"}'
    submission = read(path="a.ipynb", document=pack([plain]))
    assert len(submission.document) < 100_000
    tracemalloc.start()
    try:
        _check_document(submission)
        assert tracemalloc.get_traced_memory()[1] < 2 * 2**20
    finally:
        tracemalloc.stop()
