"""What waits in the database can be read with the cookie secret only."""

from __future__ import annotations

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.hub.security.sealed_start import NotebookStart, Seal, SealBroken

SECRET = secrets.token_bytes(32)
START = NotebookStart(
    environment={"JUPYTERHUB_API_TOKEN": "a-secret-token"},
    command=["jupyterhub-singleuser", "--debug"],
    api_token="a-secret-token",
    base_url="/user/ada/",
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
starts = st.builds(
    NotebookStart,
    st.dictionaries(texts, texts, max_size=3),
    st.lists(texts, max_size=3),
    texts,
    texts,
)


@given(starts)
def test_sealed_data_can_be_opened(start: NotebookStart) -> None:
    assert Seal(SECRET).open(Seal(SECRET).close(start)) == start


def test_sealed_data_is_unreadable() -> None:
    sealed = Seal(SECRET).close(START)
    assert "a-secret-token" not in sealed
    assert "ada" not in sealed
    assert sealed.isascii()
    assert Seal(SECRET).close(START) != sealed, "two sealings of one thing look different"


def test_another_secret_opens_nothing() -> None:
    with pytest.raises(SealBroken):
        Seal(secrets.token_bytes(32)).open(Seal(SECRET).close(START))


SEALED = Seal(SECRET).close(START)
"""The same in each example: what is drawn depends on it."""


@given(st.data())
def test_one_altered_character_is_detected(data: st.DataObject) -> None:
    sealed = SEALED.rstrip("=")
    place = data.draw(st.integers(0, len(sealed) - 2))
    other = data.draw(st.sampled_from("ABCabc019-_").filter(lambda x: x != sealed[place]))
    with pytest.raises(SealBroken):
        Seal(SECRET).open(sealed[:place] + other + sealed[place + 1 :])


@pytest.mark.parametrize("sealed", ["", "x", "é", "gAAAAA=="])
def test_malformed_seals_are_refused_alike(sealed: str) -> None:
    with pytest.raises(SealBroken):
        Seal(SECRET).open(sealed)
