"""Parameters become assignments in a notebook, and arguments of a script."""

from __future__ import annotations

import argparse
import ast
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook

from ec2spawner.run_executor.execution import CannotExecute
from ec2spawner.run_executor.parameters import inject, literal, source
from ec2spawner.run_executor.script_arguments import arguments

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_a_literal_is_its_value(value: Any) -> None:
    read = eval(literal(value), {"float": float})
    assert read == value
    assert repr(read) == repr(value), "True is not 1, and 1.0 is not 1"


@given(st.dictionaries(st.sampled_from(["rate", "name", "übung"]), JSON, min_size=1))
def test_the_cell_assigns_each_parameter(parameters: dict[str, Any]) -> None:
    tree = ast.parse(source(parameters))
    assert all(isinstance(each, ast.Assign) for each in tree.body)
    values: dict[str, Any] = {}
    exec(source(parameters), values)
    assert {name: values[name] for name in parameters} == parameters


def test_what_is_no_number_stays_so() -> None:
    assert math.isnan(eval(literal([float("nan")]))[0])


@pytest.mark.parametrize("name", ["a b", "1a", "class", "", "a;import os"])
def test_a_name_that_no_variable_has_is_refused(name: str) -> None:
    with pytest.raises(CannotExecute, match="cannot be set"):
        source({name: 1})


def cell(text: str, *tags: str) -> Any:
    return new_code_cell(text, metadata={"tags": list(tags)})


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([cell("a"), cell("b", "parameters"), cell("c")], ["a", "b", "NEW", "c"]),
        ([cell("a"), cell("b")], ["NEW", "a", "b"]),
        (
            [cell("a"), cell("b", "parameters"), cell("old", "injected-parameters"), cell("c")],
            ["a", "b", "NEW", "c"],
        ),
        ([], ["NEW"]),
    ],
)
def test_where_the_cell_goes(cells: list[Any], expected: list[str]) -> None:
    notebook = new_notebook(cells=cells)
    inject(notebook, {"x": 1})
    found = [
        "NEW" if each.source == "# Parameters\nx = 1" else each.source for each in notebook.cells
    ]
    assert found == expected
    new = notebook.cells[expected.index("NEW")]
    assert new.metadata.tags == ["injected-parameters"]


def test_without_parameters_nothing_changes() -> None:
    cells = [cell("old", "injected-parameters")]
    notebook = new_notebook(cells=cells)
    inject(notebook, {})
    assert [each.source for each in notebook.cells] == ["old"]


def test_cells_of_an_older_format_have_no_id() -> None:
    notebook = new_notebook()
    notebook.nbformat_minor = 4
    inject(notebook, {"x": 1})
    assert "id" not in notebook.cells[0]


@given(
    rate=st.floats(allow_nan=False) | st.integers(),
    name=st.text().filter(lambda text: "\0" not in text),
    layers=st.lists(st.integers(0)),
    is_fast=st.booleans(),
    options=st.dictionaries(st.text(), st.integers() | st.none()),
)
def test_argparse_reads_what_was_set(
    rate: float, name: str, layers: list[int], is_fast: bool, options: dict[str, Any]
) -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--name")
    parser.add_argument("--layers", type=int, nargs="*")
    parser.add_argument("--is_fast", action="store_true")
    parser.add_argument("--options", type=json.loads)
    parser.add_argument("--left", default="default")
    sent: dict[str, Any] = {"rate": rate, "name": name, "layers": layers, "is_fast": is_fast}
    read = parser.parse_args(arguments({**sent, "options": options, "left": None}))
    assert vars(read) == {**sent, "rate": float(rate), "options": options, "left": "default"}


def test_the_form_of_arguments() -> None:
    parameters: dict[str, Any] = {
        "a": "x",
        "b": "-x",
        "c": -1,
        "d": True,
        "e": False,
        "f": None,
        "g": [1, "x"],
    }
    expected = ["--a", "x", "--b=-x", "--c=-1", "--d", "--g", "1", "x"]
    assert arguments(parameters) == expected


@pytest.mark.parametrize("parameters", [{"-x": 1}, {"a b": 1}, {"a=b": 1}, {"a": "\0"}])
def test_what_no_argument_can_be_is_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(CannotExecute):
        arguments(parameters)
