"""The spawn page says what each profile costs, and never what nobody knows."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PrefixLoader
from jupyterhub._data import DATA_FILES_PATH

from ec2spawner.hub.spawn_page import (
    TEMPLATES,
    Card,
    duration_words,
    read_form,
    render_spawn_form,
    usd,
)

T4 = Card(
    slug="t4",
    name="T4, 16 GB",
    gpu_text="1 × T4, 16 GB",
    vcpus=4,
    memory_gib=16.0,
    scratch_gb=125,
    spot_usd_per_hour=0.19,
    on_demand_usd_per_hour=0.526,
    price_source="EC2's spot price history",
    price_age_seconds=40,
    usual_start_seconds=45,
    idle_stop_seconds=3600,
)
CPU = Card(slug="cpu", name="No GPU", vcpus=4, memory_gib=16.0, market="on-demand")


class Page(HTMLParser):
    """What a browser makes of the form: its text, its elements and its radio buttons."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: dict[str, dict[str, str | None]] = {}
        self.radios: list[dict[str, str | None]] = []
        self.labels_for: list[str | None] = []
        self.ids: list[str] = []
        self._words: list[str] = []
        self._in_style = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        found = dict(attrs)
        self._in_style = tag == "style"
        if tag == "input":
            self.radios.append(found)
        if tag == "label":
            self.labels_for.append(found.get("for"))
        if found.get("id"):
            self.ids.append(str(found["id"]))
            self.attributes[str(found["id"])] = found

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self._words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self._words).split())


def page(*cards: Card, **words: str | None) -> Page:
    return Page(render_spawn_form(cards, region="us-east-1", **words))  # type: ignore[arg-type]


def test_a_card_says_what_it_is_and_costs() -> None:
    text = page(T4).text
    assert "T4, 16 GB" in text
    assert "4 vCPUs · 16 GiB memory · 125 GB scratch" in text
    assert "starts in about 45 seconds · stops after 1 hour without work" in text
    assert "$0.19/h spot −64 % on-demand $0.53" in text
    assert (
        "in USD per hour for us-east-1, from EC2's spot price history, checked 40 seconds" in text
    )


def test_each_card_is_a_radio_button_with_its_label() -> None:
    shown = page(T4, CPU)
    assert [radio["value"] for radio in shown.radios] == ["t4", "cpu"]
    assert all(radio["type"] == "radio" and radio["name"] == "profile" for radio in shown.radios)
    assert shown.labels_for == [radio["id"] for radio in shown.radios]
    for radio in shown.radios:
        described = f"{radio['aria-labelledby']} {radio['aria-describedby']}".split()
        assert set(described) <= set(shown.ids)


def test_exactly_one_card_is_selected() -> None:
    def checked(shown: Page) -> list[str | None]:
        return [radio["value"] for radio in shown.radios if "checked" in radio]

    assert checked(page(T4, CPU)) == ["t4"]
    assert checked(page(T4, Card(slug="cpu", name="No GPU", selected=True))) == ["cpu"]


def test_the_page_needs_no_script() -> None:
    assert not {"script", "button", "iframe"} & set(page(T4, CPU).elements)


@pytest.mark.parametrize(
    ("market", "spot", "on_demand", "says"),
    [
        ("spot-first", 0.19, 0.526, "$0.19/h spot −64 % on-demand $0.53"),
        ("spot-first", 0.60, 0.526, "$0.60/h spot on-demand $0.53"),
        ("spot-first", 0.19, None, "$0.19/h spot on-demand price unknown"),
        ("spot-first", None, 0.526, "$0.53/h on-demand spot price unknown"),
        ("spot-first", None, None, "price unknown"),
        ("spot-only", None, 0.526, "spot price unknown on-demand $0.53"),
        ("spot-only", None, None, "spot price unknown"),
        ("on-demand", 0.19, 0.526, "$0.53/h on-demand not interrupted"),
        ("on-demand", 0.19, None, "price unknown not interrupted"),
    ],
)
def test_a_price_in_words(
    market: str, spot: float | None, on_demand: float | None, says: str
) -> None:
    card = Card(
        slug="x",
        name="X",
        market=market,
        spot_usd_per_hour=spot,
        on_demand_usd_per_hour=on_demand,
    )
    assert page(card).text.endswith(f"X {says}")


def test_the_source_of_prices_stands_once_where_it_is_one() -> None:
    other = Card(slug="x", name="X", spot_usd_per_hour=1, price_source="a table of 2026-07-20")
    assert page(T4, CPU).text.count("EC2's spot price history") == 1
    both = page(T4, other).text
    assert both.index("EC2's spot price history") > both.index("$0.19")
    assert both.index("a table of 2026-07-20") > both.index("$1.00")


def test_how_the_last_server_ended() -> None:
    notice = "Your last server was stopped at 14:50 UTC: nothing had worked there for 1 hour."
    assert notice in page(T4, notice=notice).text
    assert "last server" not in page(T4).text


def test_without_a_profile_one_is_told_whom_to_ask() -> None:
    empty = page(contact="gpu-help@example.org")
    assert "Ask gpu-help@example.org" in empty.text
    assert not empty.radios


