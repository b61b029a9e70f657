"""`python -m tests.affected [--since COMMIT] [--list]`: run the checks that a change can reach.

A change reaches the tests that use a changed file, directly or through other files. A test uses
what it imports, what its strings name (a file, a module after `-m`, the imports of a program), and
what `tests/loads.py` declares of the processes that it starts. Lint and types always run,
documentation and front end where they are concerned. A change whose reach is unknown runs
everything. This is for use while developing: `make test` decides.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from tests import tiers
from tests.loads import (
    ABOUT_THE_TREE,
    ASKED_BY_NAME,
    ASKED_OF_A_HUB,
    CALLERS,
    EVERYTHING,
    LOADS,
    NOT_CALLERS,
    NOT_FOLLOWED,
    STARTUP,
)
from tests.references import TEXT, References, read_python, read_text


class Graph:
    """The users of each file, all as paths in the tree or as entries of `LOADS`."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """`texts` has every file of the tree; only the text of Python and of `TEXT` is read."""
        self.paths = texts.keys()
        self._sources = {
            path: read_python(path, text) if path.endswith(".py") else read_text(text)
            for path, text in texts.items()
            if path.endswith((".py", *TEXT))
        }
        self._modules = {
            path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path
            for path in texts
            if path.endswith(".py")
        }
        self._entries = defaultdict(list)
        for entry in LOADS:
            module, _, name = entry.partition(":")
            self._entries[module].append((f".{name}", entry))
        self._by_name = defaultdict(list)
        for path in texts:
            self._by_name[path.rpartition("/")[2]].append(path)
        self._handlers = {path: each.calls for path, each in self._sources.items() if each.calls}
        self._asked = self._handlers | {
            path: frozenset(words)
            for entry, words in ASKED_OF_A_HUB.items()
            for path in self.below(entry)
        }
        self._users = defaultdict(set)
        for path, used in self._uses():
            self._users[used].add(path)
        self._with_hub = self.users([STARTUP]).keys()
        self._with_address = self.users(
            self._saying({"/ec2", "hub/ec2", ".agent_api"}, "tests/")
        ).keys()

    def below(self, entry: str) -> list[str]:
        """The files of an entry of `tests/loads.py`."""
        if "*" in entry:
            found = (each for each in self.paths if fnmatch(each, entry))
            return [each for each in found if each.count("/") == entry.count("/")]
        if entry.endswith("/"):
            return [each for each in self.paths if each.startswith(entry)]
        return [entry] if entry in self.paths else []

    def users(self, paths: Iterable[str]) -> dict[str, str]:
        """These files and all that use them, each with what it uses; empty for these."""
        through = dict.fromkeys(paths, "")
        waiting = deque(through)
        while waiting:
            path = waiting.popleft()
            for user in sorted(self._users[path] - through.keys()):
                through[user] = path
                waiting.append(user)
        return through

    def reached(self, paths: Iterable[str]) -> dict[str, str]:
        """Find the users, and the tests that start a hub and request one of them."""
        through = self.users(paths)
        waiting = [each for each in through if each in self._asked]
        seen = set(waiting)
        while waiting:
            target = waiting.pop()
            callers = self._callers(target)
            for test in filter(is_test, sorted(callers & self._with_hub)):
                through.setdefault(test, target)
            pages = callers & self._asked.keys() - seen  # their scripts request it
            seen |= pages
            waiting += sorted(pages)
        return through

    def is_known(self, path: str) -> bool:
        """Whether its users are known: if it is part of the product, tests are not all of them."""
        if any(path in each for each in (self._asked, ASKED_BY_NAME, *LOADS.values())):
            return True
        is_product = path.startswith("ec2spawner/")
        return any(not (is_product and each.startswith("tests/")) for each in self._users[path])

    def _uses(self) -> Iterator[tuple[str, str]]:
        """Pairs of a file and one that it uses."""
        for path, source in self._sources.items():
            skipped = NOT_FOLLOWED.get(path, ())
            for used in {*self._modules_of(source), *self._files_of(path, source)} - {path}:
                is_asked = path == STARTUP and used in self._handlers
                if not is_asked and not (skipped and used.startswith(skipped)):
                    yield path, used
        for entry, targets in LOADS.items():
            yield from ((entry, path) for target in targets for path in self.below(target))
        for target, (folder, words) in ASKED_BY_NAME.items():
            saying = self._saying(words, folder)
            yield from ((path, used) for used in self.below(target) for path in saying)
        for path in filter(is_test, self.paths):
            parts = path.split("/")
            conftests = ("/".join([*parts[:depth], "conftest.py"]) for depth in range(len(parts)))
            yield from ((path, each) for each in conftests if each in self.paths)

    def _modules_of(self, source: References) -> Iterator[str]:
        """Its modules, the packages above them, and the names in them that `LOADS` has."""
        for dotted in source.modules:
            parts = dotted.split(".")
            prefixes = [".".join(parts[: depth + 1]) for depth in range(len(parts))]
            known = [each for each in prefixes if each in self._modules]
            yield from (self._modules[each] for each in known)
            if known:
                entries = self._entries[self._modules[known[-1]]]
                name = dotted.removeprefix(known[-1]).split(".")[1:2]
                # Of a module that is imported as a whole, the names that follow dots are used.
                words = {f".{each}" for each in name} or source.words
                yield from (entry for word, entry in entries if word in words)

    def _files_of(self, path: str, source: References) -> Iterator[str]:
        """Files with such a path; a program that is named without a folder is beside `path`."""
        for name in source.files:
            end = name.lstrip("./")
            if end.endswith(".py") and "/" not in end:
                end = f"{path.rpartition('/')[0]}/{end}"
            for each in self._by_name[end.rpartition("/")[2]]:
                if f"/{each}".endswith(f"/{end}") and not is_test(each):
                    yield each

    def _callers(self, target: str) -> set[str]:
        """Files that may request it of a hub, and their users."""
        words = self._asked[target]
        callers = self.users(self._saying(words, ""))
        if target not in self._handlers:
            return set(callers)
        # The word alone may mean something else, in a test without an address of our API.
        product = self.users(self._saying(words, "ec2spawner/"))
        return {*product, *(callers.keys() & self._with_address)}

    def _saying(self, words: Collection[str], folder: str) -> list[str]:
        return [
            path
            for path, source in self._sources.items()
            if path.startswith(folder)
            and path.startswith(CALLERS)
            and not path.startswith(NOT_CALLERS)
            and not source.words.isdisjoint(words)
        ]


def is_test(path: str) -> bool:
    """Whether pytest collects it."""
    return path.startswith("tests/") and path.rpartition("/")[2].startswith("test_")


def is_for_all(path: str) -> bool:
    """Whether its change runs everything."""
    return path.startswith(EVERYTHING) or path.endswith("/conftest.py")


def is_documentation(path: str) -> bool:
    """Whether `make docs` may use it."""
    return path.startswith("docs/") or path.endswith(".md")


@dataclass(frozen=True)
class Choice:
    """What a change can reach."""

    everything: str
    """Why that is everything; empty if it is not."""
    tests: Mapping[str, str]
    """Test files, each with its reason."""
    targets: Sequence[str]
    """Targets of make, besides tests."""


def choose(graph: Graph, changed: Sequence[str]) -> Choice:
    """What runs after a change of these files, some of which may be deleted."""
    if why := next(filter(None, (why_everything(graph, each) for each in changed)), ""):
        tests = dict.fromkeys(filter(is_test, graph.paths), why)
        return Choice(why, tests, ("lint", "types", "docs", "frontend"))
    reached = graph.reached(changed)
    tests = {
        path: f"use {through}" if through else "are changed"
        for path, through in reached.items()
        if is_test(path) and path in graph.paths
    }
    about_tree = filter(is_test, graph.below(ABOUT_THE_TREE))
    tests |= dict.fromkeys(about_tree, f"are in {ABOUT_THE_TREE}")
    targets = ["lint", "types"]
    if any(map(is_documentation, reached)):
        targets.append("docs")
    if any(each.startswith("labextension/") for each in changed):
        targets.append("frontend")
    return Choice("", tests, targets)


def why_everything(graph: Graph, path: str) -> str:
    """Why a change of this file runs everything; empty if it does not."""
    if is_for_all(path):
        return f"depend on {path}"
    if is_test(path) or is_documentation(path) or path.startswith("labextension/test/"):
        return ""
    if path not in graph.paths:
        return f"may have used {path}, which is deleted"
    return "" if graph.is_known(path) else f"may use {path}, whose users are unknown"


def commands(choice: Choice) -> list[list[str]]:
    """What runs, one after the other."""
    files = "" if choice.everything else " ".join(sorted(choice.tests))
    make = ["make", "--no-print-directory"]
    return [[*make, *choice.targets], [*make, "pytest", f"ARGS={files}"]]


def report(choice: Choice, *, with_names: bool) -> Iterator[str]:
    """Lines that say what runs, and why."""
    yield f"make {' '.join(choice.targets)}, and {len(choice.tests)} test files:"
    for reason, number in Counter(choice.tests.values()).most_common():
        yield f"{number:5} {reason}"
        if with_names and not choice.everything:
            yield from (f"        {each}" for each, why in choice.tests.items() if why == reason)


def main(arguments: Sequence[str]) -> int:
    """The exit status, of the first check that fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.affected")
    parser.add_argument("--since", metavar="COMMIT", help="default: where origin/main was left")
    parser.add_argument("--list", action="store_true", help="print what would run")
    options = parser.parse_args(arguments)
    since = options.since or branching_point()
    changed = changed_since(since)
    print(f"{len(changed)} files have changed since {since}:", *changed, sep="\n  ", flush=True)
    choice = choose(Graph(read_tree()), changed)
    print(*report(choice, with_names=options.list), sep="\n", flush=True)
    for command in [] if options.list else commands(choice):
        if status := subprocess.run(command, cwd=tiers.TREE, check=False).returncode:
            return status
    return 0


