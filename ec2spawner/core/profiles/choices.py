"""What a user chose: a profile, and within its bounds the market, the disk and the idle time.

Pure. The form sends strings, REST sends JSON, and stored options are what was sent before: all are
validated here, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ...wire import Market
from ..text.durations import NotADuration, in_words, seconds
from . import profiles

MARKETS_OF: Mapping[str, tuple[Market, ...]] = {
    "spot-first": (Market.SPOT, Market.ON_DEMAND),
    "spot-wait": (Market.SPOT,),
    "spot-only": (Market.SPOT,),
    "on-demand": (Market.ON_DEMAND,),
}
"""The value of `market` -> the markets to try, in order."""

WAITS = "spot-wait"
"""The value of `market` for a start that waits while spot is sold out, instead of failing."""

ONCE = ("move_home", "replace_home", "afresh", "session", "temporary")
"""Options that apply to one start only."""

OPTIONS = (
    *("profile", "market", "max_usd_per_hour", "disk_gib", "idle", "home_gib", "payer"),
    *ONCE,
)
"""What a user may send, all of it optional."""

MIN_TEMPORARY = 60.0
MAX_TEMPORARY = 4 * 3600.0
"""Seconds after which a temporary server ends: between what EC2 bills at least, and longer than any
rehearsal of starts."""

MAX_LIMIT = 100_000.0
"""USD/hour: a higher limit is a mistake. The most expensive instance type costs a hundredth."""

MAX_NAMED = 20
"""Profiles named in one message; more do not help."""


class OptionsRefused(ValueError):
    """Invalid user options: the message names the option, its bounds and the fix.

    It is one short line of plain text, whatever was sent.
    """


class Bounds(Protocol):
    """An inclusive range."""

    @property
    def min(self) -> float:
        """The smallest value that may be chosen."""

    @property
    def max(self) -> float:
        """The largest value that may be chosen."""


class ProfileOptions(Protocol):
    """The choices that a profile opens to its user; None and empty open none."""

    @property
    def market(self) -> Sequence[str]:
        """Markets besides the profile's own, by name; empty leaves no choice."""

    @property
    def wait_for_spot(self) -> bool:
        """Whether users may wait for spot instead of starting on demand."""

    @property
    def disk_gib(self) -> Bounds | None:
        """Bounds of the root disk in GiB."""

    @property
    def idle(self) -> Bounds | None:
        """Bounds of the idle limit in seconds."""


class Profile(profiles.Profile, Protocol):
    """A profile with its market and the choices of its user."""

    @property
    def market(self) -> str:
        """`spot-first`, `spot-wait`, `spot-only` or `on-demand`."""

    @property
    def profile_options(self) -> ProfileOptions:
        """The choices that the admin opens for this profile."""


P = TypeVar("P", bound=Profile)


@dataclass(frozen=True, slots=True)
class Choice(Generic[P]):
    """A profile and its user's choices. None is the default of the profile or the hub."""

    profile: P
    markets: tuple[Market, ...]
    """To try, in order."""
    disk_gib: int | None = None
    server_idle_seconds: float | None = None
    """Stop the server after it has been idle for this long."""
    home_gib: int | None = None
    move_home: str | None = None
    """The zone to which the home is moved before the start."""
    replace_home: str | None = None
    """What replaces a home whose volume no longer exists: a snapshot's id, or `empty`."""
    afresh: bool = False
    """Give up the instance that is retained for this server."""
    max_usd_per_hour: float | None = None
    """Maximum price of an offer; None is no limit."""
    waits: bool = False
    """Whether to wait while nothing in `markets` is available."""
    otherwise: tuple[Market, ...] = ()
    """If it waits: the other markets that the profile opens to its user."""
    payer: str = ""
    """To whom the server is charged; empty is its user."""
    wakes: bool = True
    """Wake the session that sleeps; otherwise it stays asleep."""
    temporary_seconds: float | None = None
    """The server ends after so many seconds, and its home with it; None keeps the home. Only an
    admin may choose it."""


def open_markets(profile: Profile) -> tuple[str, ...]:
    """The values of `market` that the profile's users may send: the profile's own comes first.

    A user who gets spot may also wait for it: that never costs more.
    """
    own, chosen = profile.market, profile.profile_options
    waits = chosen.wait_for_spot and Market.SPOT in MARKETS_OF[own]
    return tuple(dict.fromkeys([own, *([WAITS] if waits else []), *chosen.market]))


