"""`labextension/src/api/wire.ts` says what `ec2spawner/wire` says: every field by its own name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from ec2spawner import wire

SOURCE = Path(__file__).parents[3] / "labextension" / "src" / "api" / "wire.ts"
INTERFACES = dict(
    re.findall(r"export interface I(\w+) \{(.*?)\n\}", SOURCE.read_text(), flags=re.DOTALL)
)


@pytest.mark.parametrize("name", sorted(INTERFACES))
def test_fields_are_those_of_the_model(name: str) -> None:
    model = getattr(wire, name)
    assert issubclass(model, BaseModel)
    fields = set(re.findall(r"^  (\w+): ", INTERFACES[name], flags=re.MULTILINE))
    assert fields
    assert fields <= set(model.model_fields)


def test_the_status_is_complete() -> None:
    fields = set(re.findall(r"^  (\w+): ", INTERFACES["NotebookStatus"], flags=re.MULTILINE))
    assert fields == set(wire.NotebookStatus.model_fields)
