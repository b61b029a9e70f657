"""The options as traits, so that JupyterHub's files and command lines can set them.

One trait for each field of `Options`, with its description as help. A trait takes what an admin
writes; `validate_options` judges it, all of it at once, when the hub starts.
"""

from __future__ import annotations

import copy
from types import new_class
from typing import Any

from pydantic.fields import FieldInfo
from traitlets import Any as AnyTrait
from traitlets import Dict, Integer, List, TraitType, Unicode
from traitlets.config import Configurable

from .options import Options


def _trait(field: FieldInfo) -> TraitType[Any, Any]:
    default = copy.deepcopy(field.default)
    if isinstance(default, dict):
        return Dict(default, help=field.description)
    if isinstance(default, tuple | list):
        return List(list(default), help=field.description)
    if isinstance(default, int):
        return Integer(default, help=field.description)
    if field.annotation is float:
        # Durations: "20m" as well as a number of seconds, so no type of traitlets' fits.
        return AnyTrait(default, help=field.description)
    return Unicode(default, help=field.description)


def _body(namespace: dict[str, Any]) -> None:
    namespace["__doc__"] = "A trait for each field of `ec2spawner.config.Options`."
    namespace["__module__"] = __name__
    for name, field in Options.model_fields.items():
        namespace[name] = _trait(field).tag(config=True)


OptionTraits: Any = new_class("OptionTraits", (Configurable,), exec_body=_body)
