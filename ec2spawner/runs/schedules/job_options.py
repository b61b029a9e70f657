"""How a job of a schedule is to be run: its hardware, parameters and bounds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from ..errors import WrongRequest
from ..moment import moment
from ..parameters import named_values
from ..submission import RunOptions

FIELD = "runtime_environment_parameters"

_TIMES = ("deadline", "wait_until")

_NAMES = sorted({each.name for each in fields(RunOptions)} - {"parameters", "at_once"})


def job_options(
    environment: str,
    environment_parameters: Mapping[str, object],
    parameters: Mapping[str, str],
    now: datetime,
) -> RunOptions:
    """Of a job in the environment of this name, which is the slug of a profile.

    `environment_parameters` may name the other fields of `RunOptions`; `deadline` and `wait_until`
    are texts such as `8h`, from `now` on. Raises `WrongRequest`, naming the field and the fix.
    """
    unknown = sorted(environment_parameters.keys() - set(_NAMES))
    if unknown:
        raise WrongRequest(f"{FIELD}: {unknown[0]} is unknown: use {', '.join(_NAMES)}")
    given: dict[str, Any] = {"profile": environment, **environment_parameters}
    for name in _TIMES:
        if name in given:
            given[name] = moment(str(given[name]), name, now)
    named = named_values(parameters.items(), "parameter")
    return RunOptions(parameters=[named], **given)
