"""A spawn page's form is filled as by a browser, and messages are found in JupyterHub's pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.load_test.user.hub_page import (
    MAX_FIELDS,
    MAX_MESSAGE,
    FormRefused,
    form_of,
    message_of,
)

PAGE = """
<form id="other" action="/elsewhere"><input name="secret" value="1"></form>
<form id="spawn_form" action="/hub/spawn/ann?_xsrf=a&amp;next=b" method="post">
  <input type="hidden" name="token" value="t">
  <input type="radio" name="profile" value="t4" checked>
  <input type="radio" name="profile" value="a10g">
  <input type="radio" name="profile" value="full" disabled>
  <input type="checkbox" name="afresh" value="true">
  <input type="checkbox" name="agreed" checked>
  <input type="number" name="disk" value="50"><input name="empty">
  <select name="market"><option value="spot">Spot</option>
    <option value="on-demand" selected>On demand</option></select>
  <select name="idle"><option value="1">1 h</option><option value="2">2 h</option></select>
  <textarea name="note">
a &lt; b</textarea>
  <button type="submit" name="start" value="now">Start</button>
  <input type="submit" name="go" value="go">
</form>
<input name="outside" value="x">
"""


def test_a_form_is_sent_as_its_page_shows_it() -> None:
    form = form_of(PAGE, "spawn_form")
    assert form is not None
    assert form.action == "/hub/spawn/ann?_xsrf=a&next=b"
    assert form.filled({}) == [
        ("token", "t"),
        ("profile", "t4"),
        ("agreed", "on"),
        ("disk", "50"),
        ("empty", ""),
        ("market", "on-demand"),
        ("idle", "1"),
        ("note", "a < b"),
    ]


def test_choices_replace_what_the_page_had_chosen() -> None:
    form = form_of(PAGE, "spawn_form")
    assert form is not None
    filled = dict(form.filled({"profile": "a10g", "market": "spot", "unlisted": "z"}))
    assert (filled["profile"], filled["market"], filled["unlisted"]) == ("a10g", "spot", "z")
    with pytest.raises(FormRefused, match="the page offers profile t4, a10g, not full"):
        form.filled({"profile": "full"})


def test_a_page_without_the_form_has_none() -> None:
    assert form_of("<form id='login'></form>", "spawn_form") is None


@pytest.mark.parametrize(
    "page",
    [
        '<p class="login_error">\n Invalid  username or password </p>',
        '<p class="spawn-error-msg alert">Invalid username<br> or <b>password</b></p><p>x</p>',
        '<div class="error"><h1>Invalid username</h1><p>or password</p></div><p>more</p>',
    ],
)
def test_the_message_of_each_kind_of_page_is_found(page: str) -> None:
    assert message_of(f"<h1>Hub</h1>{page}<footer>f</footer>") == "Invalid username or password"


def test_a_page_without_a_message_has_none() -> None:
    assert message_of("<h1>Welcome</h1>") == ""


def test_what_a_page_may_contain_is_bounded() -> None:
    many = "".join(f'<input name="n{number}">' for number in range(MAX_FIELDS + 9))
    form = form_of(f'<form id="f">{many}', "f")
    assert form is not None
    assert len(form.values) == MAX_FIELDS
    assert len(message_of(f'<p class="error">{"a " * 9999}')) == MAX_MESSAGE


@given(st.text(alphabet="<>/=\"'! abfiormnpselct&;-[]\n", max_size=300))
def test_no_page_is_an_error(page: str) -> None:
    form_of(f'<form id="f">{page}', "f")
    assert len(message_of(f'<p class="error">{page}')) <= MAX_MESSAGE
