"""The configuration reference, written from the options themselves at every build.

A Sphinx extension: before the sources are read it writes `reference/configuration.md` from the
fields of `ec2spawner.config.Options` and of what is nested in it, and from the traits of
`EC2Spawner`. The same code always gives the same page.
"""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from generated_page import extension
from jupyterhub.spawner import Spawner
from pydantic import BaseModel, BeforeValidator, SecretStr, ValidationError
from pydantic.fields import FieldInfo

from ec2spawner.config import (
    AfterStopConfig,
    AlarmsConfig,
    BoundsConfig,
    BucketConfig,
    CapacityReservationsConfig,
    ClustersConfig,
    DataVolumeConfig,
    DiscountConfig,
    HomeBounds,
    HomeConfig,
    IdleConfig,
    IdleHook,
    ImageConfig,
    InterruptionConfig,
    LimitsConfig,
    Options,
    PayersConfig,
    Profile,
    ProfileOptions,
    ProjectConfig,
    RunsConfig,
    SleepConfig,
    SnapshotSchedule,
    UserMaySet,
    WarmPoolConfig,
    WorkingHoursConfig,
    seconds,
)
from ec2spawner.config.entries import after_stop, alarms, image
from ec2spawner.config.entries.capacity_reservations import CapacityBlockConfig
from ec2spawner.config.entries.profile import DiskBounds, IdleBounds
from ec2spawner.config.values import Code, SpawnerFunction
from ec2spawner.spawner import EC2Spawner

PAGE = Path(__file__).parent / "reference" / "configuration.md"

NESTED: Mapping[type[BaseModel], str] = {
    Profile: "An entry of `profile_list`",
    ProfileOptions: "The keys of a profile's `profile_options`",
    DiskBounds: "The keys of `disk_gib` in `profile_options`",
    IdleBounds: "The keys of `idle` in `profile_options`",
    HomeConfig: "The keys of `home`",
    HomeBounds: "The keys of `user_may_choose` in `home`",
    SnapshotSchedule: "The keys of `snapshots` in `home`",
    IdleConfig: "The keys of `idle`",
    WorkingHoursConfig: "The keys of `working_hours` in `idle`",
    UserMaySet: "The keys of `user_may_set` in `idle`",
    SleepConfig: "The keys of `sleep`",
    InterruptionConfig: "The keys of `interruption`",
    AfterStopConfig: "The keys of `after_stop`",
    ImageConfig: "The keys of `image`",
    DataVolumeConfig: "An entry of `data_volumes`",
    BucketConfig: "An entry of `buckets`",
    DiscountConfig: "An entry of `discounts`",
    CapacityReservationsConfig: "The keys of `capacity_reservations`",
    CapacityBlockConfig: "An entry of `blocks` in `capacity_reservations`",
    WarmPoolConfig: "An entry of `warm_pool`",
    ClustersConfig: "The keys of `clusters`",
    RunsConfig: "The keys of `runs`",
    PayersConfig: "The keys of `payers`",
    ProjectConfig: "The keys of a project in `payers`",
    LimitsConfig: "The keys of `limits`",
    BoundsConfig: "The limits of a user, group, project or the hub",
    AlarmsConfig: "The keys of `alarms`",
}

_OF_PROFILE = {
    ProfileOptions: "{}",
    DiskBounds: '{{"disk_gib": {}}}',
    IdleBounds: '{{"idle": {}}}',
}
"""Where in `profile_options` a model is written."""

_WITHIN = {
    HomeBounds: ("home", "user_may_choose"),
    SnapshotSchedule: ("home", "snapshots"),
    CapacityBlockConfig: ("capacity_reservations", "blocks"),
    WorkingHoursConfig: ("idle", "working_hours"),
    UserMaySet: ("idle", "user_may_set"),
}
"""In which option, under which key of it, a model is written."""

