"""Loading values in a child first, where they could end or block the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..bounds import children, isolation
from ..bounds.memory import memory
from ..failure import Failure
from .crashes import Crashes
from .imports import has_same
from .waiting import Waiting


def failures(
    files: Sequence[str],
    waiting: Waiting,
    crashes: Crashes,
    load: Callable[[str], None],
    limit: Callable[[str], float],
) -> Iterator[tuple[str, Failure]]:
    """The files that are not to be loaded here, and why.

    `load`: called in a child, where it raises nothing; `limit`: of its seconds for a file.
    """
    unsafe = [file for file in files if not _is_safe(file, waiting, crashes)]
    room, affordable = memory().available // 2, []
    for file in unsafe:
        if crashes.is_refused(file):
            yield file, Failure("crashed", "the kernel has ended twice while it was loaded")
        elif waiting.size(file) <= room:
            affordable.append(file)
        elif not has_same(waiting.of(file)):
            why = "saved by other versions of its libraries, and too large to try first"
            yield file, Failure("library-version", why)
    with isolation.scratch() as prepare:
        yield from _tried(affordable, waiting, load, limit, prepare)


def _tried(
    files: Sequence[str],
    waiting: Waiting,
    load: Callable[[str], None],
    limit: Callable[[str], float],
    prepare: Callable[[], None],
) -> Iterator[tuple[str, Failure]]:
    tried = children.run(files, load, limit, lambda file: 2 * waiting.size(file), prepare)
    for file, result in tried:
        if isinstance(result, children.Hung):
            yield file, Failure("timed-out")
        elif isinstance(result, children.Died):
            yield file, Failure("crashed", str(result))


def _is_safe(file: str, waiting: Waiting, crashes: Crashes) -> bool:
    """Whether loading it runs no code of the user's, and nothing speaks against it."""
    entries = waiting.of(file)
    return all(each.plain for each in entries) and has_same(entries) and not crashes.of_files
