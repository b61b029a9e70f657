"""The options as traits, so that JupyterHub's files and command lines can set them.

One trait for each field of `Options`, with its description as help. A trait takes what an admin
writes; `validate_options` judges it, all of it at once, when the hub starts.
"""

from __future__ import annotations

import ast
import copy
from types import new_class
from typing import Any, Literal, get_args

from pydantic.fields import FieldInfo
from traitlets import Any as AnyTrait
from traitlets import Dict, Integer, List, TraitType, Unicode
from traitlets.config import Configurable

from .entries.after_stop import AfterStopConfig
from .entries.alarms import AlarmsConfig
from .entries.idle import IdleHook
from .entries.image import ImageConfig
from .options import Options
from .values import SpawnerFunction


class ListOrFunction(List[Any]):
    """A list, from a file or the command line; or a function, from a file."""

    def validate(self, obj: Any, value: Any) -> Any:
        """Accept a function as it is; its results are validated at each call."""
        return value if callable(value) else super().validate(obj, value)

    def info(self) -> str:
        """What traitlets says in an error message after "must be"."""
        return "a list, or a function of the spawner that returns one"


class SecretListOrDict(AnyTrait):
    """A list or a dict, from a file or the command line.

    It refuses nothing: traitlets' message would repeat the value, and this one holds secrets.
    """

    def from_string(self, s: str) -> Any:
        """A literal as Python writes it; any other text stays one."""
        try:
            return ast.literal_eval(s)
        except (ValueError, SyntaxError):
            return s


def _trait(field: FieldInfo) -> TraitType[Any, Any]:
    default = copy.deepcopy(field.default)
    if field.annotation is AlarmsConfig:
        return SecretListOrDict(default, help=field.description)
    if isinstance(default, dict):
        return Dict(default, help=field.description)
    if isinstance(default, tuple | list):
        kind = ListOrFunction if SpawnerFunction in get_args(field.annotation) else List
        return kind(list(default), help=field.description)
    if isinstance(default, int):
        return Integer(default, help=field.description)
    if IdleHook in get_args(field.annotation):
        return AnyTrait(default, help=field.description)
    if field.annotation in (AfterStopConfig, ImageConfig):
        # A text or a dict.
        return AnyTrait(default, help=field.description)
    if field.annotation in (float, float | None, str | Literal[False]):
        # Durations: "20m" as well as a number of seconds; amounts that may be None; and a text
        # that may be False: no type of traitlets' fits.
        return AnyTrait(default, help=field.description)
    return Unicode(default, help=field.description)


def _body(namespace: dict[str, Any]) -> None:
    namespace["__doc__"] = "A trait for each field of `ec2spawner.config.Options`."
    namespace["__module__"] = __name__
    for name, field in Options.model_fields.items():
        namespace[name] = _trait(field).tag(config=True)


OptionTraits: Any = new_class("OptionTraits", (Configurable,), exec_body=_body)
