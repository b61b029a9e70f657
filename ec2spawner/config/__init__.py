"""The words an admin may write, checked once, before anything costs money.

`Options` is the one source of truth: the spawner's traits, their help and the configuration
reference are generated from its fields. Durations are texts such as `"1h"`, `"20m"`, `"1h30m"`,
or numbers of seconds; validated, they are seconds.
"""

from .discounts import DiscountConfig
from .idle import IdleConfig
from .image import ImageConfig
from .options import HomeConfig, Options
from .profile import Profile, ProfileOptions
from .validation import ConfigError, Problem, change_options, validate_options
from .values import seconds

__all__ = [
    "ConfigError",
    "DiscountConfig",
    "HomeConfig",
    "IdleConfig",
    "ImageConfig",
    "Options",
    "Problem",
    "Profile",
    "ProfileOptions",
    "change_options",
    "seconds",
    "validate_options",
]
