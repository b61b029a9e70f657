"""Mutants of a source: small changes, each of which a test should notice.

Offsets are in bytes, as `ast` has them.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

SEED: Final = "ec2spawner"
"""Of the digests by which the sample is drawn."""

KINDS: Final = (
    "comparison",
    "boolean",
    "arithmetic",
    "number",
    "flag",
    "negation",
    "deleted call",
    "swapped branches",
)

COMPARISONS: Final[Mapping[bytes, bytes]] = {
    b"<": b"<=",
    b"<=": b"<",
    b">": b">=",
    b">=": b">",
    b"==": b"!=",
    b"!=": b"==",
    b"is": b"is not",
    b"is not": b"is",
    b"in": b"not in",
    b"not in": b"in",
}
CONNECTIVES: Final = {b"and": b"or", b"or": b"and"}
SIGNS: Final = {b"+": b"-", b"-": b"+"}
LOG_METHODS: Final = frozenset(
    {"critical", "debug", "error", "exception", "info", "log", "warning"}
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """A change, identified by where it is and what it does."""

    file: str
    function: str
    """Its qualified name; of a value that is computed at import the class's, or empty."""
    line: str
    """The text of the line that it begins on."""
    kind: str
    before: str
    after: str
    judgement: str = ""
    """Why no test has to notice it. It begins with `equivalent` if no test can."""

    @property
    def package(self) -> str:
        """The package of `ec2spawner` that it is in."""
        return self.file.split("/")[1]

    @property
    def is_private(self) -> bool:
        """Whether its function or class is only its module's."""
        return self.function.rpartition(".")[2].startswith("_")

    @property
    def is_equivalent(self) -> bool:
        """Whether no test can notice it."""
        return self.judgement.startswith("equivalent")

    @property
    def id(self) -> str:
        """A digest of all but the judgement."""
        parts = (self.file, self.function, self.line, self.kind, self.before, self.after)
        return hashlib.sha256("\n".join((SEED, *parts)).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Place:
    """Where a mutant is in a source."""

    mutant: Mutant
    start: int
    end: int
    text: bytes
    """What replaces the bytes from `start` to `end`."""
    evaluated: tuple[int, int]
    """The expression that runs whenever the change can make a difference."""
    bound: str
    """What a value that is computed at import is assigned to; empty in a function."""

    def applied_to(self, source: bytes) -> bytes:
        """The source with the change."""
        return source[: self.start] + self.text + source[self.end :]


def places(file: str, source: bytes) -> list[Place]:
    """Every possible mutant of a file whose identity no other has."""
    found = list(_Finder(file, Source(source)).places())
    counts = Counter(place.mutant for place in found)
    return [place for place in found if counts[place.mutant] == 1]


@dataclass(frozen=True)
class Source:
    """A text, and where the nodes of its tree are in it."""

    text: bytes

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> list[bytes]:
        """Its lines."""
        return self.text.splitlines(keepends=True)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *itertools.accumulate(map(len, self.lines))]

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where a node begins and ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )


@dataclass(frozen=True)
class _Change:
    kind: str
    start: int
    end: int
    text: bytes
    evaluated: ast.expr
    shown: ast.expr | ast.stmt