INTRODUCTION = """\
# Configuration

Every option is written in `jupyterhub_config.py` as `c.EC2Spawner.<name> = <value>`, or on the
command line as `--EC2Spawner.<name>=<value>`.

All options are checked together when the hub starts. If one cannot work, the hub does not
start, and one message names each option, what is wrong with it and how to fix it. A misspelled
option is an error too.

A **duration** is a text such as `"20m"`, `"1h30m"` or `"2d"`, made of numbers with `s`, `m`,
`h` or `d`; a bare number is seconds. Sizes are in GiB. Prices are in USD per hour.

Two options of JupyterHub itself belong to every configuration:

```python
c.JupyterHub.spawner_class = "ec2"
c.JupyterHub.cleanup_servers = False
```

The second one is required: with JupyterHub's default, `True`, stopping the hub would stop
everyone's server.
"""

JUPYTERHUBS = """\
(jupyterhubs-options)=
## JupyterHub's own spawner options

`EC2Spawner` is a spawner of JupyterHub, so `c.Spawner` options such as `cmd`, `args`,
`environment`, `default_url` and `pre_spawn_hook` work as they do everywhere. These have another
default here:
"""

PLAIN = {
    str: "text",
    SecretStr: "text",
    int: "whole number",
    float: "number",
    bool: "`True` or `False`",
    date: 'date, such as `"2027-03-01"`',
}


def render() -> str:
    """The whole page, in MyST."""
    parts = [INTRODUCTION, "## Options at a glance\n", _table(Options)]
    parts += ["## Options\n", *_entries(Options)]
    for model, title in NESTED.items():
        doc = " ".join((model.__doc__ or "").split())
        parts += [f"({_target(model)})=\n## {title}\n", f"{doc}\n"]
        parts += [_table(model), *_entries(model)]
    parts += [JUPYTERHUBS, _other_defaults()]
    return "\n".join(line.rstrip() for line in "\n".join(parts).splitlines()) + "\n"


# --- a model ---------------------------------------------------------------------------------


def _table(model: type[BaseModel]) -> str:
    lines = ["| option | type | default |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        default = _in_a_cell(model, name, field.default)
        if _is_required(model, name):
            default = "none; required"
        lines.append(f"| [`{name}`](#{_target(model, name)}) | {type_words(field)} | {default} |")
    return "\n".join(lines) + "\n"


def _entries(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        default = "none; required" if _is_required(model, name) else _default(model, name, field)
        yield (
            f"({_target(model, name)})=\n"
            f"### `{_full_name(model, name)}`\n\n"
            f"{field.description}\n\n"
            f"- **Type:** {type_words(field)}\n"
            f"- **Default:** {default}\n"
            f"{_example(model, name, field)}"
        )


def _default(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    if _is_long(field.default):
        return "\n\n" + _indented(_code(_assigned(model, name, field.default))).rstrip()
    return _in_a_cell(model, name, field.default)


def _example(model: type[BaseModel], name: str, field: FieldInfo) -> str:
    """The field's own example; an option without one shows its default, as it would be written."""
    example = next(iter(field.examples or ()), None)
    if example is None and (model is not Options or _is_long(field.default)):
        return ""
    shown = field.default if example is None else example
    return f"- **Example:**\n\n{_indented(_code(_assigned(model, name, shown)))}"


def _is_required(model: type[BaseModel], name: str) -> bool:
    """Whether leaving it out is an error: also where a default stands in to say so."""
    try:
        model.model_validate({})
    except ValidationError as error:
        return any(problem["loc"] == (name,) for problem in error.errors())
    return False


def _full_name(model: type[BaseModel], name: str) -> str:
    return f"c.EC2Spawner.{name}" if model is Options else name


def _target(model: type[BaseModel], name: str = "") -> str:
    kind = "option" if model is Options else model.__name__.removesuffix("Config").lower()
    return "-".join(filter(None, [kind, name.replace("_", "-")]))


def _assigned(model: type[BaseModel], name: str, value: object) -> str:
    if model is Options:
        return f"c.EC2Spawner.{name} = {written(value)}"
    inner = f"{{{written(name)}: {written(value)}}}"
    if model in (Profile, DiscountConfig, DataVolumeConfig, BucketConfig, WarmPoolConfig):
        return f"{{..., {inner[1:]}"
    if model in _OF_PROFILE:
        return f'{{..., "profile_options": {_OF_PROFILE[model].format(inner)}}}'
    if model in _WITHIN:
        within, key = _WITHIN[model]
        return f"c.EC2Spawner.{within} = {{{written(key)}: {inner}}}"
    if model is BoundsConfig:
        return f'c.EC2Spawner.limits = {{"hub": {inner}}}'
    if model is ProjectConfig:
        return f'c.EC2Spawner.payers = {{"project": {{"nlp": {inner}}}}}'
    option = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", model.__name__.removesuffix("Config")).lower()
    return f"c.EC2Spawner.{option} = {inner}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


# --- values and types, as an admin writes them -----------------------------------------------


def written(value: object) -> str:
    """A value as it stands in `jupyterhub_config.py`."""
    if isinstance(value, Code):
        return value
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{written(k)}: {written(v)}" for k, v in value.items()) + "}"
    if _is_long(value):
        return "[\n" + "".join(f"    {written(item)},\n" for item in value) + "]"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(written, value)) + "]"
    return repr(value)


def _is_long(value: object) -> TypeGuard[Sequence[Mapping[str, object]]]:
    return isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value)


