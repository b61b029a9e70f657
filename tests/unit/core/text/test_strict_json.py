"""The one reader of JSON: its refusals and their messages."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from ec2spawner.core.text.strict_json import (
    WrongBody,
    check_type,
    parsed,
    parsed_object,
    read_model,
)

REFUSED: dict[bytes, str] = {
    b'{"seconds": 60': "the JSON ends too early, after 14 characters: is it complete?",
    b'{"seconds": ': "ends too early",
    b'{"text": "Save your wo': "ends too early",
    b'{"seconds": 60}}': "something follows the JSON in line 1, column 16",
    b'{"seconds": 60}{"seconds": 1}': "something follows",
    b'{"seconds": 60, "seconds": 1}': "has the same key twice",
    b'{"a": {"b": 1, "\\u0062": 2}}': "has the same key twice",
    b'{"seconds": NaN}': "'seconds': NaN is no number of JSON",
    b'{"seconds": -Infinity}': "'seconds': -Infinity is no number of JSON",
    b'{"seconds": 1e999}': "such a large one is no number of JSON",
    b'{"seconds": ' + b"1" * 5000 + b"}": "too many digits",
    b"{'seconds': 60}": "the body is not JSON in line 1, column 2",
    b"seconds=60": "the body is not JSON in line 1, column 1",
    b'{"text": "\xff"}': "byte 11 is not UTF-8",
    b'{"text": "\\ud83d"}': "half of a surrogate pair",
    b"[" * 100_000: "nested too deeply",
    b'{"a": [[1, NaN]]}': "'a': NaN is no number of JSON",
    b"NaN": "NaN is no number of JSON",
}


@pytest.mark.parametrize(("body", "problem"), REFUSED.items(), ids=[str(n) for n in range(18)])
def test_the_problem_is_named_in_one_line(body: bytes, problem: str) -> None:
    with pytest.raises(WrongBody) as refused:
        parsed(body)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("depth", [100, 900, 990, 5000])
def test_no_depth_is_an_error_of_ours(depth: int) -> None:
    for inside in (b"1", b"NaN", b'"\\ud83d"'):
        with suppress(WrongBody):
            parsed(b"[" * depth + inside + b"]" * depth)


@given(
    st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(), st.lists, max_leaves=5)
)
def test_what_python_writes_is_read(value: object) -> None:
    written = {"value": value}
    assert parsed(json.dumps(written).encode()) == written


@given(st.dictionaries(st.text(), st.integers() | st.text(), min_size=1), st.data())
def test_no_truncated_object_is_read(value: dict[str, object], data: st.DataObject) -> None:
    body = json.dumps(value).encode()
    end = data.draw(st.integers(1, len(body) - 1))
    with pytest.raises(WrongBody):
        parsed_object(body[:end])


@pytest.mark.parametrize("body", [b"[]", b"0", b"false", b'""', b"[1]"])
def test_only_an_object_is_one(body: bytes) -> None:
    with pytest.raises(WrongBody, match="not an object"):
        parsed_object(body)


@pytest.mark.parametrize("body", [b"", b" \n", b"null"])
def test_nothing_is_no_object(body: bytes) -> None:
    assert parsed_object(body) is None


class Keep(BaseModel):
    seconds: float


def test_a_wrong_field_is_named() -> None:
    assert read_model(Keep, b'{"seconds": 60}').seconds == 60
    with pytest.raises(WrongBody, match=r"^seconds: Input should be a valid number"):
        read_model(Keep, b'{"seconds": []}')


@pytest.mark.parametrize(
    "media", ["multipart/form-data; boundary=x", "application/xml", "image/png"]
)
def test_a_body_that_says_that_it_is_no_json_is_refused(media: str) -> None:
    with pytest.raises(WrongBody, match="Content-Type is not application/json"):
        check_type(media)


@pytest.mark.parametrize(
    "media", [None, "", "application/json", "Application/JSON; charset=utf-8", "text/plain"]
)
def test_a_body_without_a_type_may_be_json(media: str | None) -> None:
    check_type(media)
