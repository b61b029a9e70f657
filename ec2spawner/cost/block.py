"""`with cost.track("preparing"):` and `@cost.track()`: the cost of a block of code."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TextIO, TypeVar, cast

from .interval import Moment, between
from .line import Line, depth

F = TypeVar("F", bound=Callable[..., Any])


class track:  # noqa: N801 - it reads as a verb where it is used
    """Measure a block and print what it has cost, how long it took, and at which price.

    A context manager, for `with` in plain and in async code, and a decorator of functions,
    generators and coroutine functions. Blocks may be nested, and run in any thread. It prints
    also if the block ends with an exception, which propagates.
    """

    name: str
    seconds: float | None = None
    """How long the block took, once it has ended."""
    usd: float | None = None
    """What it has cost, once it has ended; None is unknown."""
    estimate: bool = True
    """Whether `usd` is an estimate."""

    def __init__(self, name: str = "", *, quiet: bool = False, file: TextIO | None = None) -> None:
        """`quiet` prints nothing; `file` is written to in place of the standard output."""
        if not isinstance(name, str):
            raise TypeError("a name is text; as a decorator write @cost.track() with parentheses")
        self.name = name
        self._quiet = quiet
        self._file = file
        self._began: Moment | None = None

    def __enter__(self) -> Self:
        self._indent = depth.get()
        depth.set(self._indent + 1)
        self._began = Moment.now()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end(kind.__name__ if kind else "")

    def end(self, ended_by: str = "") -> None:
        """The block ends here; `ended_by` names the exception that ends it. Once."""
        began, self._began = self._began, None
        if began is None:
            return
        depth.set(self._indent)
        spent = between(began, Moment.now())
        self.seconds, self.usd = spent.seconds, spent.usd
        self.estimate = spent.last.cost is None or spent.last.cost.estimate
        if self._quiet:
            return
        name = f"{self.name}: " if self.name else ""
        how = f", ended by {ended_by}" if ended_by else ""
        Line(self._file, self._indent).show(f"{name}{spent.words()}{how} ({spent.remark()})")

    def __call__(self, function: F) -> F:
        """Decorate: each call is a block of its own."""
        if inspect.isasyncgenfunction(function):
            raise TypeError("an async generator is measured where it is used: with cost.track():")

        def fresh() -> track:
            name = self.name or getattr(function, "__name__", "")
            return track(name, quiet=self._quiet, file=self._file)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def measured_coroutine(*args: Any, **named: Any) -> Any:
                with fresh():
                    return await function(*args, **named)

            return cast("F", measured_coroutine)
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def measured_generator(*args: Any, **named: Any) -> Any:
                with fresh():
                    return (yield from function(*args, **named))

            return cast("F", measured_generator)

        @functools.wraps(function)
        def measured(*args: Any, **named: Any) -> Any:
            with fresh():
                return function(*args, **named)

        return cast("F", measured)
