"""`labextension/src/api/wire` says what `ec2spawner/wire` says: every field by its own name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from ec2spawner import wire
from ec2spawner.core.instances import gpu_xid_errors
from ec2spawner.core.sleep.unsavable import KINDS
from ec2spawner.wire.sentences import PARAMETERS as SENTENCE_PARAMETERS

FOLDER = Path(__file__).parents[3] / "labextension" / "src" / "api" / "wire"
SOURCE = "\n".join(file.read_text() for file in sorted(FOLDER.glob("*.ts")))
INTERFACES = dict(re.findall(r"export interface I(\w+) \{(.*?)\n\}", SOURCE, flags=re.DOTALL))


ALIASES = {"Reply": "NotebookReply"}
PARAMETERS = INTERFACES.pop("SentenceParameters")


def test_the_lab_words_each_kind_that_no_sleep_can_save() -> None:
    source = (FOLDER.parents[1] / "text" / "lostText.ts").read_text()
    assert set(re.findall(r"__\('(.*) cannot be saved'\)", source)) == {*KINDS, "it"}


@pytest.mark.parametrize("name", sorted(INTERFACES))
def test_fields_are_those_of_the_model(name: str) -> None:
    model = getattr(wire, ALIASES.get(name, name))
    assert issubclass(model, BaseModel)
    fields = set(re.findall(r"^  (\w+): ", INTERFACES[name], flags=re.MULTILINE))
    assert fields
    assert fields <= set(model.model_fields)


def test_the_status_is_complete() -> None:
    fields = set(re.findall(r"^  (\w+): ", INTERFACES["NotebookStatus"], flags=re.MULTILINE))
    assert fields == set(wire.NotebookStatus.model_fields)


def test_every_sentence_has_its_parameters() -> None:
    lines = re.findall(r"^  '?([\w-]+)'?: (.*);$", PARAMETERS, flags=re.MULTILINE)
    assert {code: frozenset(re.findall(r"(\w+):", kind)) for code, kind in lines} == (
        SENTENCE_PARAMETERS
    )


def test_a_sentence_has_exactly_the_parameters_of_its_code() -> None:
    assert wire.sentence("gpu-lost", index=1).params == {"index": 1}
    wrong: list[dict[str, Any]] = [{}, {"index": 1, "name": "a"}]
    for params in wrong:
        with pytest.raises(ValueError, match="index"):
            wire.sentence("gpu-lost", **params)


def test_the_reasons_of_a_stop_are_those_of_the_model() -> None:
    [kinds] = re.findall(r"export type StopReason =(.*?);", SOURCE, flags=re.DOTALL)
    assert set(re.findall(r"'([\w-]+)'", kinds)) == set(
        get_args(wire.Stop.model_fields["reason"].annotation)
    )


def test_every_xid_has_its_meaning() -> None:
    words = (FOLDER.parents[1] / "text" / "xidText.ts").read_text()
    assert set(map(int, re.findall(r"case (\d+):", words))) == gpu_xid_errors.GRAVITY.keys()
