"""What the text of a file refers to: modules, other files, and words of requests to a hub.

For `tests/affected.py`.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Final

MODULE: Final = re.compile(
    r"\b((?:ec2spawner|tests)(?:(?:\.\w+)+|(?= import )))(?: import ([\w, ]+))?"
)
FILE: Final = re.compile(r"[\w./-]*\w\.(?:py|sh|html|js|css|csv|yaml|json|toml|txt|md|c|ipynb)\b")
WORD: Final = re.compile(r"/?(?:hub/ec2\b|[\w-]+)")
QUOTED: Final = re.compile(r"""(?<=["'`/])[\w-]+(?=["'`/?])""")
COMMENT: Final = re.compile(r"\{#.*?#\}|<!--.*?-->|/\*.*?\*/", re.DOTALL)
TEXT: Final = (".css", ".html", ".js", ".sh")
"""Suffixes of what is read besides Python."""


@dataclass
class References:
    """What a file says about others."""

    modules: set[str] = field(default_factory=set)
    """Modules and names in them, dotted."""
    files: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    addresses: set[str] = field(default_factory=set)
    """Addresses that its handlers serve, with `*` for what is not literal."""

    @property
    def calls(self) -> frozenset[str]:
        """The words by which callers name its handlers; none if it serves other addresses too."""
        if not all(each.startswith(("/api/ec2/", "/ec2/")) for each in self.addresses):
            return frozenset()
        if any(each.startswith("/ec2/") for each in self.addresses):
            return frozenset({"hub/ec2"})
        segments = (re.findall(r"(?<=/)[\w-]+(?=/|$)", each) for each in self.addresses)
        return frozenset(each[-1] for each in segments)


def read_python(path: str, text: str) -> References:
    """Read imports anywhere, and all strings but docstrings. Raises SyntaxError."""
    found = References()
    package = path.split("/")[:-1]
    nodes: list[ast.AST] = [ast.parse(text, path)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                _read_string(node.value, found)
        elif isinstance(node, ast.Import):
            found.modules.update(each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, node.module] if node.module else above)
            found.modules.update(f"{module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "handlers":
            assert isinstance(node.value, ast.List)
            found.addresses.update(map(_address, node.value.elts))
        elif not (
            (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or (isinstance(node, ast.keyword) and node.arg == "scope")  # of a fixture
        ):
            if isinstance(node, ast.Attribute):
                found.words.add(f".{node.attr}")
            nodes.extend(ast.iter_child_nodes(node))
    return found


def _read_string(value: str, found: References) -> None:
    for module, names in MODULE.findall(value):
        found.modules.add(module)
        found.modules.update(f"{module}.{each}" for each in re.findall(r"\w+", names))
    if MODULE.fullmatch(value):
        found.modules.add(f"{value}.__main__")
    found.files.update(FILE.findall(value))
    tokens = value.split()
    for token in tokens:
        # Of a sentence, only what can be part of an address or names an option.
        is_said = len(tokens) == 1 or "/" in token or "EC2Spawner." in token
        if is_said and not token.startswith("tests/"):
            words = WORD.findall(token)
            found.words.update(words, (each.removeprefix("/") for each in words))


def _address(handler: ast.expr) -> str:
    address = handler.elts[0] if isinstance(handler, ast.Tuple) else handler
    parts = address.values if isinstance(address, ast.JoinedStr) else [address]
    return "".join(str(each.value) if isinstance(each, ast.Constant) else "*" for each in parts)


def read_text(text: str) -> References:
    """Read a page, a style sheet or a script; it calls a hub if it has an address of our API."""
    text = COMMENT.sub("", text)
    words = QUOTED.findall(text) if "ec2/" in text else ()
    return References(files=set(FILE.findall(text)), words=set(words))
