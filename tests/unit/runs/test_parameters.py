"""Parameters as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from ec2spawner.runs.errors import WrongRequest
from ec2spawner.runs.parameters import combined, named_values, rows_of, value_of
from ec2spawner.wire.runs import MAX_ARRAY


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("True", True),
        ("false", False),
        ("null", None),
        ("None", None),
        ("3", 3),
        ("-3", -3),
        ("+3", 3),
        ("0.1", 0.1),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e-3", 1e-3),
        (" 7 ", 7),
        ("text", "text"),
        ("two words ", "two words "),
        ('"3"', "3"),
        ("'3'", "3"),
        ("[1, 2]", [1, 2]),
        ("['a', \"b\", None]", ["a", "b", None]),
        ('{"a": {"b": []}}', {"a": {"b": []}}),
        ("{'a': (1, 2)}", {"a": [1, 2]}),
        ("(1, 2)", [1, 2]),
        # What is no number, date or word of YAML stays text.
        ("007", "007"),
        ("1_000", "1_000"),
        ("2026-11-26", "2026-11-26"),
        ("no", "no"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("1e999", "1e999"),
        ("1.2.3", "1.2.3"),
        ("'tis", "'tis"),
        ("(see below)", "(see below)"),
        ("", ""),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_a_value_is_json_or_a_literal_or_text(written: str, value: Any) -> None:
    found = value_of(written, "x")
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("written", ["[a, b]", "{a}", "{1, 2}", "[" * 90_000, "x" * 100_001])
def test_what_begins_as_a_list_and_is_none_is_refused(written: str) -> None:
    with pytest.raises(WrongRequest, match=r"^-p lr: "):
        value_of(written, "-p lr")


@pytest.mark.parametrize("name", ["", "1st", "a-b", "a b", "class", "a=1"])
def test_a_name_must_be_one_of_a_variable(name: str) -> None:
    with pytest.raises(WrongRequest, match="variable"):
        named_values([(name, "1")], "-p")


def test_a_name_given_twice_is_refused() -> None:
    assert named_values([("lr", "0.1"), ("rate", "2")], "-p") == {"lr": 0.1, "rate": 2}
    with pytest.raises(WrongRequest, match="-p lr"):
        named_values([("lr", "0.1"), ("lr", "0.2")], "-p")


def test_a_csv_has_a_run_in_each_line() -> None:
    content = '\ufefflr, name\r\n0.1,a\r\n\r\n,"b, ""c"""\r\n1e-3,"[1, 2]"\r\n'
    assert rows_of(content, "grid.CSV") == [
        {"lr": 0.1, "name": "a"},
        {"name": 'b, "c"'},
        {"lr": 1e-3, "name": [1, 2]},
    ]


def test_a_json_list_has_a_run_in_each_object() -> None:
    assert rows_of('[{"lr": 0.1}, {}]', "grid.json") == [{"lr": 0.1}, {}]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("grid.csv", "", "no rows"),
        ("grid.csv", "lr,name\n", "no rows"),
        ("grid.csv", "lr,lr\n1,2\n", "twice"),
        ("grid.csv", "lr,\n1,2\n", "variable"),
        ("grid.csv", "lr,name\n1,2\n1\n", "line 3"),
        ("grid.csv", "lr\n[a]\n", "line 2, lr"),
        ("grid.csv", 'lr\n"1\n', "line"),
        ("grid.csv", "lr\n" + "1\n" * (MAX_ARRAY + 1), "1001 rows"),
        ("grid.json", "[]", "no rows"),
        ("grid.json", "[1]", "objects"),
        ("grid.json", '{"lr": 1}', "objects"),
        ("grid.json", '[{"a b": 1}]', "variable"),
        ("grid.json", "[{", "no JSON"),
        ("grid.json", '[{"lr": NaN}]', "no JSON"),
        ("grid.json", "[" * 200_000, "no JSON"),
        ("grid.yaml", "", "json or"),
    ],
)
def test_a_file_of_another_form_is_refused(name: str, content: str, why: str) -> None:
    with pytest.raises(WrongRequest, match=why) as refused:
        rows_of(content, name)
    assert str(refused.value).startswith(f"--params {name}: ")


def test_what_is_common_goes_to_each_run_once() -> None:
    assert combined({"a": 1}, [{"b": 2}, {}]) == [{"a": 1, "b": 2}, {"a": 1}]
    with pytest.raises(WrongRequest, match="-p b"):
        combined({"a": 1, "b": 3}, [{"b": 2}])