def branching_point() -> str:
    """The newest commit that this branch has in common with `origin/main`. Exits without one."""
    try:
        return git("merge-base", "origin/main", "HEAD")[0]
    except subprocess.CalledProcessError:
        raise SystemExit("There is no origin/main here: make affected SINCE=COMMIT") from None


def changed_since(commit: str, tree: Path = tiers.TREE) -> list[str]:
    """Files that differ from those of the commit; a renamed one by both of its names."""
    differing = git("diff", "--name-only", "--no-renames", commit, tree=tree)
    return sorted({*differing, *untracked(tree)})


def untracked(tree: Path = tiers.TREE) -> list[str]:
    """Files that git neither knows nor ignores."""
    return git("ls-files", "--others", "--exclude-standard", tree=tree)


def read_tree() -> dict[str, str]:
    """All files of the tree, with the text of those that a `Graph` reads."""
    files = (tiers.TREE / path for path in sorted({*git("ls-files"), *untracked()}))
    return {
        tiers.path_of(file): file.read_text("utf-8") if file.suffix in {".py", *TEXT} else ""
        for file in files
        if file.is_file()
    }


def git(*command: str, tree: Path = tiers.TREE) -> list[str]:
    """The lines of git's answer. Raises CalledProcessError."""
    words = ["git", "-c", "core.quotePath=off", *command]
    answer = subprocess.run(words, cwd=tree, stdout=subprocess.PIPE, text=True, check=True).stdout
    return answer.splitlines()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
