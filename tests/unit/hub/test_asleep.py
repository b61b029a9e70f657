"""The card of a sleeping session: what comes back, on what, and nothing that an instance says is
more than text."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ec2spawner.core.profiles.profiles import Hardware
from ec2spawner.core.text.sizes import in_words
from ec2spawner.hub.pages.spawn_page.asleep import Asleep, Expired, asleep, does_not_fit, expired
from ec2spawner.hub.pages.spawn_page.profile_card import Card
from ec2spawner.hub.pages.spawn_page.session_asleep import SessionAsleep
from ec2spawner.hub.spawn.user_options import read_form
from ec2spawner.wire import LostVariable, SavedKernel, SavedSession, SavedVariable
from tests.stored import sleeping

from .test_spawn_page import CPU, NOW, T4, ZONES, Page, form, spot

EXPIRES = NOW + timedelta(days=30)
GB = 10**9
A10G = replace(
    T4,
    offers=tuple(spot(0.31)),
    slug="a10g",
    name="A10G",
    hardware=Hardware("1 × A10G, 24 GB", 4, 16.0, 250, gpu_memory_bytes=24 * GB),
)
OWN = replace(T4, hardware=replace(T4.hardware, gpu_memory_bytes=16 * 2**30))


def kernel(path: str = "train.ipynb", **words: Any) -> SavedKernel:
    given: dict[str, Any] = {
        "kernel_name": "python3",
        "variables": 12,
        "proved": 10,
        "size_bytes": 3_100_000_000,
        "gpu_bytes": 900_000_000,
        "largest": [
            SavedVariable(name="df", size_bytes=2_200_000_000),
            SavedVariable(name="model", size_bytes=900_000_000, gpu=True),
        ],
        "lost": [LostVariable(name="loader", code="not-storable", detail="a generator")],
        "lost_count": 1,
    }
    return SavedKernel(path=path, **(given | words))


def session(*kernels: SavedKernel, **words: Any) -> SavedSession:
    given: dict[str, Any] = {
        "id": "s-1",
        "slept_at": NOW,
        "trigger": "idle",
        "seconds": 8.0,
        "size_bytes": sum(each.size_bytes for each in kernels),
        "kernel_count": len(kernels),
    }
    return SavedSession(kernels=list(kernels), **(given | words))


def found(
    saved: SavedSession, profile: str = "t4", usd: float | None = None, reason: str = ""
) -> SessionAsleep:
    return SessionAsleep(saved, reason, profile, EXPIRES, usd)


def card(
    *cards: Card, saved: SavedSession | None = None, last: str = "t4", usd: float | None = 0.011
) -> Asleep:
    return asleep(found(saved or session(kernel()), last, usd), cards or (OWN, A10G, CPU), NOW)


def shown(it: Asleep, *cards: Card) -> Page:
    return Page(form(*(cards or (OWN, A10G, CPU)), asleep=it))


# --- the page --------------------------------------------------------------------------------


def test_the_card_says_what_comes_back_and_what_does_not() -> None:
    text = shown(card(saved=session(kernel(), kernel("b.ipynb", variables=2, lost=[])))).text
    assert "Your session is asleep" in text
    assert "Nobody used it." in text
    assert "12 variables, 3.1 GB, 10 proved: df 2.2 GB, model 900 MB (GPU) and 10 more" in text
    assert "It costs $0.01 a day to keep (an estimate)" in text
    assert "Wake on T4, 16 GB · $0.19/h" in text
    assert "about 45 seconds, then 8 seconds for your variables" in text
    assert "loader (a generator cannot be saved)" in text
    assert "Kept until 20 December" in text


def test_values_that_are_older_than_the_session_say_so() -> None:
    before = NOW - timedelta(hours=2)
    lost = LostVariable(name="loader", code="deadline", kept_of=before)
    saved = session(kernel(lost=[lost]), kernel("b.ipynb", code="busy", values_of=before, lost=[]))
    text = shown(card(saved=saved)).text
    assert "loader (the time was over; an older value is kept)" in text
    assert f"as of {before:%H:%M} UTC" in text


@pytest.mark.parametrize(
    ("proved", "words"), [(12, "GB, proved"), (1, "GB, 1 proved"), (0, "GB, not proved")]
)
def test_the_card_says_what_was_proved_and_what_comes_back_changed(proved: int, words: str) -> None:
    changed = [LostVariable(name=f"x{n}", code="changed", detail="<b>") for n in range(9)]
    saved = session(kernel(proved=proved, changed=changed, changed_count=30))
    text = shown(card(saved=saved)).text
    assert words in text
    assert "changed: x0, x1, x2, " in text
    assert "<b>" not in text


def test_the_sizes_of_small_variables_are_not_said() -> None:
    small = [
        SavedVariable(name="cfg", size_bytes=230),
        SavedVariable(name="t", size_bytes=1, gpu=1),
    ]
    text = shown(card(saved=session(kernel(largest=small)))).text
    assert "12 variables, 3.1 GB, 10 proved: cfg, t (GPU) and 10 more" in text


def test_a_session_that_expires_soon_says_when() -> None:
    it = asleep(found(session(kernel())), [OWN], EXPIRES - timedelta(days=2))
    assert "Expires 12:00 UTC on 20 December" in shown(it).text
    assert "Kept until" not in shown(it).text


def test_without_a_sleeping_session_the_page_is_as_before() -> None:
    html = form(OWN)
    assert "ec2-asleep" not in html
    assert "session" not in Page(html).fields
    assert 'name="wake"' not in html


def test_an_expired_session_is_said_to_be() -> None:
    gone = Expired(slept_at=NOW - timedelta(days=31), expired_at=NOW - timedelta(days=1))
    text = Page(form(OWN, expired=gone)).text
    assert "has expired" in text
    assert "its variables are no longer kept" in text


def test_a_session_of_no_kernel_promises_nothing() -> None:
    text = shown(card(saved=session())).text
    assert "none of them had variables" in text
    assert "Wake on" in text


def test_names_and_reasons_of_an_instance_are_bounded_text() -> None:
    name = "<script>alert(1)</script>\u202e" + "x" * 400
    saved = session(
        kernel(
            name,
            kernel_name=name,
            code=name,
            largest=[SavedVariable(name=name, size_bytes=1)],
            lost=[LostVariable(name=name, code=name, detail=name)] * 10,
            lost_count=10,
        ),
        kernel("", kernel_name=name),
    )
    html = form(OWN, asleep=card(saved=saved))
    assert "<script>" not in html
    assert "x" * 41 not in html
    assert "\u202e" not in html


def test_many_of_everything_is_folded_and_counted() -> None:
    lost = [LostVariable(name=f"v{number}", code="busy") for number in range(10)]
    saved = session(*[kernel(f"{n}.ipynb", lost=lost, lost_count=25) for n in range(20)])
    saved = saved.model_copy(update={"kernel_count": 33})
    cards = [OWN, *(replace(A10G, slug=f"a{n}", name=f"A {n}") for n in range(30))]
    it = card(*cards, saved=saved)
    text = shown(it, *cards).text
    assert len(it.others) + len(it.others_folded) == 30
    assert "21 more" in text  # of 25, four are named
    assert "and 15 others" in text
    assert "and 13 more notebooks" in text


# --- what to wake it on ----------------------------------------------------------------------


def test_what_is_sold_out_comes_last_and_says_so() -> None:
    gone = replace(A10G, slug="gone", name="Gone", offers=tuple(spot(0.8, out=ZONES)))
    it = card(OWN, gone, A10G)
    assert [(each.slug, each.price) for each in it.others] == [
        ("a10g", "$0.31/h"),
        ("gone", "sold out"),
    ]
    assert all(each.can_start for each in it.others)


def test_what_nobody_may_start_is_disabled() -> None:
    it = card(replace(OWN, cannot_start=True), CPU)
    assert it.wake is not None
    assert not it.wake.can_start
    assert not it.others[0].can_start  # offered nowhere


def test_a_profile_that_is_gone_leaves_the_others() -> None:
    it = card(last="removed")
    assert it.wake is None
    assert [each.slug for each in it.others] == ["t4", "a10g", "cpu"]
    assert "Continue on:" in shown(it).text


def test_the_price_is_that_of_the_market_that_was_chosen_last() -> None:
    both = replace(OWN, markets=("spot-first", "on-demand"))
    it = asleep(found(session(kernel())), [both], NOW, "on-demand")
    assert it.wake is not None
    assert it.wake.price == "$0.53/h"


@pytest.mark.parametrize(
    ("usual", "seconds", "says"),
    [
        (45.0, 8.0, "about 45 seconds, then 8 seconds for your variables"),
        (45.0, 0.2, "about 45 seconds"),
        (None, 8.0, ""),
    ],
)
def test_a_time_that_is_not_known_is_not_shown(
    usual: float | None, seconds: float, says: str
) -> None:
    saved = session(kernel(), seconds=seconds)
    it = card(replace(OWN, usual_start_seconds=usual), saved=saved)
    assert it.wake_takes == says


@pytest.mark.parametrize(
    ("usd", "says"),
    [(None, ""), (0.0, "less than $0.01 a day"), (0.011, "$0.01 a day"), (1.2, "$1.20 a day")],
)
def test_what_it_costs_to_keep(usd: float | None, says: str) -> None:
    assert card(usd=usd).keep_price == says


@pytest.mark.parametrize(
    ("gpu", "memory", "says"),
    [
        (16 * GB, 16.0, ""),
        (0, 16.0, "no GPU: 900 MB from the GPU come back in main memory"),
        (500_000_000, 16.0, "900 MB were on the GPU; this one has 500 MB"),
        (16 * GB, 2.0, "3.1 GB do not fit in its 2 GiB of memory"),
        (16 * GB, 0.0, ""),  # unknown
    ],
)
def test_what_does_not_fit_is_said(gpu: int, memory: float, says: str) -> None:
    assert does_not_fit(session(kernel()), gpu, memory) == says
    # It counts all variables, not only the largest.
    assert does_not_fit(session(kernel(largest=[])), gpu, memory) == says


# --- what has ended -------------------------------------------------------------------------


def test_an_expired_session_is_news_for_a_month() -> None:
    last = sleeping(expires_at=NOW)
    assert expired(last, NOW - timedelta(seconds=1)) is None
    assert expired(last, NOW) == Expired(last.session.slept_at, NOW)
    assert expired(last, NOW + timedelta(days=31)) is None
    assert expired(replace(last, woken_at=NOW), NOW) is None
    assert expired(None, NOW) is None


def test_the_reason_of_the_stop_comes_before_what_began_the_sleep() -> None:
    said = asleep(found(session(kernel()), reason="It had been idle for 30 minutes"), [OWN], NOW)
    assert said.why == "It had been idle for 30 minutes"
    assert asleep(found(session(kernel())), [OWN], NOW).why == "Nobody used it"


# --- what is sent ----------------------------------------------------------------------------


def test_a_wake_button_counts_instead_of_the_chosen_card() -> None:
    sent = {
        "profile": ["t4"],
        "market.t4": ["spot-first"],
        "disk_gib.a10g": ["80"],
        "wake": ["a10g"],
        "session": ["fresh"],
    }
    assert read_form(sent) == {"profile": "a10g", "disk_gib": "80", "session": "wake"}


def test_starting_fresh_is_sent_with_the_chosen_card() -> None:
    sent = {"profile": ["t4"], "session": ["fresh"]}
    assert read_form(sent) == {"profile": "t4", "session": "fresh"}


def test_each_wake_button_sends_its_profile_without_a_script() -> None:
    html = form(OWN, A10G, asleep=card(OWN, A10G))
    assert 'name="wake" value="t4" formnovalidate' in html
    assert 'name="wake" value="a10g" formnovalidate' in html
    assert "onclick" not in html


# --- sizes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (999_600, "1 MB"),
        (40_000_000, "40 MB"),
        (999_960_000, "1 GB"),
        (3_140_000_000, "3.1 GB"),
        (24_000_000_000, "24 GB"),
        (2**60, "1152922 TB"),
    ],
)
def test_sizes_in_words(size: int, says: str) -> None:
    assert in_words(size) == says
