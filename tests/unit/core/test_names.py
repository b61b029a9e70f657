"""Names are valid for any string, and two strings never share one."""

from __future__ import annotations

import re
import string

from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core import names

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=400)
"""Every code point, lone surrogates too: user names come from foreign identity providers."""

# Texts that crowd together once they are made safe are where collisions would be.
CROWDED = st.text(alphabet="aA1é _-./@:", max_size=6) | st.sampled_from(
    ["", "x", "a" * 63, "a" * 64, "a" * 256, "a" * 257, "aws:x", "AWS:x", "_aws:x", " x", "x "]
)
TAG_CHARACTERS = set(string.ascii_letters + string.digits + " +-=._:/@")


@given(ANY_TEXT)
def test_a_slug_is_valid_for_any_text(text: str) -> None:
    slug = names.slug(text)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", slug)
    assert len(slug) <= 63
    assert names.slug(text) == slug


@given(CROWDED | ANY_TEXT, CROWDED | ANY_TEXT)
def test_two_texts_never_share_a_slug_or_a_tag_value(one: str, other: str) -> None:
    assert (names.slug(one) == names.slug(other)) == (one == other)
    assert (names.tag_value(one) == names.tag_value(other)) == (one == other)


@given(CROWDED | ANY_TEXT)
def test_no_text_collides_with_the_changed_form_of_another(text: str) -> None:
    for name in (names.slug, names.tag_value):
        changed = name(text)
        assert changed == text or name(changed) != changed


@given(CROWDED | ANY_TEXT)
def test_a_tag_value_is_one_that_every_aws_service_accepts(text: str) -> None:
    value = names.tag_value(text)
    assert len(value) <= 256
    assert set(value) <= TAG_CHARACTERS
    assert value == value.strip()
    assert not value.lower().startswith("aws:")


def test_valid_names_stay_unchanged() -> None:
    assert names.slug("a100x8") == "a100x8"
    assert names.tag_value("Ann Smith <") != "Ann Smith <"
    assert names.tag_value("Ann.Smith+gpu@example.org") == "Ann.Smith+gpu@example.org"
    assert names.tag_value("") == ""


def test_changed_names_stay_recognizable() -> None:
    assert names.slug("Ann Smith").startswith("ann-smith---")
    assert names.tag_value("Zoë Müller").startswith("Zo_ M_ller---")
    assert names.readable("T4, 16 GB") == "t4-16-gb"
    assert names.readable("Größe: Ω") == "grosse"
    assert names.readable("深層学習") == ""


@given(ANY_TEXT)
def test_a_client_token_is_short_ascii_and_never_the_same(purpose: str) -> None:
    token, again = names.client_token(purpose), names.client_token(purpose)
    assert token.isascii()
    assert token.isprintable()
    assert len(token) <= 64
    assert token != again


def test_a_random_id_has_its_prefix() -> None:
    ids = {names.lease_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"lease-[a-z2-7]{26}", lease_id) for lease_id in ids)
    assert names.new_id("store").startswith("store-")


def test_the_lease_token_follows_the_protocol() -> None:
    """HMAC-SHA256 with the key's text as key; computed with openssl, not with this code."""
    token = names.lease_token("k" * 43, "lease-abc")
    assert token == "h1ajiOW2VJrCoeqkE7hv7im_W-hLHGWg4p-Rl_YLH5I"
    assert names.lease_token("k" * 43, "lease-abd") != token
    assert names.lease_token("j" * 43, "lease-abc") != token


def test_sha256_is_in_hexadecimal() -> None:
    assert names.sha256_hex("abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


def test_equal_specs_have_equal_launch_keys() -> None:
    assert names.launch_key('{"a": 1}') == names.launch_key('{"a": 1}')
    assert names.launch_key('{"a": 1}') != names.launch_key('{"a": 2}')
    assert names.tag_value(names.launch_key("{}")) == names.launch_key("{}")