@given(st.text(min_size=1))
def test_what_people_wrote_is_shown_as_text(text: str) -> None:
    clean = page(T4, notice="x", home="x", contact="x").elements
    hostile = f"{text}<script>alert(1)</script>\"' onclick=x"
    card = Card(
        slug=hostile,
        name=hostile,
        description=hostile,
        gpu_text=T4.gpu_text,
        vcpus=4,
        memory_gib=16,
        price_source=hostile,
        price_age_seconds=40,
    )
    shown = page(card, notice=hostile, home=hostile)
    assert "script" not in shown.elements
    assert set(shown.elements) <= set(clean)
    assert set(shown.radios[0]) == set(page(T4).radios[0])


# --- the hub's own pages ---------------------------------------------------------------------


def hub_page(name: str, **context: Any) -> Page:
    """A page as JupyterHub renders it, from our template over its own."""
    stock = FileSystemLoader(Path(DATA_FILES_PATH) / "templates")
    loader = ChoiceLoader(
        [PrefixLoader({"templates": stock}), FileSystemLoader(TEMPLATES), stock],
    )
    base = {"base_url": "/hub/", "static_url": lambda path, **_: path, "parsed_scopes": {}}
    return Page(
        Environment(loader=loader, autoescape=True).get_template(name).render(base | context)
    )


def person(name: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, escaped_name="escaped", json_escaped_name="", spawner=None)


def test_the_form_is_in_jupyterhubs_page_with_a_start_button() -> None:
    shown = hub_page(
        "spawn.html",
        user=person("ann"),
        for_user=person("ann"),
        no_spawner_check=True,
        url="/hub/spawn?_xsrf=1",
        spawner_options_form=render_spawn_form([T4], region="us-east-1"),
    )
    form = shown.attributes["spawn_form"]
    assert (form["action"], form["method"]) == ("/hub/spawn?_xsrf=1", "post")
    assert [radio["value"] for radio in shown.radios] == ["t4"]
    assert shown.text.count("Choose your GPU") == 2, "heading and title"
    assert "Start" in shown.text
    assert "You are starting a server for" not in shown.text


def test_the_spawn_page_says_what_went_wrong_and_for_whom_one_starts() -> None:
    shown = hub_page(
        "spawn.html",
        user=person("ann"),
        for_user=person("<b>ben</b>"),
        no_spawner_check=True,
        error_message="profile: <i>none</i>",
        spawner_options_form="",
    )
    assert "You are starting a server for <b>ben</b>, not for yourself." in shown.text
    assert "profile: <i>none</i>" in shown.text


def test_the_progress_page_knows_whose_start_it_shows() -> None:
    hostile = "\"><script>alert('1')</script>"
    shown = hub_page(
        "spawn_pending.html",
        user=person(hostile),
        no_spawner_check=True,
        spawner=SimpleNamespace(name=hostile, user=person(hostile)),
        progress_url="/hub/api/users/x/server/progress?_xsrf=1",
    )
    start = shown.attributes["ec2-progress"]
    assert start["data-user"] == start["data-server"] == hostile
    assert start["data-progress-url"] == "/hub/api/users/x/server/progress?_xsrf=1"
    assert str(start["data-spawn-url"]).startswith("/hub/spawn/escaped/%22%3E%3Cscript%3E")
    plain = hub_page(
        "spawn_pending.html",
        user=person("ann"),
        no_spawner_check=True,
        spawner=SimpleNamespace(name="", user=person("ann")),
        progress_url="",
    )
    assert plain.attributes["ec2-progress"]["data-spawn-url"] == "/hub/spawn/escaped"
    assert plain.elements.count("script") == shown.elements.count("script")


def test_what_the_hub_sends_is_never_put_on_the_page_as_html() -> None:
    for script in (TEMPLATES / "ec2spawner").glob("*.js"):
        source = script.read_text(encoding="utf-8")
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", ".html(", "document.write"):
            assert way not in source, f"{way} in {script.name}"


# --- what comes back -------------------------------------------------------------------------


def test_the_form_comes_back_as_user_options() -> None:
    assert read_form({"profile": ["t4"]}) == {"profile": "t4"}
    assert read_form({}) == {}
    assert read_form({"profile": [""]}) == {}


def test_what_is_odd_is_left_to_be_refused() -> None:
    assert read_form({"profile": ["t4", "cpu"]}) == {"profile": ["t4", "cpu"]}
    assert read_form({"profile": ["t4"], "root": ["yes"]}) == {"profile": "t4", "root": "yes"}


# --- words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "says"),
    [(0.0789, "0.079"), (0.19, "0.19"), (1.0, "1.00"), (24.48, "24.48"), (113.2, "113")],
)
def test_money(amount: float, says: str) -> None:
    assert usd(amount) == says


@pytest.mark.parametrize(
    ("seconds", "says"),
    [
        (1, "1 second"),
        (40, "40 seconds"),
        (60, "1 minute"),
        (100, "2 minutes"),
        (1200, "20 minutes"),
        (3600, "1 hour"),
        (5400, "1.5 hours"),
        (86400, "1 day"),
        (259200, "3 days"),
    ],
)
def test_durations(seconds: float, says: str) -> None:
    assert duration_words(seconds) == says
