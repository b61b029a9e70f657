"""Settings of the process that are no variables: those that can be set again, and those that
cannot, which are listed.

A library is asked only if it is imported. What is not as it is at a start counts, so that an
untouched notebook has no settings.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

OPTION: Final = re.compile(
    r"^(\S+) :.*?\[default: (.*?)\] \[currently: (.*?)\]$", re.DOTALL | re.MULTILINE
)
"""An option in `pandas.describe_option()`."""
PLAIN: Final = (bool, float, int, str, type(None))


_environment: dict[str, str] = {}
"""As it was when the magics were loaded, which is when a kernel of ours starts."""


class Setting(NamedTuple):
    """Something of a process that a wake sets again."""

    read: Callable[[Any], Any]
    """From the shell; None where it is as at a start."""
    apply: Callable[[Any, Any], None]
    """To the shell: what `read` has returned in another process."""


def remember_environment() -> None:
    """Variables that are set after the first call are the notebook's."""
    if not _environment:
        _environment.update(os.environ)


def read(shell: Any) -> dict[str, Any]:
    """The settings that are not as they are at a start, by name."""
    found = {}
    for name, setting in SETTINGS.items():
        with contextlib.suppress(Exception):  # another version of IPython or of a library
            value = setting.read(shell)
            if value is not None:
                found[name] = value
    return found


def apply(shell: Any, settings: Mapping[str, Any]) -> list[str]:
    """Set them again; in words, what could not be set."""
    failed = []
    for name, value in settings.items():
        try:
            SETTINGS[name].apply(shell, value)
        except Exception:
            failed.append(WORDS.get(name, name))
    return failed


def unkept(shell: Any, namespace: Mapping[str, Any]) -> list[str]:
    """In words, what of the process will not be there after a wake."""
    before = _environment
    changed = sorted(name for name, value in os.environ.items() if before.get(name) != value)
    found = []
    if before and changed:
        found.append(f"environment variables: {', '.join(changed)}")
    own = _own_magics(shell, namespace)
    if own:
        found.append(f"magics of this notebook: {', '.join(own)}")
    return found


def _own_magics(shell: Any, namespace: Mapping[str, Any]) -> list[str]:
    manager = getattr(shell, "magics_manager", None)
    if manager is None:
        return []
    return sorted(
        f"{'%' if kind == 'line' else '%%'}{name}"
        for kind, functions in manager.magics.items()
        for name, function in functions.items()
        if getattr(getattr(function, "__func__", function), "__globals__", None) is namespace
    )


# --- IPython ---


def _autoreload(shell: Any) -> str | None:
    magic = shell.magics_manager.magics["line"].get("autoreload")
    if magic is None:
        return None
    reloader = magic.__self__._reloader
    if not reloader.enabled:
        return None
    if not reloader.check_all:
        return "1"
    return "3" if reloader.autoload_obj else "2"


def _set_autoreload(shell: Any, mode: str) -> None:
    if "autoreload" not in shell.magics_manager.magics["line"]:
        shell.extension_manager.load_extension("autoreload")
    shell.run_line_magic("autoreload", mode)


# --- numbers ---


def _decimal(_: Any) -> Any:
    decimal = sys.modules.get("decimal")
    if decimal is None:
        return None
    context, usual = decimal.getcontext(), decimal.DefaultContext
    names = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")
    found = {name: getattr(context, name) for name in names}
    found["traps"] = [each.__name__ for each, is_set in context.traps.items() if is_set]
    same = all(found[name] == getattr(usual, name) for name in names)
    return None if same and dict(context.traps) == dict(usual.traps) else found


def _set_decimal(_: Any, found: dict[str, Any]) -> None:
    import decimal

    context = decimal.getcontext()
    for name, value in found.items():
        if name != "traps":
            setattr(context, name, value)
    for each in context.traps:
        context.traps[each] = each.__name__ in found["traps"]


def _random(_: Any) -> Any:
    random = sys.modules.get("random")
    return random.getstate() if random is not None else None


def _set_random(_: Any, state: Any) -> None:
    import random

    random.setstate(state)


def _numpy(_: Any) -> Any:
    module = sys.modules.get("numpy.random")
    return module.get_state(legacy=False) if module is not None else None


def _set_numpy(_: Any, state: Any) -> None:
    import numpy

    numpy.random.set_state(state)


def _torch(_: Any) -> Any:
    torch = sys.modules.get("torch")
    return torch.get_rng_state() if isinstance(torch, types.ModuleType) else None


def _set_torch(_: Any, state: Any) -> None:
    import torch

    torch.set_rng_state(state)


# --- what is shown ---


def _pandas(_: Any) -> dict[str, Any] | None:
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return None
    options = OPTION.findall(pandas.describe_option(_print_desc=False))
    changed = {name: pandas.get_option(name) for name, usual, now in options if usual != now}
    return {name: value for name, value in changed.items() if type(value) in PLAIN} or None


def _set_pandas(_: Any, options: Mapping[str, Any]) -> None:
    import pandas  # type: ignore[import-untyped]

    for name, value in options.items():
        pandas.set_option(name, value)


SETTINGS: Final = {
    "autoreload": Setting(_autoreload, _set_autoreload),
    "decimal": Setting(_decimal, _set_decimal),
    "numpy": Setting(_numpy, _set_numpy),
    "pandas": Setting(_pandas, _set_pandas),
    "random": Setting(_random, _set_random),
    "torch": Setting(_torch, _set_torch),
}
WORDS: Final = {
    "autoreload": "%autoreload",
    "decimal": "the decimal context",
    "numpy": "NumPy's random state",
    "pandas": "options of pandas",
    "random": "the random state",
    "torch": "PyTorch's random state",
}
