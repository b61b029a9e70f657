"""What a user may choose, and that none exceeds the bounds of the profile."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ec2spawner.config import HomeBounds, Profile, ProfileOptions
from ec2spawner.core.profiles.choices import (
    MARKETS_OF,
    OPTIONS,
    Choice,
    OptionsRefused,
    apply_user_options,
    open_markets,
)
from ec2spawner.wire import Market

BIG = Profile(display_name="Big", slug="big", gpu="A100", gpu_count=8, default=True)
T4 = Profile(
    display_name="T4, 16 GB",
    slug="t4",
    gpu="T4",
    default=True,
    profile_options=ProfileOptions.model_validate(
        {
            "market": ["on-demand"],
            "disk_gib": {"min": 50, "max": 500},
            "idle": {"min": "15m", "max": "4h"},
        }
    ),
)
CPU = Profile(display_name="No GPU", slug="cpu", vcpus=2, market="spot-only")
LIST = [BIG, T4, CPU]
"""The first is open to others only."""


def chosen(**options: object) -> Choice[Profile]:
    return apply_user_options(LIST, LIST[1:], options)


def refusal(**options: object) -> str:
    with pytest.raises(OptionsRefused) as refused:
        chosen(**options)
    return str(refused.value)


def test_a_start_wakes_what_sleeps_unless_it_is_to_be_fresh() -> None:
    assert (chosen().wakes, chosen(session="wake").wakes) == (True, True)
    assert not chosen(session="fresh").wakes
    for wrong in ("both", "", True, ["wake"], None):
        assert refusal(session=wrong).startswith("session: ")


def test_a_temporary_server_has_an_end_within_bounds() -> None:
    assert chosen().temporary_seconds is None
    assert chosen(temporary=600).temporary_seconds == 600
    for wrong in (59, 14_401, -1, math.nan, math.inf, True, "600", [600]):
        assert refusal(temporary=wrong).startswith("temporary: ")


# --- the profile -----------------------------------------------------------------------------


def test_without_a_request_the_first_permitted_default_is_chosen() -> None:
    assert apply_user_options(LIST, LIST, {}).profile is BIG
    assert chosen().profile is T4
    assert apply_user_options(LIST, [CPU], {}).profile is CPU


def test_a_profile_by_its_slug() -> None:
    assert chosen(profile="cpu").profile is CPU


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"profile": "a100"}, 'profile: there is none called "a100". Choose one of: t4, cpu.'),
        ({"profile": "big"}, 'profile: "Big" is not open to you. Choose one of: t4, cpu; or ask'),
        ({"profile": ["t4", "cpu"]}, "profile: must be one text, not a list. Choose one of"),
        ({"profile": None}, "profile: must be one text, not null."),
        ({"profile": "t4", "disk": 9}, '"disk": there is no such option. Send only profile, '),
        ({"instance_type": "p5.48xlarge"}, '"instance_type": there is no such option'),
    ],
)
def test_an_unknown_profile_or_option_is_refused_with_the_fix(
    options: dict[str, object], says: str
) -> None:
    assert refusal(**options).startswith(says)


def test_a_refusal_names_twenty_profiles_and_counts_the_others() -> None:
    many = [CPU.model_copy(update={"slug": f"cpu-{number}"}) for number in range(23)]
    with pytest.raises(OptionsRefused) as refused:
        apply_user_options(many, many, {"profile": "a100"})
    assert "cpu-18, cpu-19 and 3 more" in str(refused.value)


def test_a_user_without_profiles_gets_an_explanation() -> None:
    with pytest.raises(OptionsRefused, match="Ask an admin"):
        apply_user_options(LIST, [], {})


# --- within a profile ------------------------------------------------------------------------


def test_without_a_choice_the_profiles_values_apply() -> None:
    assert chosen(profile="t4") == Choice(T4, (Market.SPOT, Market.ON_DEMAND))
    assert chosen(profile="cpu") == Choice(CPU, (Market.SPOT,))


def test_strings_of_the_form_and_numbers_of_rest_are_accepted() -> None:
    by_form = chosen(profile="t4", market="on-demand", disk_gib="200", idle="30m")
    by_rest = chosen(profile="t4", market="on-demand", disk_gib=200, idle=1800)
    assert by_form == by_rest == Choice(T4, (Market.ON_DEMAND,), 200, 1800.0)


def test_the_bounds_themselves_are_allowed() -> None:
    assert chosen(disk_gib=50, idle="4h") == Choice(T4, MARKETS_OF["spot-first"], 50, 14400.0)
    assert chosen(disk_gib="500", idle="15m").disk_gib == 500


def test_the_profiles_own_market_is_always_permitted() -> None:
    assert open_markets(T4) == ("spot-first", "spot-wait", "on-demand")
    assert open_markets(CPU) == ("spot-only", "spot-wait")
    assert chosen(profile="cpu", market="spot-only").markets == (Market.SPOT,)


def test_a_spot_profile_permits_waiting_and_the_other_market() -> None:
    waits = chosen(profile="t4", market="spot-wait")
    assert (waits.markets, waits.waits) == ((Market.SPOT,), True)
    assert waits.otherwise == (Market.ON_DEMAND,)
    assert chosen(profile="cpu", market="spot-wait").otherwise == ()
    for word in ("spot-first", "on-demand"):
        assert not chosen(profile="t4", market=word).waits
    closed = ProfileOptions.model_validate({"wait_for_spot": False})
    impatient = CPU.model_copy(update={"profile_options": closed})
    assert open_markets(impatient) == ("spot-only",)
    dear = CPU.model_copy(update={"market": "on-demand"})
    assert open_markets(dear) == ("on-demand",), "there is nothing to wait for"


@pytest.mark.parametrize("limit", [0.3, "0.3", "0.30", ".3"])
def test_anyone_may_set_a_price_limit(limit: object) -> None:
    assert chosen(max_usd_per_hour=limit).max_usd_per_hour == 0.3
    assert chosen().max_usd_per_hour is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_usd_per_hour": 0}, "max_usd_per_hour: 0 is out of bounds. Send USD per hour"),
        ({"max_usd_per_hour": math.nan}, "max_usd_per_hour: nan is out of bounds."),
        ({"max_usd_per_hour": 1e9}, "max_usd_per_hour: 1e+09 is out of bounds."),
        ({"max_usd_per_hour": "-1"}, 'max_usd_per_hour: "-1" is no amount.'),
        ({"max_usd_per_hour": "1e1"}, 'max_usd_per_hour: "1e1" is no amount.'),
        ({"max_usd_per_hour": True}, "max_usd_per_hour: true or false is no amount."),
        (
            {"disk_gib": 501},
            "disk_gib: 501 is out of bounds. Send a whole number of GiB from 50 to 500, or leave",
        ),
        ({"disk_gib": -1}, "disk_gib: -1 is out of bounds."),
        ({"disk_gib": "49"}, "disk_gib: 49 is out of bounds."),
        ({"disk_gib": 1e9}, "disk_gib: 1e+09 is no whole number."),
        ({"disk_gib": math.nan}, "disk_gib: nan is no whole number."),
        ({"disk_gib": True}, "disk_gib: true or false is no whole number."),
        ({"disk_gib": [100]}, "disk_gib: a list is no whole number."),
        ({"disk_gib": " 100"}, 'disk_gib: " 100" is no whole number.'),
        ({"disk_gib": "١٠٠"}, 'disk_gib: "١٠٠" is no whole number.'),
        ({"disk_gib": 10**9999}, "disk_gib: such a number is out of bounds."),
        (
            {"idle": "5h"},
            'idle: "5h" is out of bounds. Send a time from 15 minutes to 4 hours, such as "900s"',
        ),
        ({"idle": 0}, "idle: 0 is out of bounds."),
        ({"idle": "-1h"}, 'idle: "-1h" is no duration.'),
        ({"idle": -60}, "idle: -60 is negative."),
        ({"idle": math.inf}, "idle: inf is longer than 10 years."),
        ({"idle": "never"}, 'idle: "never" is no duration.'),
        ({"idle": "1 h"}, 'idle: "1 h" is no duration.'),
        ({"idle": "1h\n"}, 'idle: "1h" is no duration.'),
        ({"idle": {"server": "1h"}}, "idle: an object is no duration."),
        (
            {"market": "spot-only"},
            'market: "T4, 16 GB" is not open for spot-only. Send spot-first, spot-wait or',
        ),
        ({"market": "spot"}, 'market: "spot" is no market.'),
        ({"market": ["on-demand"]}, "market: a list is no market."),
        ({"market": False}, "market: true or false is no market."),
        ({"profile": "cpu", "market": "on-demand"}, 'market: "No GPU" is not open for on-demand.'),
        ({"profile": "cpu", "disk_gib": 100}, 'disk_gib: "No GPU" leaves no choice of it.'),
        ({"profile": "cpu", "idle": "1h"}, 'idle: "No GPU" leaves no choice of it. Leave it out.'),
    ],
)
def test_choices_outside_the_profile_are_refused_with_the_bounds(
    options: dict[str, object], says: str
) -> None:
    assert refusal(**options).startswith(says)


# --- whatever is sent ------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
near = st.fixed_dictionaries(
    {},
    optional={
        "profile": st.sampled_from(["t4", "t4", "t4", "cpu", "big"]),
        "market": st.sampled_from([*MARKETS_OF, "spot"]),
        "disk_gib": (disks := st.integers(0, 600)) | disks.map(str),
        "idle": st.floats(0, 20000) | st.integers(0, 300).map("{}m".format),
    },
)
options = (
    near
    | st.dictionaries(st.sampled_from(OPTIONS), anything)
    | st.dictionaries(st.sampled_from(OPTIONS) | st.text(), anything)
)


@settings(max_examples=500)
@given(options)
@example({"idle": "9" * 5000 + "h"})
@example({"idle": 10**5000})
@example({"disk_gib": "9" * 5000})
@example({"profile": "\ud800"})
def test_choices_are_accepted_exactly_within_the_bounds(
    sent: dict[str, object],
) -> None:
    refused, found = "", None
    try:
        found = apply_user_options(LIST, LIST[1:], sent)
    except OptionsRefused as error:
        refused = str(error)
    assert len(refused) < 600
    assert refused.isprintable()
    if found is not None:
        assert_within_bounds(found, sent)


def assert_within_bounds(found: Choice[Profile], sent: dict[str, object]) -> None:
    assert found.profile in LIST[1:]
    assert found.profile.slug == sent.get("profile", "t4")
    assert found.markets == MARKETS_OF[str(sent.get("market", found.profile.market))]
    opened = found.profile.profile_options
    assert (found.disk_gib is None) == ("disk_gib" not in sent)
    assert (found.server_idle_seconds is None) == ("idle" not in sent)
    if found.disk_gib is not None:
        assert opened.disk_gib is not None
        assert opened.disk_gib.min <= found.disk_gib <= opened.disk_gib.max
    if found.server_idle_seconds is not None:
        assert opened.idle is not None
        assert opened.idle.min <= found.server_idle_seconds <= opened.idle.max


@given(options)
def test_stored_options_keep_their_meaning(sent: dict[str, object]) -> None:
    """JupyterHub keeps them as JSON."""

    def outcome(user_options: dict[str, object]) -> object:
        try:
            return apply_user_options(LIST, LIST[1:], user_options)
        except OptionsRefused as refused:
            return str(refused)

    assert outcome(json.loads(json.dumps(sent))) == outcome(sent)


# --- the home --------------------------------------------------------------------------------

SIZES = HomeBounds(min=20, max=500)


def test_a_size_of_the_home_is_chosen_within_its_bounds() -> None:
    assert apply_user_options(LIST, LIST, {"home_gib": "200"}, SIZES).home_gib == 200
    for asked, said in ((10, "20 to 500"), ("much", "no whole number")):
        with pytest.raises(OptionsRefused, match=said):
            apply_user_options(LIST, LIST, {"home_gib": asked}, SIZES)
    assert "leaves no choice" in refusal(home_gib=200)


def test_options_for_one_start_accept_a_zone_or_a_snapshot() -> None:
    assert chosen(move_home="us-east-1b").move_home == "us-east-1b"
    for asked in ("empty", "snap-0a1b2c3d"):
        assert chosen(replace_home=asked).replace_home == asked
    for wrong in ({"move_home": "<b>"}, {"move_home": True}, {"replace_home": "vol-1"}):
        assert "Send " in refusal(**wrong)


# --- who pays --------------------------------------------------------------------------------

PAYERS = ("group:lab", "user:ann")


def test_the_first_payer_is_the_default() -> None:
    assert apply_user_options(LIST, LIST, {}, payers=PAYERS).payer == "group:lab"
    assert apply_user_options(LIST, LIST, {"payer": "user:ann"}, payers=PAYERS).payer == "user:ann"
    assert chosen().payer == ""


@pytest.mark.parametrize("asked", ["group:other", "hub", "user:ben", "", 3, ["group:lab"], None])
def test_only_ones_own_payers_may_be_chosen(asked: object) -> None:
    if asked is None:
        with pytest.raises(OptionsRefused, match="nobody may pay"):
            apply_user_options(LIST, LIST, {}, payers=())
        return
    with pytest.raises(OptionsRefused, match="group:lab, user:ann"):
        apply_user_options(LIST, LIST, {"payer": asked}, payers=PAYERS)