def apply_user_options(
    every: Sequence[P],
    visible: Sequence[P],
    user_options: Mapping[str, object],
    home_sizes: Bounds | None = None,
    payers: Sequence[str] | None = None,
) -> Choice[P]:
    """The choice in the form, the REST API or stored options; `{}` is the default profile.

    `visible` are the profiles in `every` that this user may use, `home_sizes` the bounds of their
    home in GiB, and `payers` who may pay for them, the default first; None is only the user. Raises
    `OptionsRefused`.
    """
    unknown = [str(key) for key in user_options if key not in OPTIONS]
    if unknown:
        raise OptionsRefused(
            f"{_quoted(unknown)}: there is no such option. Send only {', '.join(OPTIONS)}."
        )
    profile = _profile(every, visible, user_options)
    market = _market(profile, user_options.get("market", profile.market))
    markets = MARKETS_OF[market]
    waits = market == WAITS
    return Choice(
        profile=profile,
        markets=markets,
        disk_gib=_disk(profile, user_options) if "disk_gib" in user_options else None,
        server_idle_seconds=_idle(profile, user_options) if "idle" in user_options else None,
        home_gib=_home(home_sizes, user_options) if "home_gib" in user_options else None,
        move_home=_once("move_home", r"[a-z0-9-]{1,40}", user_options),
        afresh=_afresh(user_options),
        replace_home=_once("replace_home", r"empty|snap-[0-9a-z]{1,40}", user_options),
        max_usd_per_hour=_limit(user_options.get("max_usd_per_hour")),
        waits=waits,
        otherwise=_other_markets(profile, markets) if waits else (),
        payer=_payer(payers, user_options.get("payer")),
        wakes=_wakes(user_options),
        temporary_seconds=_temporary(user_options),
    )


# --- the profile -----------------------------------------------------------------------------


def _profile(every: Sequence[P], visible: Sequence[P], user_options: Mapping[str, object]) -> P:
    if "profile" in user_options:
        return _named(every, visible, user_options["profile"])
    default = profiles.default_profile(visible)
    if default is None:
        raise OptionsRefused(
            "profile: there is none for you yet. Ask an admin to add you to a group that has one."
        )
    return default


def _named(every: Sequence[P], visible: Sequence[P], asked: object) -> P:
    for profile in visible:
        if profile.slug == asked:
            return profile
    for profile in every:
        if profile.slug == asked:
            raise OptionsRefused(
                f"profile: {_name(profile)} is not open to you. Choose one of: "
                f"{_slugs(visible)}; or ask an admin to add you to its group."
            )
    if not isinstance(asked, str):
        raise OptionsRefused(
            f"profile: must be one text, not {_kind(asked)}. Choose one of: {_slugs(visible)}."
        )
    raise OptionsRefused(
        f"profile: there is none called {_quoted([asked])}. Choose one of: {_slugs(visible)}."
    )


def _slugs(visible: Sequence[Profile]) -> str:
    shown = ", ".join(profile.slug for profile in visible[:MAX_NAMED])
    more = len(visible) - MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown or "none is open to you"


# --- choices within a profile ----------------------------------------------------------------


def _market(profile: Profile, asked: object) -> str:
    allowed = open_markets(profile)
    if isinstance(asked, str) and asked in allowed:
        return asked
    if isinstance(asked, str) and asked in MARKETS_OF:
        raise OptionsRefused(
            f"market: {_name(profile)} is not open for {asked}. {_one_of(allowed)}."
        )
    raise OptionsRefused(f"market: {_shown(asked)} is no market. {_one_of(allowed)}.")


def _other_markets(profile: Profile, markets: Sequence[Market]) -> tuple[Market, ...]:
    open_ = {market for word in open_markets(profile) for market in MARKETS_OF[word]}
    return tuple(market for market in Market if market in open_.difference(markets))


def _one_of(allowed: Sequence[str]) -> str:
    if len(allowed) == 1:
        return f"Leave it out: it is {allowed[0]}"
    choices = f"{', '.join(allowed[:-1])} or {allowed[-1]}"
    return f"Send {choices}, or leave it out for {allowed[0]}"


def _limit(asked: object) -> float | None:
    if asked is None:
        return None
    hint = 'Send USD per hour, such as "0.30", or leave it out'
    if isinstance(asked, str) and re.fullmatch(r"[0-9]{0,9}\.?[0-9]{1,9}", asked):
        asked = float(asked)
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        raise OptionsRefused(f"max_usd_per_hour: {_shown(asked)} is no amount. {hint}.")
    if not 0 < asked <= MAX_LIMIT:
        raise OptionsRefused(f"max_usd_per_hour: {_shown(asked)} is out of bounds. {hint}.")
    return float(asked)


def _payer(payers: Sequence[str] | None, asked: object) -> str:
    if payers is None and asked is None:
        return ""
    if not payers:
        raise OptionsRefused(
            "payer: nobody may pay for your servers yet. Ask an admin to add you to a group or "
            "project that may."
        )
    if asked is None:
        return payers[0]
    if isinstance(asked, str) and asked in payers:
        return asked
    named = ", ".join(payers[:MAX_NAMED])
    raise OptionsRefused(f"payer: {_shown(asked)} may not pay for you. Send one of: {named}.")


