"""`%sleep`, `%wake`, `%keep` and `%forget` in IPython, and so in notebooks."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("sleep", "wake", "keep", "forget")
SECONDS: Final = 600.0
"""That `%sleep` may take: the user waits and can interrupt it."""
MAX_BYTES: Final = 1 << 40
"""The free space of the disk is the bound: the user sees what is not saved."""
EAGER_BYTES: Final = 256 << 20
"""Restored at once by `%wake`: about two seconds from a gp3 volume."""


class SleepMagics:
    """The magics of one shell. What they do is imported when they are first used."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell

    def sleep(self, line: str = "") -> None:
        """Save the variables of this notebook now, and show what was saved.

        They are restored by `%wake`, here or after a restart. The kernel continues.
        """
        from ..core.text import full_disk
        from . import kernel, report
        from .storage import earlier, folder, owned

        if line.strip():
            report.say("%sleep takes no arguments. To leave a variable out: %forget name")
            return
        current = kernel.current()
        try:
            generation = folder.new_generation(kernel.kernel_folder())
            progress = report.line(self._shell, "Saving")
            manifest = current.save(
                generation, seconds=SECONDS, max_bytes=MAX_BYTES, progress=progress
            )
        except (OSError, owned.NotOurs) as why:
            report.say(f"Nothing was saved: {full_disk.why_not_written(why)}.")
            return
        if not current.needs_older(generation):
            earlier.remove_older(generation)
        self._show(report.saved_sentence(manifest), report.saved_rows(manifest))

    def wake(self, line: str = "") -> None:
        """Restore the saved variables of this notebook, or of another one: `%wake other.ipynb`.

        A variable that exists stays as it is. Large variables that still wait are restored now
        with `%wake name …`, and so is the earlier value of one that the last sleep could not save.
        What could not be restored is tried again.
        """
        from . import kernel, report
        from .storage import folder, manifest, owned

        current = kernel.current()
        words = _words(line)
        here = {*current.pending, *current.failed}
        if words and all(word in here or word in current.asleep for word in words):
            try:
                asleep = [word for word in words if word not in here]
                names = [*current.restore_now(words), *current.restore_earlier(asleep)]
            except (OSError, owned.NotOurs, manifest.Unreadable) as why:
                report.say(f"Not restored: {why}.")
                return
            report.say(f"Restored {', '.join(names) or 'nothing'}.")
            return
        name = words[0] if len(words) == 1 else line.strip()  # blanks need no quotes
        places = _places(name, kernel.notebook()) if name else [""]
        found_in = map(folder.latest, map(kernel.kernel_folder, places))
        generation = next(filter(None, found_in), None)
        if generation is None:
            report.say(f"Nothing was saved for {name or 'this notebook'}.")
            return
        try:
            progress = report.line(self._shell, "Restoring")
            found = current.restore(generation, eager_bytes=EAGER_BYTES, progress=progress)
        except manifest.Unreadable as why:
            report.say(f"Nothing was restored: what was saved cannot be read, because {why}.")
            return
        self._show(report.restored_sentence(found), report.restored_rows(found))

    def keep(self, line: str = "") -> None:
        """Save these variables before all others: `%keep model history`. Alone: show them."""
        from . import kernel, report

        current = kernel.current()
        if names := self._names(line):
            current.keep(names)
        report.say(f"Saved first: {', '.join(current.kept) or 'nothing in particular'}.")

    def forget(self, line: str = "") -> None:
        """Do not save these variables: `%forget raw`. They stay in memory. Alone: show them."""
        from . import kernel, report

        current = kernel.current()
        if names := self._names(line):
            current.forget(names)
        report.say(f"Not saved: {', '.join(current.forgotten) or 'nothing in particular'}.")

    def _names(self, line: str) -> list[str]:
        from . import report

        words = line.replace(",", " ").split()
        if wrong := [word for word in words if not word.isidentifier()]:
            report.say(f"Not the name of a variable: {' '.join(wrong)}")
            return []
        return words

    def _show(self, sentence: str, rows: Any) -> None:
        from . import report

        self._shell.display_pub.publish(
            {
                "text/plain": report.plain_table(sentence, rows),
                "text/html": report.html_table(sentence, rows),
            }
        )


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quote in the name of a notebook
        return [line.strip()]


def _places(name: str, notebook: str) -> list[str]:
    """Where another notebook of this name may be: here, or beside this one."""
    path = os.path.expanduser(name)  # noqa: PTH111 - of a user who is not known, it stays
    folders = [str(Path(notebook).parent)]
    with contextlib.suppress(FileNotFoundError):  # it was removed
        folders.insert(0, str(Path.cwd()))
    return [os.path.join(folder, path) for folder in folders]  # noqa: PTH118


def load(shell: Any) -> None:
    """Register the magics, in place of those registered before."""
    unload(shell)
    from . import settings

    settings.remember_environment()
    magics = SleepMagics(shell)
    for name in NAMES:
        shell.register_magic_function(getattr(magics, name), "line", name)


def unload(shell: Any) -> None:
    """Remove the magics; does nothing if they are not loaded."""
    for name in NAMES:
        magic = shell.magics_manager.magics["line"].get(name)
        if isinstance(getattr(magic, "__self__", None), SleepMagics):
            del shell.magics_manager.magics["line"][name]
