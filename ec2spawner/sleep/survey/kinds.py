"""Classes whose objects are known: what is below them, and whose code saves them."""

from __future__ import annotations

import types
from typing import Final

TRUSTED: Final = frozenset(
    "_collections _datetime _decimal _functools _io _operator _random _struct _thread _weakref"
    " abc array builtins collections copyreg datetime decimal enum fractions functools ipaddress"
    " itertools matplotlib numbers numpy operator pandas pathlib polars pyarrow pytz random re"
    " scipy sklearn string torch torchvision types typing uuid weakref zoneinfo".split()
)
"""Libraries whose own code for saving and loading is known to end, and not to crash."""

ATOMIC: Final = frozenset(
    {
        bool,
        bytes,
        complex,
        float,
        int,
        range,
        slice,
        str,
        type(None),
        type(Ellipsis),
        type(NotImplemented),
        types.CodeType,
        types.GetSetDescriptorType,
        types.MemberDescriptorType,
        types.MethodDescriptorType,
        types.ModuleType,
        types.WrapperDescriptorType,
        types.FrameType,
        types.GeneratorType,
        types.CoroutineType,
        types.AsyncGeneratorType,
        types.TracebackType,
    }
)
ATOMIC_NAMES: Final = frozenset(
    "datetime.date datetime.datetime datetime.time datetime.timedelta datetime.timezone"
    " decimal.Decimal fractions.Fraction logging.Logger logging.RootLogger re.Pattern"
    " torch.Size torch.device torch.dtype uuid.UUID".split()
)
"""Their identity does not matter, and nothing is below them."""

HOOKS: Final = (
    "__getattr__",
    "__getattribute__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__getstate__",
    "__reduce__",
    "__reduce_ex__",
    "__setstate__",
)
"""What saving calls of a class, or loading: what a child saves is loaded there once."""
