"""The own disk of an instance that is yet to be started, and what comes with such an instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...config import Options, Profile
from ...core.pricing.beside import Beside
from ...provisioner.provisioner import Provisioner

NO_CHOICE: Final[Mapping[str, Any]] = {}


def own_disk_gib(
    options: Options,
    provisioner: Provisioner,
    profile: Profile,
    user_options: Mapping[str, Any] = NO_CHOICE,
) -> int:
    """Size in GiB as chosen, which has been checked, or configured; at least that of the image."""
    image = provisioner.market.images.known
    asked = int(user_options.get("disk_gib") or options.disk(profile))
    return max(asked, image.root_gib if image else 0)


def beside_instance(
    options: Options,
    provisioner: Provisioner,
    profile: Profile,
    user_options: Mapping[str, Any] = NO_CHOICE,
) -> Beside:
    """Prices of what comes with an instance of this profile, with the chosen disk."""
    snapshots = [each.snapshot for each in options.data_volumes_of(profile)]
    gib = own_disk_gib(options, provisioner, profile, user_options)
    return provisioner.market.prices.beside(gib, snapshots)
