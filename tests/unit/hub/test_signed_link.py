"""A link that starts a server costs money: only one that this hub has made does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tornado.httputil import HTTPServerRequest, RequestStartLine

from ec2spawner.hub.pages.spawn_page.spawn_page import linked_choice
from ec2spawner.hub.security.signed_link import VALID_FOR, is_signed, start_url
from tests.user_accounts import fake_user

NOW = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
CHOICE = {"profile": "t4", "market": "on-demand"}
SECRET = b"the cookie secret of this hub"


def spawner_of(user: str = "jörg", name: str = "", secret: bytes = SECRET, **account: Any) -> Any:
    return SimpleNamespace(
        hub=SimpleNamespace(base_url="/base/hub/"),
        user=fake_user(
            user, escaped_name="j%C3%B6rg", settings={"cookie_secret": secret}, **account
        ),
        name=name,
    )


def signature(url: str) -> str:
    return parse_qs(urlsplit(url).query)["opt-signed"][0]


SIGNATURE = signature(start_url(spawner_of(), CHOICE, NOW))


def test_a_link_is_for_the_requested_server() -> None:
    url = start_url(spawner_of(), CHOICE, NOW)
    assert url.startswith("/base/hub/spawn/j%C3%B6rg?opt-profile=t4&opt-market=on-demand&opt-")
    named = urlsplit(start_url(spawner_of(name="my gpu"), {"profile": "a&b"}, NOW))
    assert named.path == "/base/hub/spawn/j%C3%B6rg/my%20gpu"
    assert parse_qs(named.query)["opt-profile"] == ["a&b"]


def test_a_link_signed_by_the_hub_starts() -> None:
    assert is_signed(spawner_of(), CHOICE, SIGNATURE, NOW)
    turned = dict(reversed(CHOICE.items()))
    assert is_signed(spawner_of(), turned, SIGNATURE, NOW), "in any order"


@pytest.mark.parametrize(
    ("spawner", "options"),
    [
        (spawner_of(user="ann"), CHOICE),
        (spawner_of(id=7), CHOICE),
        (spawner_of(created=NOW), CHOICE),
        (spawner_of(name="second"), CHOICE),
        (spawner_of(secret=b"another hub's"), CHOICE),
        (spawner_of(), {**CHOICE, "profile": "a100x8"}),
        (spawner_of(), {**CHOICE, "disk_gib": "16384"}),
        (spawner_of(), {"profile": "t4"}),
        (spawner_of(), {}),
    ],
)
def test_another_user_server_hub_or_choice_starts_nothing(
    spawner: Any, options: dict[str, str]
) -> None:
    assert not is_signed(spawner, options, SIGNATURE, NOW)


@pytest.mark.parametrize(
    "signed", ["", "-", "1", "9999999999-", "9999999999-é", "x-y", f"9{SIGNATURE}", SIGNATURE[:-1]]
)
def test_an_unsigned_link_starts_nothing(signed: str) -> None:
    assert not is_signed(spawner_of(), CHOICE, signed, NOW)


def test_an_expired_link_starts_nothing() -> None:
    second = timedelta(seconds=1)
    assert is_signed(spawner_of(), CHOICE, SIGNATURE, NOW + VALID_FOR - second)
    assert not is_signed(spawner_of(), CHOICE, SIGNATURE, NOW + VALID_FOR)


def test_only_a_link_from_another_user_is_named_as_the_source_of_the_choice() -> None:
    def followed(url: str, method: str = "GET") -> tuple[dict[str, object], bool]:
        spawner = spawner_of()
        asked = HTTPServerRequest(start_line=RequestStartLine(method, url, "HTTP/1.0"))
        spawner.handler = SimpleNamespace(request=asked)
        return linked_choice(spawner, NOW)

    own = start_url(spawner_of(), CHOICE, NOW)
    assert followed(own) == (CHOICE, False), "it was pressed, and what it asks for has failed"
    assert followed(own.partition("&opt-signed")[0]) == (CHOICE, True)
    assert followed(own.replace("on-demand", "spot-first"))[1]
    assert followed("/hub/spawn/ann?_xsrf=x") == ({}, False)
    assert followed(own, "POST") == ({}, False)
