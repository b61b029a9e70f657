"""Names of options as an admin finds them in the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...wire import Market
from ..entries.profile import Profile
from ..options import Options


def of_profile(index: int, profile: Profile, option: str) -> str:
    """Such as `c.EC2Spawner.profile_list[2].after_stop ("A10G, 24 GB")`."""
    return f'c.EC2Spawner.profile_list[{index}].{option} ("{profile.display_name[:60]}")'


def listed(names: Iterable[str]) -> str:
    """Such as `"size_gib" and "encrypted"`."""
    quoted = [f'"{name}"' for name in names]
    return " and ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))


def numbered(options: Options) -> Iterator[tuple[int, Profile]]:
    """The profiles with their places in `profile_list`; none where that is a function."""
    return enumerate(options.profiles)


def buys(options: Options, market: Market) -> bool:
    """Whether a server may be bought in this market, for all that the configuration shows."""
    return not options.profiles or any(market in each.every_market for each in options.profiles)