def _disk(profile: Profile, user_options: Mapping[str, object]) -> int:
    bounds = _opened("disk_gib", profile, profile.profile_options.disk_gib)
    return _size("disk_gib", user_options["disk_gib"], bounds)


def _home(bounds: Bounds | None, user_options: Mapping[str, object]) -> int:
    if bounds is None:
        raise OptionsRefused("home_gib: this hub leaves no choice of it. Leave it out.")
    return _size("home_gib", user_options["home_gib"], bounds)


def _once(option: str, pattern: str, user_options: Mapping[str, object]) -> str | None:
    asked = user_options.get(option)
    if asked is None or (isinstance(asked, str) and re.fullmatch(pattern, asked)):
        return asked
    what = 'a zone, such as "us-east-1a"' if option == "move_home" else '"empty" or a snapshot'
    raise OptionsRefused(f"{option}: {_shown(asked)} is not that. Send {what}, or leave it out.")


def _afresh(user_options: Mapping[str, object]) -> bool:
    asked = user_options.get("afresh")
    if asked in (None, False, "false"):
        return False
    if asked in (True, "true"):
        return True
    raise OptionsRefused(f"afresh: {_shown(asked)} is not that. Send true, or leave it out.")


def _wakes(user_options: Mapping[str, object]) -> bool:
    asked = user_options.get("session", "wake")
    if asked in ("wake", "fresh"):
        return asked == "wake"
    raise OptionsRefused(f"session: {_shown(asked)} is not that. Send wake or fresh.")


def _temporary(user_options: Mapping[str, object]) -> float | None:
    asked = user_options.get("temporary")
    if asked is None:
        return None
    fix = (
        f"Send seconds from {MIN_TEMPORARY:g} to {MAX_TEMPORARY:g}, or leave it out for a server "
        "that keeps its home"
    )
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        raise OptionsRefused(f"temporary: {_shown(asked)} is no number. {fix}.")
    if not MIN_TEMPORARY <= asked <= MAX_TEMPORARY:
        raise OptionsRefused(f"temporary: {_shown(asked)} is out of bounds. {fix}.")
    return float(asked)


def _size(option: str, asked: object, bounds: Bounds) -> int:
    fix = f"Send a whole number of GiB from {bounds.min:g} to {bounds.max:g}, or leave it out"
    # Ten digits are more than any disk needs, and Python refuses to parse thousands of them.
    if isinstance(asked, str) and re.fullmatch("[0-9]{1,10}", asked):
        asked = int(asked)
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise OptionsRefused(f"{option}: {_shown(asked)} is no whole number. {fix}.")
    if not bounds.min <= asked <= bounds.max:
        raise OptionsRefused(f"{option}: {_shown(asked)} is out of bounds. {fix}.")
    return asked


def _idle(profile: Profile, user_options: Mapping[str, object]) -> float:
    asked = user_options["idle"]
    bounds = _opened("idle", profile, profile.profile_options.idle)
    fix = (
        f"Send a time from {in_words(bounds.min)} to {in_words(bounds.max)}, such as "
        f'"{bounds.min:.15g}s", or leave it out'
    )
    if isinstance(asked, str) and not re.fullmatch("[0-9.smhd]{1,40}", asked):
        raise OptionsRefused(f"idle: {_shown(asked)} is no duration. {fix}.")
    try:
        found = seconds(asked)
    except NotADuration as error:
        raise OptionsRefused(f"idle: {_shown(asked)} {error}. {fix}.") from error
    if not bounds.min <= found <= bounds.max:
        raise OptionsRefused(f"idle: {_shown(asked)} is out of bounds. {fix}.")
    return found


def _opened(option: str, profile: Profile, bounds: Bounds | None) -> Bounds:
    if bounds is None:
        raise OptionsRefused(f"{option}: {_name(profile)} leaves no choice of it. Leave it out.")
    return bounds


# --- values of users, safe for a message -----------------------------------------------------


def _name(profile: Profile) -> str:
    return _quoted([profile.display_name])


def _shown(asked: object) -> str:
    """Numbers and strings as sent, other values by their type."""
    if isinstance(asked, str):
        return _quoted([asked])
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        return _kind(asked)
    return f"{asked:g}" if isinstance(asked, float) or abs(asked) < 10**15 else "such a number"


def _kind(asked: object) -> str:
    """JSON's name of the type."""
    if asked is None:
        return "null"
    names: dict[type, str] = {bool: "true or false", dict: "an object", list: "a list"}
    return names.get(type(asked), "a number" if isinstance(asked, int | float) else "this")


def _quoted(texts: Sequence[str]) -> str:
    """Shortened, on one line."""
    return ", ".join(f'"{"".join(c for c in text[:60] if c.isprintable())}"' for text in texts[:5])
