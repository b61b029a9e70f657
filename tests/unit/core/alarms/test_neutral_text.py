"""Users' text in alarms notifies nobody and links nowhere, whatever service shows it."""

from __future__ import annotations

import re

import pytest

from ec2spawner.alarms.neutral_text import BREAK, MAX_BODY, MAX_TITLE, bounded, neutral

CHATS = {
    "slack": "slack://a/b/c",
    "discord": "discord://1/token",
    "mattermost": "mmosts://chat.example.org/token",
    "zulip": "zulip://bot@org/token",
    "teams": "workflows://host/flow/signature",
    "rocketchat": "rockets://host/token",
}

MENTION = re.compile(
    r"@(everyone|here|channel|all|\*\*|_\*\*|\w)"  # Discord, Slack, Mattermost, Zulip, Rocket.Chat
    r"|<[!@#&]|<at>|<https?:"  # Slack, Discord and Teams
    r"|#\*\*|~\w",  # Zulip's streams, Mattermost's channels
)
LINK = re.compile(r"\w+://|\]\(|\w\.(com|org|io|py)\b")

HOSTILE = (
    "@everyone",
    "@here",
    "@channel please",
    "@all",
    "@**all**",
    "@_**ann|12**",
    "<!channel>",
    "<@U012AB3CD>",
    "<@&165511591545143296>",
    "<at>Ann</at>",
    "<https://evil.com|Your invoice>",
    "[Your invoice](https://evil.com/x)",
    "![](http://evil.com/pixel.png)",
    "[Your invoice](evil.com)",
    "[x]: https://evil.com",
    "evil.com",
    "ftp://evil.org",
    "#**general**",
    "~town-square",
    "ann@evil.com",
)


@pytest.mark.parametrize("url", CHATS.values(), ids=CHATS)
@pytest.mark.parametrize("text", HOSTILE)
def test_a_chat_shows_a_name_and_obeys_none(url: str, text: str) -> None:
    assert MENTION.search(text) or LINK.search(text), "it was hostile"
    title = f"Run 7 of ann failed: {text}"
    shown = neutral(url, title)
    assert not MENTION.search(shown), ascii(shown)
    assert not LINK.search(shown), ascii(shown)
    assert shown.replace(BREAK, "") == title, "a reader sees what it is"


def test_our_own_words_can_be_copied() -> None:
    own = "It cost 0.53 USD at 12:30. Limits are in `c.EC2Spawner.limits`, since 2026-11-30."
    assert neutral(CHATS["slack"], own) == own


def test_programs_get_the_text_as_it_is_and_mail_makes_no_link_of_it() -> None:
    for url in ("json://host/x", "XML://host", "form://host", "syslog://"):
        assert [neutral(url, text) for text in HOSTILE] == list(HOSTILE)
    mail = neutral("mailtos://user:pass@example.org", "ann @here: https://evil.com <b>")
    assert not LINK.search(mail)
    assert "@here" in mail
    assert "<b>" in mail


def test_a_message_is_bounded() -> None:
    assert bounded("x" * MAX_TITLE, MAX_TITLE) == "x" * MAX_TITLE
    cut = bounded("x" * 100_000, MAX_BODY)
    assert len(cut) == MAX_BODY
    assert cut.endswith("…")
