"""All options checked at once, and every problem reported in one message."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from .. import data
from ..core.profiles.ebs_volumes import why_no_volumes
from .combinations import impossible
from .entries.limits import limit_problems
from .entries.mounts import mount_problems
from .entries.profile import Profile
from .entries.warm_pool import pool_problems
from .options import Options
from .problem import ConfigError, Problem
from .values import shown, suggest


@dataclass(frozen=True, slots=True)
class Judged:
    """Options with all that is wrong with them."""

    options: Options
    """As far as they can be followed: what cannot has its default."""
    problems: tuple[Problem, ...] = ()
    unsound: frozenset[str] = frozenset()
    """Names of the options that have their default instead, and of those that do not exist."""


def validate_options(
    raw: Mapping[str, Any], *, cleanup_servers: bool, environ: Mapping[str, str] = os.environ
) -> Options:
    """The options of `c.EC2Spawner`, checked; every problem is in one `ConfigError`."""
    judged = judge_options(raw, cleanup_servers=cleanup_servers, environ=environ)
    if judged.problems:
        raise ConfigError(judged.problems)
    return judged.options


def judge_options(
    raw: Mapping[str, Any], *, cleanup_servers: bool, environ: Mapping[str, str] = os.environ
) -> Judged:
    """The options of `c.EC2Spawner` and every problem that they have.

    `cleanup_servers` is JupyterHub's own option, which must be off.
    """
    problems: list[Problem] = []
    if cleanup_servers:
        problems.append(
            Problem(
                "c.JupyterHub.cleanup_servers",
                "stopping the hub would stop everyone's server",
                "c.JupyterHub.cleanup_servers = False",
            )
        )
    region = raw.get("region") or environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
    written = {**raw, "region": region or ""}
    try:
        options = Options.model_validate(written)
    except ValidationError as error:
        problems += [_problem(detail, raw) for detail in error.errors()]
        unsound = frozenset(str(detail["loc"][0]) for detail in error.errors() if detail["loc"])
        return Judged(_sound(written, unsound), tuple(problems), unsound)
    problems += [*_across_profiles(options), *_across(options)]
    return Judged(options, tuple(problems))


def _sound(written: Mapping[str, Any], unsound: Set[str]) -> Options:
    """The options without those that cannot be followed; of profiles, those that can."""
    values: dict[str, Any] = {}
    for name, field in Options.model_fields.items():
        value = field.default if name in unsound else written.get(name, field.default)
        if name == "profile_list" and name in unsound:
            value = _sound_profiles(written[name]) or value
        values[name] = _adapter(name).validate_python(value)
    return Options.model_construct(**values)


def _sound_profiles(written: object) -> list[Profile]:
    found = []
    for each in written if isinstance(written, list | tuple) else ():
        with contextlib.suppress(ValidationError):
            found.append(Profile.model_validate(each))
    return found


def change_options(options: Options, changed: Mapping[str, Any]) -> Options:
    """Options of a running hub, some of them changed for one server; `changed` as an admin writes
    it. Raises `ConfigError`."""
    problems: list[Problem] = []
    checked: dict[str, Any] = {}
    for name, written in changed.items():
        try:
            checked[name] = _adapter(name).validate_python(written)
        except ValidationError as error:
            for detail in error.errors():
                detail["loc"] = (name, *detail["loc"])
                problems.append(_problem(detail, changed))
    changed_options = options.model_copy(update=checked)
    if not problems:
        problems = _across_profiles(changed_options) + _mounts("c.EC2Spawner", changed_options)
    if problems:
        raise ConfigError(problems, "this cannot be used:")
    return changed_options


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    """For one option, without what the model checks of it when the hub starts."""
    return TypeAdapter(Options.model_fields[name].rebuild_annotation())


def _across_profiles(options: Options) -> list[Problem]:
    """Problems of a profile with another, and with the hub's own values."""
    problems = []
    seen: dict[str, int] = {}
    for index, profile in enumerate(options.profiles):
        where = f"c.EC2Spawner.profile_list[{index}]"
        if profile.slug in seen:
            problems.append(
                Problem(
                    f"{where}.slug",
                    f'"{profile.slug}" is the slug of profile_list[{seen[profile.slug]}] already',
                    f'give one of them another, such as "slug": "{profile.slug[:60]}-2"',
                )
            )
        seen.setdefault(profile.slug, index)
        if not _is_somewhere(profile, options):
            wrong, fix = _no_match(profile, options.architecture)
            problems.append(Problem(f'{where} ("{profile.display_name}")', wrong, fix))
        problems += _own_out_of_bounds(where, profile, options)
        problems += _without_volumes(where, profile, options)
        if profile.data_volumes or profile.buckets or profile.interruption:
            problems += _mounts(f'{where} ("{profile.display_name}")', options, profile)
    return problems


def _mounts(where: str, options: Options, profile: Profile | None = None) -> list[Problem]:
    """Mounts that do not go together: the hub's own, or with those of a profile."""
    volumes = options.data_volumes_of(profile) if profile else options.data_volumes
    buckets = options.buckets_of(profile) if profile else options.buckets
    problems = [
        Problem(where, wrong, fix)
        for wrong, fix in mount_problems(volumes, buckets, options.scratch or "")
    ]
    uploads = ((profile and profile.interruption) or options.interruption).upload
    if uploads and not options.instance_profile:
        problems.append(
            Problem(
                where,
                "folders are uploaded as the role of instances, and these have none",
                'c.EC2Spawner.instance_profile = "notebooks", whose role may write there',
            )
        )
    if buckets and not options.instance_profile:
        problems.append(
            Problem(
                where,
                "buckets are mounted as the role of instances, and these have none",
                'c.EC2Spawner.instance_profile = "notebooks", whose role may read them',
            )
        )
    return problems


