"""The values of a generation that are not restored yet, by the files that have them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..storage.manifest import DEFINITION, Entry


class Waiting:
    """Values that share objects are in one file."""

    def __init__(self) -> None:
        self._files: dict[str, list[Entry]] = {}
        self._by_name: dict[str, str] = {}

    def __contains__(self, file: str) -> bool:
        return file in self._files

    @property
    def all(self) -> list[Entry]:
        """In the order of their files."""
        return [each for entries in self._files.values() for each in entries]

    def add(self, entry: Entry, file: str) -> None:
        """This one is read from this file."""
        self._files.setdefault(file, []).append(entry)
        self._by_name[entry.name] = file

    def file_of(self, name: str) -> str:
        """Empty for a name that does not wait."""
        return self._by_name.get(name, "")

    def of(self, file: str) -> list[Entry]:
        """The values of a file; none of one that is done."""
        return self._files.get(file, [])

    def remove(self, file: str) -> list[Entry]:
        """Nothing of this file waits any more; what did."""
        entries = self._files.pop(file, [])
        for each in entries:
            self._by_name.pop(each.name, None)
        return entries

    def remove_names(self, is_unwanted: Callable[[str], bool]) -> list[str]:
        """Those that were removed. What shares their files still waits."""
        unwanted = list(filter(is_unwanted, self._by_name))
        for name in unwanted:
            file = self._by_name[name]
            left = [each for each in self.remove(file) if each.name != name]
            for each in left:
                self.add(each, file)
        return unwanted

    def files(self, *, definition: bool) -> list[str]:
        """Those of functions and classes only, or the others."""
        return [
            file
            for file, entries in self._files.items()
            if all(each.kind == DEFINITION for each in entries) is definition
        ]

    def files_of(self, names: Iterable[str]) -> list[str]:
        """Of these names, each once, in their order."""
        return list(dict.fromkeys(filter(None, map(self.file_of, names))))

    def size(self, file: str) -> int:
        """In bytes, of all that the file still has to bring."""
        return sum(each.size_bytes for each in self.of(file))

    @property
    def smallest(self) -> str:
        """The smallest file; empty where nothing waits."""
        return min(self._files, key=self.size, default="")
