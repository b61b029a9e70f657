"""All options checked at once, and every problem told in one message."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from .. import data
from .idle import IdleConfig
from .options import HomeConfig, Options
from .profile import Profile
from .values import shown, suggest


class ConfigError(ValueError):
    """The configuration cannot work.

    The message names each option as the admin wrote it, what is wrong with it and how to mend
    it, one line for each problem.
    """


def validate_options(
    raw: Mapping[str, Any],
    *,
    cleanup_servers: bool,
    environ: Mapping[str, str] = os.environ,
) -> Options:
    """The options of `c.EC2Spawner`, checked; every problem is in one `ConfigError`.

    `cleanup_servers` is JupyterHub's own option, which must be off.
    """
    problems: list[str] = []
    if cleanup_servers:
        problems.append(
            _line(
                "c.JupyterHub.cleanup_servers",
                "stopping the hub would stop everyone's server",
                "c.JupyterHub.cleanup_servers = False",
            )
        )
    region = raw.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    try:
        options = Options.model_validate({**raw, "region": region or ""})
    except ValidationError as error:
        problems += [_problem(detail, raw) for detail in error.errors()]
    else:
        problems += _across(options)
    if problems:
        raise ConfigError(
            "\n".join(["ec2spawner cannot start with this configuration:", *problems])
        )
    return options


def _across(options: Options) -> list[str]:
    """Problems that no option has alone."""
    problems = []
    seen: dict[str, int] = {}
    for index, profile in enumerate(options.profile_list):
        where = f"c.EC2Spawner.profile_list[{index}]"
        if profile.slug in seen:
            problems.append(
                _line(
                    f"{where}.slug",
                    f'"{profile.slug}" is the slug of profile_list[{seen[profile.slug]}] already',
                    f'give one of them another, such as "slug": "{profile.slug[:60]}-2"',
                )
            )
        seen.setdefault(profile.slug, index)
        found = len(options.instance_types(profile))
        if found < max(1, len(profile.instance_types)):
            wrong, mend = _no_match(profile, options.architecture)
            problems.append(_line(f'{where} ("{profile.display_name}")', wrong, mend))
    certificate = f"{options.region}.pem"
    bundled = Path(data.__file__).parent / "identity-certificates"
    if not options.identity_certificates and not (bundled / certificate).exists():
        known = {path.stem for path in bundled.glob("*.pem")}
        problems.append(
            _line(
                "c.EC2Spawner.region",
                f'no certificate for instance identities of "{options.region}" is known',
                f"{suggest(options.region, known, all_known=False)}; or give its certificate in "
                "c.EC2Spawner.identity_certificates",
            )
        )
    return problems


def _no_match(profile: Profile, architecture: str) -> tuple[str, str]:
    """Why a well-formed profile means no machine, and what would."""
    table = data.instance_types().values()
    if profile.instance_types:
        return f"has types that are not {architecture}, as the image is", "leave them out"
    same = [kind for kind in table if kind.gpu == (profile.gpu or "") and kind.gpu_count]
    fitting = [kind for kind in same if kind.architecture == architecture]
    if same and not fitting:
        return f"{profile.gpu} is not offered with {architecture}", "use another GPU"
    if not profile.gpu:
        return "no machine has so many vCPUs or so much memory", "ask for less"
    counts = sorted({kind.gpu_count for kind in fitting})
    if profile.gpu_count not in counts:
        known = ", ".join(map(str, counts))
        return f"no machine has {profile.gpu_count} × {profile.gpu}", f'"gpu_count" may be {known}'
    return (
        f"no machine with {profile.gpu_count} × {profile.gpu} has so much memory or so many vCPUs",
        'ask for less in "min_gpu_memory_gb", "vcpus" or "memory_gib"',
    )


_MODELS: dict[tuple[str, ...], type[BaseModel]] = {
    (): Options,
    ("home",): HomeConfig,
    ("idle",): IdleConfig,
    ("profile_list",): Profile,
    ("profile_list", "idle"): IdleConfig,
}


_MUST_BE = {
    "bool_parsing": "must be True or False",
    "bool_type": "must be True or False",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than_equal": "must be at least {ge:g}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "less_than_equal": "must be at most {le:g}",
    "literal_error": "must be {expected}",
    "model_type": "must be a dict",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must not be empty",
    "string_type": "must be a text",
    "tuple_type": "must be a list",
}
"""Pydantic's error types in an admin's words; others keep pydantic's message."""


def _problem(detail: ErrorDetails, raw: Mapping[str, Any]) -> str:
    """One of pydantic's errors, in our words."""
    location = detail["loc"]
    option = _option(location, raw)
    if detail["type"] == "ec2spawner":
        return _line(option, detail["ctx"]["what"], detail["ctx"]["mend"])
    words = tuple(part for part in location if isinstance(part, str))
    model = _MODELS.get(words[:-1], Options)
    if detail["type"] == "extra_forbidden":
        return _line(option, "there is no such option", suggest(words[-1], model.model_fields))
    field = model.model_fields.get(words[-1]) if words else None
    example = next(iter(field.examples or [field.default]), None) if field else None
    if isinstance(location[-1], int) and isinstance(example, list):
        example = example[0]
    mend = f"for example {example!r}" if example not in (None, "") else "see the reference"
    if detail["type"] == "missing":
        return _line(option, "is missing", f"add it, {mend}")
    must_be = _MUST_BE.get(detail["type"], "").format(**detail.get("ctx", {})) or detail["msg"]
    return _line(option, f"{must_be}, and is {shown(detail['input'])}", mend)


def _option(location: Sequence[int | str], raw: Mapping[str, Any]) -> str:
    """`c.EC2Spawner.profile_list[2].gpu ("A10G, 24 GB")`: as the admin would find it."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    name: object = None
    if len(location) > 1 and location[0] == "profile_list":
        try:
            name = raw["profile_list"][location[1]]["display_name"]
        except (LookupError, TypeError):
            name = None
    return f"c.EC2Spawner{path}" + (f' ("{str(name)[:60]}")' if name else "")


def _line(option: str, wrong: str, mend: str) -> str:
    return f"  {option}: {wrong}. Mend: {mend}"