def _in_a_cell(model: type[BaseModel], name: str, value: object) -> str:
    return f"[see there](#{_target(model, name)})" if _is_long(value) else f"`{written(value)}`"


def type_words(field: FieldInfo) -> str:
    """The field's type for people, with its bounds."""
    if _is_read_by(field.metadata, seconds):
        return "duration"
    if _is_read_by(field.metadata, after_stop.from_text, image.from_text):
        return f"text or {_annotation_words(field.annotation)}"
    if _is_read_by(field.metadata, alarms.from_list):
        return f"list or {_annotation_words(field.annotation)}"
    return _annotation_words(field.annotation) + _bounds(field)


def _is_read_by(metadata: Sequence[Any], *readers: object) -> bool:
    return any(isinstance(m, BeforeValidator) and m.func in readers for m in metadata)


def _annotation_words(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if _is_read_by(arguments[1:], seconds):
            return "duration"
        if _is_read_by(arguments[1:], after_stop.from_text):
            return f"text or {_annotation_words(arguments[0])}"
        return _annotation_words(arguments[0])
    if origin is Literal:
        return _either([f"`{written(choice)}`" for choice in arguments])
    if origin in (Union, types.UnionType):
        return _either([_annotation_words(each) for each in arguments])
    if origin is tuple:
        inner = _annotation_words(arguments[0])
        return f"list of {inner}s" if inner in PLAIN.values() else f"list; each a {inner}"
    if origin is dict:
        return f"dict by name; each a {_annotation_words(arguments[1])}"
    if annotation == SpawnerFunction:
        return "function of the spawner"
    if annotation == IdleHook:
        return "function of the spawner and a dict"
    if annotation is type(None):
        return "`None`"
    if annotation in NESTED:
        return f"dict, see [its keys](#{_target(annotation)})"
    return PLAIN[annotation]


def _bounds(field: FieldInfo) -> str:
    limits: dict[type, Any] = {type(limit): limit for limit in field.metadata}
    if MaxLen in limits:
        least = f"{limits[MinLen].min_length} to" if MinLen in limits else "at most"
        return f", {least} {limits[MaxLen].max_length} characters"
    if Ge in limits and Le in limits:
        return f", {limits[Ge].ge} to {limits[Le].le}"
    if Ge in limits:
        return f", at least {limits[Ge].ge}"
    return f", above {limits[Gt].gt}" if Gt in limits else ""


def _either(words: Sequence[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


# --- what the spawner changes of JupyterHub's ------------------------------------------------


def _other_defaults() -> str:
    ours, theirs = EC2Spawner(), Spawner()
    lines = ["| option | default here | JupyterHub's default |", "|---|---|---|"]
    for name in sorted(Spawner.class_trait_names(config=True)):
        if name in Options.model_fields:
            continue
        here, there = getattr(ours, name), getattr(theirs, name)
        # Hooks and the spawn form are functions: replaced, not configured.
        if here != there and not callable(here):
            lines.append(f"| `c.EC2Spawner.{name}` | `{written(here)}` | `{written(there)}` |")
    return "\n".join(lines) + "\n"


setup = extension(PAGE, render)
