"""The words an admin may write, checked once, before anything costs money.

`Options` is the one source of truth: the spawner's traits, their help and the configuration
reference are generated from its fields. Durations are texts such as `"1h"`, `"20m"`, `"1h30m"`,
or numbers of seconds; validated, they are seconds.
"""

from .idle import IdleConfig
from .options import HomeConfig, Options
from .profile import Profile
from .validation import ConfigError, validate_options
from .values import seconds

__all__ = [
    "ConfigError",
    "HomeConfig",
    "IdleConfig",
    "Options",
    "Profile",
    "seconds",
    "validate_options",
]
