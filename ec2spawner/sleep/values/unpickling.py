"""Reading an archive back into values.

A pickle runs code: `folder.check` has made sure that it is its owner's own. Bytecode of another
minor version of Python is refused, because the interpreter does not check what it runs and could
crash.
"""

from __future__ import annotations

import functools
import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from . import arrays, definitions, pickling, registry, tensors
from .archive import Damaged, Reader


class OtherPython(Exception):
    """It holds bytecode of another version of Python, which could crash this one."""


ELSEWHERE: Final = {"pathlib._local": "pathlib"}
"""Where classes are that another version of Python has in another module: 3.13 moved all paths."""

BYTECODE: Final = {
    (definitions.__name__, "make_code"),
    ("builtins", "code"),
    ("types", "CodeType"),
    ("dill._dill", "_create_code"),
    ("marshal", "loads"),
}
"""What makes a code object. dill's names of types are checked as `_load_type` is called."""


def load(
    path: Path,
    *,
    namespace: dict[str, Any],
    definition: Callable[[str], Any],
    bytecode: bool,
    may_use_gpu: bool,
    is_proof: bool = False,
) -> tuple[dict[str, Any], set[str]]:
    """The names of an archive and their values; the devices whose tensors are on the CPU now.

    `definition`: the function or class of a name, restored if need be; `bytecode`: whether it is
    of this Python; `is_proof`: large blocks stay in the file, and classes have no `__del__`,
    because what is loaded is thrown away. Raises OtherPython, Damaged, `owned.NotOurs`, OSError,
    and whatever the values' own code raises.
    """
    with Reader(path) as reader:
        storages = tensors.StorageReader(reader, may_use_gpu)

        def registered(
            number: int,
            load: registry.Load,
            kind: type | None = None,
            save: registry.Save | None = None,
        ) -> Any:
            if kind is not None and save is not None:
                registry.restore(kind, save, load)
            return load(io.BytesIO(reader.block(number)))

        own = {
            (arrays.__name__, "array_block"): functools.partial(arrays.read, reader, is_proof),
            (tensors.__name__, "storage_block"): storages.read,
            (registry.__name__, "registered"): registered,
            (definitions.__name__, "make_function"): definitions.function_in(namespace),
            (pickling.__name__, "definition"): definition,
            (pickling.__name__, "namespace"): lambda: namespace,
        }
        if is_proof:
            own[definitions.__name__, "fill_class"] = _fill_class_without_end
        unpickler = _Unpickler(reader.pickle(), reader.buffers(), own, definition, bytecode)
        found = unpickler.load()
        if not isinstance(found, dict):
            raise Damaged("the file has no names")
        return found, storages.moved


def _fill_class_without_end(kind: Any, state: dict[str, Any]) -> None:
    state.pop("__del__", None)
    definitions.fill_class(kind, state)


class _Unpickler(pickle.Unpickler):
    """Reads an archive. It runs the code of its owner, as the kernel does."""

    def __init__(
        self,
        file: Any,
        buffers: Any,
        own: dict[tuple[str, str], Any],
        definition: Callable[[str], Any],
        bytecode: bool,
    ) -> None:
        super().__init__(file, buffers=buffers)
        self._definition = definition
        self._own = own
        self._bytecode = bytecode

    def find_class(self, module: str, name: str) -> Any:
        """A class or function by its name."""
        if (module, name) in BYTECODE and not self._bytecode:
            raise OtherPython
        if (module, name) in self._own:
            return self._own[module, name]
        if module == "__main__":
            first, *more = name.split(".")
            return functools.reduce(getattr, more, self._definition(first))
        if not self._bytecode and (module, name) == ("dill._dill", "_load_type"):
            return _type_without_code
        try:
            return super().find_class(module, name)
        except (ImportError, AttributeError):
            if module not in ELSEWHERE:
                raise
            return super().find_class(ELSEWHERE[module], name)


def _type_without_code(name: str) -> Any:
    if name == "CodeType":
        raise OtherPython
    from dill import _dill

    return _dill._load_type(name)
