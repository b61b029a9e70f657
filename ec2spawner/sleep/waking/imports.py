"""Importing what a generation needs, without a module that would end the kernel.

Whether one does is found out in a child, where there is a reason to doubt: it has ended a kernel
before, or the environment is another one than when the session was saved.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ..bounds import children
from ..bounds.time_limit import limited
from ..failure import Failure, attempt
from ..storage.manifest import Entry, python_version
from .crashes import Crashes

IMPORT_SECONDS: Final = 120.0
"""Of a module: `import torch` reads a gigabyte, from a new volume slowly."""

VERSION_SECONDS: Final = 1.0

ADDRESSES: Final = 1 << 46
"""Of a child that imports, in bytes, which is no limit: libraries of GPUs reserve terabytes."""


class Refused(ImportError):
    """This module would end the kernel: its name."""


class Imports:
    """The modules of one generation."""

    def __init__(self, crashes: Crashes) -> None:
        self._crashes = crashes
        self.refused: dict[str, Failure] = {}
        """What is not imported here, and why."""

    def prepare(self, names: Iterable[str], *, in_doubt: bool) -> None:
        """Find out which of these are to be refused; `in_doubt`: try all of them in a child."""
        self.refused = {n: why for n, why in self.refused.items() if n not in sys.modules}
        new = [n for n in names if n not in sys.modules and n not in self.refused]
        for name in filter(self._crashes.is_refused, new):
            self.refused[name] = Failure(
                "crashed", "the kernel has ended twice while it was imported"
            )
        if not in_doubt and not self._crashes.of_modules:
            return
        waiting = [name for name in new if name not in self.refused]
        limits = (lambda _: IMPORT_SECONDS), (lambda _: ADDRESSES)
        for name, result in children.run(waiting, self._try, *limits):
            # The next child is started after this, and refuses it, too.
            if isinstance(result, children.Hung):
                self.refused[name] = Failure("timed-out", "importing it did not end")
            elif isinstance(result, children.Died):
                self.refused[name] = Failure("crashed", f"importing it: {result}")

    def module(self, name: str) -> Any:
        """Import this one here. Raises `Refused`, `Late`, and whatever the module raises."""
        with self._crashes.noting(name), self.refusing():
            return limited(lambda: importlib.import_module(name), IMPORT_SECONDS)

    def library(self, name: str) -> None:
        """Import this one here, if that is possible: what needs it says so otherwise."""
        if name in sys.modules or name in self.refused:
            return
        try:
            self.module(name)
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever a module raises
            return

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Within, an import of what is refused fails, whoever needs it."""
        finder = _Refusing(self.refused)
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(finder)

    def _try(self, name: str) -> None:
        """In a child: an error is no reason to refuse it, because it will be the same here."""
        with contextlib.suppress(BaseException), self.refusing():
            importlib.import_module(name)


class _Refusing:
    """A finder of modules, asked first."""

    def __init__(self, refused: Mapping[str, Failure]) -> None:
        self._refused = refused

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self._refused:
            raise Refused(name)


def has_same(entries: Iterable[Entry]) -> bool:
    """Whether the libraries that were imported here are of the versions that these are made of."""
    versions = dict(each for entry in entries for each in entry.libraries.items())
    return all(_version(name) == version for name, version in versions.items())


def _version(name: str) -> object:
    """What the module says, if it says anything: a lazy one runs code for that."""
    module = sys.modules.get(name)
    return attempt(lambda: getattr(module, "__version__", None), VERSION_SECONDS)


def is_changed(entries: Iterable[Entry]) -> bool:
    """Whether another version of Python or of a library saved these, as far as packages say so
    without being imported."""
    versions: dict[str, str] = {}
    for each in entries:
        if each.python and each.python != python_version():
            return True
        versions |= each.libraries
    return any(_is_other(name, version) for name, version in versions.items())


def _is_other(library: str, version: str) -> bool:
    try:
        found = importlib.metadata.version(library).partition("+")[0]
    except Exception:  # no package of this name, or a damaged one
        return False
    # A module may say for what it was built, as `2.3.0+cu121`, where its package does not.
    return found != version.partition("+")[0]