def _is_somewhere(profile: Profile, options: Options) -> bool:
    """Whether there is a machine for the profile. Types that are not bundled are believed."""
    if not profile.instance_types:
        return bool(options.instance_types(profile))
    bundled = [data.instance_types().get(name) for name in profile.instance_types]
    return all(kind is None or kind.architecture == options.architecture for kind in bundled)


def _without_volumes(where: str, profile: Profile, options: Options) -> list[Problem]:
    """Named types that cannot have the home or data volumes, whatever EC2 says of their limit."""
    volumes = options.volumes_of(profile)
    return [
        Problem(
            f'{where}.instance_types ("{profile.display_name}")',
            why,
            'leave it out, or use a newer type, or homes of kind "efs" and no data volumes',
        )
        for name in profile.instance_types
        if (why := why_no_volumes(name, None, volumes))
    ]


def _own_out_of_bounds(where: str, profile: Profile, options: Options) -> list[Problem]:
    """Bounds that exclude what the profile gives to a user who chooses nothing.

    The hub's own `idle` may lie outside of them: it holds for other profiles too, and may be 0.
    """
    problems = []
    name = f'("{profile.display_name}")'
    disk, idle = profile.profile_options.disk_gib, profile.profile_options.idle
    own_disk, own_idle = options.disk(profile), profile.idle.server
    if disk and not disk.min <= own_disk <= disk.max:
        problems.append(
            Problem(
                f"{where}.profile_options.disk_gib {name}",
                f"{disk.min} to {disk.max} GiB leaves out the profile's own {own_disk} GiB",
                'widen it, or give the profile a "disk_gib" within it',
            )
        )
    writes_idle = "server" in profile.idle.model_fields_set
    if idle and writes_idle and not idle.min <= own_idle <= idle.max:
        own = f"{own_idle:g} s" if own_idle else "limit, which is none"
        problems.append(
            Problem(
                f"{where}.profile_options.idle {name}",
                f"{idle.min:g} s to {idle.max:g} s leaves out the profile's own {own}",
                'widen it, or write an "idle": {"server": ...} within it',
            )
        )
    return problems


def _across(options: Options) -> list[Problem]:
    """Other problems that no option has alone."""
    problems = [*_mounts("c.EC2Spawner", options), *impossible(options)]
    problems += [
        Problem(f"c.EC2Spawner.limits.{where}", wrong, fix)
        for where, wrong, fix in limit_problems(options.limits, options.payers)
    ]
    problems += [
        Problem(f"c.EC2Spawner.warm_pool{where}", wrong, fix)
        for where, wrong, fix in pool_problems(
            options.warm_pool, options.profile_list, options.home.kind
        )
    ]
    certificate = f"{options.region}.pem"
    bundled = Path(data.__file__).parent / "identity-certificates"
    if options.identity_certificates or (bundled / certificate).exists():
        return problems
    known = {path.stem for path in bundled.glob("*.pem")}
    return [
        *problems,
        Problem(
            "c.EC2Spawner.region",
            f'"{options.region}" is no region that this version knows',
            f"{suggest(options.region, known, all_known=False)} A newer region needs its "
            "certificate for instance identities, in c.EC2Spawner.identity_certificates",
        ),
    ]


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


def _model_of(words: Sequence[str]) -> type[BaseModel]:
    """The model that has the field at the end of a location without its numbers."""
    model: type[BaseModel] | None = Options
    for word in words[:-1]:
        field = model.model_fields.get(word) if model else None
        model = _model_in(field.annotation) if field else None
    return model or Options


def _without_keys(words: Sequence[str]) -> tuple[str, ...]:
    """A location without the keys that an admin made up, such as the names of groups."""
    model: type[BaseModel] | None = Options
    found: list[str] = []
    is_key = False
    for word in words:
        if is_key:
            is_key = False
            continue
        found.append(word)
        field = model.model_fields.get(word) if model else None
        is_key = field is not None and get_origin(field.annotation) is dict
        model = _model_in(field.annotation) if field else None
    return tuple(found)


def _model_in(annotation: object) -> type[BaseModel] | None:
    """The model in a type such as `tuple[Profile, ...] | SpawnerFunction`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


_MUST_BE = {
    "bool_parsing": "must be True or False",
    "bool_type": "must be True or False",
    "callable_type": "must be a function",
    "dict_type": "must be a dict",
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


def _problem(detail: ErrorDetails, raw: Mapping[str, Any]) -> Problem:
    """One of pydantic's errors, in our words."""
    location = detail["loc"]
    option = _option(location, raw)
    if detail["type"] == "ec2spawner":
        return Problem(option, detail["ctx"]["what"], detail["ctx"]["fix"])
    words = tuple(part for part in location if isinstance(part, str))
    words = _without_keys(words)
    model = _model_of(words)
    if detail["type"] == "extra_forbidden":
        return Problem(option, "there is no such option", suggest(words[-1], model.model_fields))
    field = model.model_fields.get(words[-1]) if words else None
    example = next(iter(field.examples or [field.default]), None) if field else None
    if isinstance(location[-1], int) and isinstance(example, list):
        example = example[0]
    fix = f"for example {example!r}" if example not in (None, "") else "see the reference"
    if detail["type"] == "missing":
        return Problem(option, "is missing", f"add it, {fix}")
    must_be = _MUST_BE.get(detail["type"], "").format(**detail.get("ctx", {})) or detail["msg"]
    return Problem(option, f"{must_be}, and is {shown(detail['input'])}", fix)


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
