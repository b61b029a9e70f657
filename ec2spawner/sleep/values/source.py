"""The source of functions and classes of a notebook, and definitions made from it again.

Bytecode is restored by the minor version of Python that made it, exactly. Another version gets the
source and runs it, decorators and defaults included, as if the user had run that cell again.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from ..storage import owned
from . import classes

MAX_BYTES: Final = 256 << 10


class NoSource(Exception):
    """There is no source that defines this name."""


def of(value: Any) -> str:
    """The source of a function or class, as in its cell; empty where that does not define it.

    Raises OSError where there is none, and whatever else `inspect` raises: a file may have changed
    since, and be no Python any more.
    """
    value = inspect.unwrap(value)  # with the decorators that wrapped it
    if "<locals>" in value.__qualname__:
        return ""  # its source alone is another function: it has no closure
    is_class = classes.is_a(value, type)
    text = _of_class(value) if is_class else inspect.getsource(value.__code__)
    if not _defined(text) or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return ""
    return text


def _of_class(kind: type) -> str:
    """`inspect.getsource` finds no class of a notebook, because that is no file of its module."""
    files = [code.co_filename for code in _codes(kind)]
    cells = [name for name, entry in reversed(linecache.cache.items()) if _is_cell(entry)]
    for name in dict.fromkeys([*files, *cells]):
        lines = linecache.getlines(name)
        text = "".join(lines)
        if f"class {kind.__name__}" not in text:
            continue
        for node in reversed(ast.parse(text).body):
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                return "".join(lines[_first_line(node) - 1 : node.end_lineno])
    return ""


def _is_cell(entry: Any) -> bool:
    """Of IPython, and of an earlier wake: without a time, because there is no file."""
    return len(entry) == 4 and entry[1] is None


def _codes(kind: type) -> Iterator[types.CodeType]:
    for value in classes.attributes(kind).values():
        function = value.__func__ if classes.is_a(value, (classmethod, staticmethod)) else value
        if type(function) is types.FunctionType and function.__module__ == classes.module(kind):
            yield function.__code__


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def read(path: Path) -> str:
    """A file of source. Raises `owned.NotOurs`, OSError, NoSource."""
    with open(owned.open_ours(path), "rb") as file:  # noqa: PTH123 - of a descriptor
        content = file.read(MAX_BYTES + 1)
    try:
        return content.decode() if len(content) <= MAX_BYTES else ""
    except UnicodeDecodeError:
        raise NoSource("its source is damaged") from None


def run(text: str, namespace: dict[str, Any], needs: Callable[[set[str]], None]) -> Any:
    """The function or class of this source, made by running it in the namespace.

    `needs`: called with the names that running it uses, such as those of bases, decorators and
    defaults. Raises NoSource and whatever the source raises. The namespace has the name
    afterwards only if it had it before, with its value.
    """
    try:
        name = _defined(text)
    except (SyntaxError, ValueError, RecursionError):
        raise NoSource("its source is not valid in this Python") from None
    if not name:
        raise NoSource("its source does not define it")
    file = f"<ec2spawner sleep: {name}>"
    remember(file, 1, text)
    code = compile(text, file, "exec", dont_inherit=True)
    needs(_used(code))
    had, before = name in namespace, namespace.get(name)
    try:
        exec(code, namespace)  # noqa: S102 - the owner's own code, as in the notebook
        return namespace[name]
    finally:
        namespace.pop(name, None)
        if had:
            namespace[name] = before


def _defined(text: str) -> str:
    """The name of the only thing that this source defines; empty if it does something else."""
    match ast.parse(text).body:
        case [ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() as definition]:
            return definition.name
        case [ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda())]:
            return name
    return ""


def _used(code: types.CodeType) -> set[str]:
    """The names that a definition uses at once: in class bodies, but not in functions."""
    used = set(code.co_names)
    for each in code.co_consts:
        if isinstance(each, types.CodeType) and not each.co_flags & inspect.CO_OPTIMIZED:
            used |= _used(each)
    return used


# --- tracebacks and the next sleep need the source again ---


def remember_for(value: Any, text: str) -> None:
    """Tracebacks show the source of a restored function or class, and `of` finds it."""
    if classes.is_a(value, type):
        starts = _function_lines(text)
        for code in _codes(value):
            if code.co_name in starts:
                first = code.co_firstlineno - starts[code.co_name] + 1
                remember(code.co_filename, first, text)
                return
        remember(f"<ec2spawner sleep: {value.__name__}>", 1, text)
    elif type(value := inspect.unwrap(value)) is types.FunctionType:
        remember(value.__code__.co_filename, value.__code__.co_firstlineno, text)


def _function_lines(text: str) -> dict[str, int]:
    try:
        nodes = ast.walk(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):
        return {}
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {each.name: _first_line(each) for each in nodes if isinstance(each, functions)}


def remember(file: str, first_line: int, text: str) -> None:
    """Python's cache of source lines has these of a file that is not there."""
    if first_line < 1 or first_line > 1 << 20 or Path(file).exists():
        return
    known = linecache.cache.get(file)
    lines = list(known[2]) if known is not None and len(known) == 4 else []
    new = text.splitlines(keepends=True)
    lines += ["\n"] * (first_line - 1 + len(new) - len(lines))
    lines[first_line - 1 : first_line - 1 + len(new)] = new
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