class _Finder:
    def __init__(self, file: str, source: Source) -> None:
        self._file = file
        self._source = source

    def places(self) -> Iterator[Place]:
        for statement in self._source.tree.body:
            yield from self._at_import(statement, "")

    def _at_import(self, node: ast.stmt, scope: str) -> Iterator[Place]:
        match node:
            case ast.ClassDef():
                for statement in node.body:
                    yield from self._at_import(statement, f"{scope}{node.name}.")
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inside = f"{scope}{node.name}."
                for argument, default in _defaults(node.args):
                    yield from self._below(default, inside, argument)
                for statement in node.body:
                    yield from self._below(statement, inside, "")
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if not name.startswith("__"):
                yield from self._below(value, scope, name)

    def _below(self, node: ast.AST, scope: str, bound: str) -> Iterator[Place]:
        """The places in a node and below it."""
        if _is_left_out(node):
            return
        for change in self._changes_of(node):
            yield self._place(change, scope, bound)
        if isinstance(node, Function):
            scope = f"{scope}{node.name}."
        for name, value in ast.iter_fields(node):
            if name in NOT_BELOW or (name == "body" and _is_for_types_only(node)):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._below(child, scope, bound)

    def _changes_of(self, node: ast.AST) -> Iterator[_Change]:
        span = self._source.span
        match node:
            case ast.Compare(left=left, comparators=right):
                for one, other in itertools.pairwise([left, *right]):
                    yield from self._between("comparison", one, other, COMPARISONS, node)
            case ast.BoolOp(values=values):
                for one, other in itertools.pairwise(values):
                    yield from self._between("boolean", one, other, CONNECTIVES, node)
            case ast.BinOp(left=one, op=ast.Add() | ast.Sub(), right=other):
                if not (_is_collection(one) or _is_collection(other)):
                    yield from self._between("arithmetic", one, other, SIGNS, node)
            case ast.AugAssign(target=target, op=ast.Add() | ast.Sub(), value=value):
                if not _is_collection(value):
                    yield from self._between("arithmetic", target, value, SIGNS, value, node)
            case ast.Constant(value=bool() as flag):
                yield _Change("flag", *span(node), str(not flag).encode(), node, node)
            case ast.Constant(value=int() | float() as number):
                yield _Change("number", *span(node), self._next(node, number), node, node)
            case ast.UnaryOp(op=ast.Not()):
                start, end = span(node)
                without = self._source.text[start:end].removeprefix(b"not").lstrip()
                yield _Change("negation", start, end, without, node, node)
            case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call()) as value):
                yield _Change("deleted call", *span(value), b"pass", value, value)
            case ast.IfExp(test=test):
                yield self._swapped(test)
            case ast.If(test=test, orelse=[first, *others]):
                if others or not isinstance(first, ast.If):
                    yield self._swapped(test)

    def _between(
        self,
        kind: str,
        one: ast.expr,
        other: ast.expr,
        opposites: Mapping[bytes, bytes],
        evaluated: ast.expr,
        shown: ast.stmt | None = None,
    ) -> Iterator[_Change]:
        """The change of the operator between two terms, if it is on one line without a comment."""
        start, end = self._source.span(one)[1], self._source.span(other)[0]
        between = self._source.text[start:end]
        operator = b" ".join(OPERATOR.findall(between)).removesuffix(b"=" if shown else b"")
        if operator in opposites and operator in between and b"#" not in between:
            start += between.index(operator)
            end = start + len(operator)
            yield _Change(kind, start, end, opposites[operator], evaluated, shown or evaluated)

    def _swapped(self, test: ast.expr) -> _Change:
        start, end = self._source.span(test)
        opposite = b"not (" + self._source.text[start:end] + b")"
        return _Change("swapped branches", start, end, opposite, test, test)

    def _next(self, node: ast.expr, number: float) -> bytes:
        start, end = self._source.span(node)
        is_octal = self._source.text[start:end].lower().startswith(b"0o")
        return (oct(int(number) + 1) if is_octal else repr(number + 1)).encode()

    def _place(self, change: _Change, scope: str, bound: str) -> Place:
        text = self._source.text
        first, last = self._source.span(change.shown)
        mutant = Mutant(
            file=self._file,
            function=scope.removesuffix("."),
            line=self._source.lines[change.shown.lineno - 1].decode().strip(),
            kind=change.kind,
            before=_in_one_line(text[first:last]),
            after=_in_one_line(text[first : change.start] + change.text + text[change.end : last]),
        )
        evaluated = self._source.span(change.evaluated)
        return Place(mutant, change.start, change.end, change.text, evaluated, bound)


OPERATOR: Final = re.compile(rb"[<>=!+-]+|[a-z]+")

NOT_BELOW: Final = frozenset(
    {"annotation", "bases", "decorator_list", "msg", "pattern", "returns", "type_params"}
)
"""Fields of nodes that have types, patterns, messages of assertions, or what runs at import."""


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """The names of the parameters that have a default, each with it."""
    positional = [*arguments.posonlyargs, *arguments.args][::-1]
    yield from (
        (each.arg, default)
        for each, default in zip(positional, arguments.defaults[::-1], strict=False)
    )
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            yield each.arg, default


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr():  # its parts have no positions before Python 3.12
            return True
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method in LOG_METHODS:
            return ast.unparse(owner).lower().endswith(("log", "logger", "logging"))
        case ast.Call(func=ast.Name(id="_log")):
            return True
        case ast.Expr(value=value) | ast.Await(value=value):
            return _is_left_out(value)
        case ast.Subscript(value=ast.Name(id="Literal" | "Annotated")):
            return True
    return False


def _is_for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def _is_collection(node: ast.expr) -> bool:
    """Whether one of `+` and `-` raises a TypeError with it."""
    match node:
        case ast.JoinedStr() | ast.List() | ast.ListComp() | ast.Set() | ast.SetComp():
            return True
        case ast.Tuple() | ast.Constant(value=str() | bytes()):
            return True
        case ast.Call(func=ast.Attribute(attr="join" | "keys")):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_collection(left) or _is_collection(right)
    return False


def _in_one_line(text: bytes) -> str:
    return " ".join(text.decode().split())
