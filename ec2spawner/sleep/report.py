"""What users and pages see of a sleep: progress, tables, reasons in words."""

from __future__ import annotations

import html
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from ..core.sleep.unsavable import cannot_be_saved
from .storage.manifest import CHANGED, MODULE, Entry, Manifest
from .waking.restoring import Restored

MIME: Final = "application/vnd.ec2spawner.sleep+json"
PROGRESS_SECONDS: Final = 0.5
"""Between two messages of progress."""

REASONS: Final = {
    "busy": "the kernel was busy",
    "crashed": "its process crashed",
    "damaged": "its file is damaged",
    "deadline": "the time was over",
    "failed": "saving or loading it failed",
    "import-failed": "it cannot be imported here",
    "library-version": "its library has another version here",
    "memory": "it needs more memory than there is",
    "needs": "it needs something that could not be restored",
    "no-dill": "the kernel's environment has no dill",
    "no-space": "the disk has no room for it",
    "not-restored": "it was not restored since it was saved",
    "not-restorable": "it could be saved, but not loaded again",
    "not-storable": "it cannot be saved",
    "python-version": "another version of Python saved it",
    "timed-out": "it took too long",
    "too-deep": "it is nested too deeply",
}


DIFFERENCES: Final = {
    "changed": "changed",
    "copied": "as an array in memory, which was a map of a file",
    "no-longer-shared": "with a copy of what it shared with others",
    "released": "with a lock that nobody holds",
    "without-cache": "without what it had cached",
    "without-graph": "without the graph of its gradients",
    "without-traceback": "without its traceback",
}


def reason(entry: Entry) -> str:
    """Why a variable was not saved or restored."""
    words = cannot_be_saved(entry.code, entry.detail)
    if not words:
        words = REASONS.get(entry.code, entry.code)
        words = f"{words} ({entry.detail})" if entry.detail else words
    return f"{words}. {earlier_value(entry.name, entry.earlier)}" if entry.earlier else words


def earlier_value(name: str, saved_at: float) -> str:
    """What a user can have instead of a value that was not saved."""
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(saved_at))
    return f"Its value of {when} is kept: %wake {name}"


def messages(shell: Any) -> Callable[[dict[str, Any]], None]:
    """Send progress to the page, not too often."""
    return _throttled(lambda message: send(shell, message))


def line(shell: Any, verb: str) -> Callable[[dict[str, Any]], None]:
    """Show progress to the user in one line, which is updated in a notebook."""
    shown = uuid.uuid4().hex
    is_there = False

    def show(message: dict[str, Any]) -> None:
        nonlocal is_there
        text = f"{verb} {message['done']} of {message['of']}"
        if message.get("size_bytes"):
            text += f", {size(message['size_bytes'])}"
        data, transient = {"text/plain": f"{text} …"}, {"display_id": shown}
        shell.display_pub.publish(data, transient=transient, update=is_there)
        is_there = True

    return _throttled(show)


def _throttled(show: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    last = time.monotonic()

    def show_sometimes(message: dict[str, Any]) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_SECONDS:
            last = time.monotonic()
            show(message)

    return show_sometimes


def send(shell: Any, message: dict[str, Any], text: str = "", table: str = "") -> None:
    """Show a message as display data; in a process without IPython, its text."""
    if shell is None:
        if text:
            say(text)
        return
    data: dict[str, Any] = {MIME: message}
    if text:
        data["text/plain"] = text
    if table:
        data["text/html"] = table
    shell.display_pub.publish(data)


def say(text: str) -> None:
    """A line to whoever runs the cell."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# --- tables ---


def saved_rows(manifest: Manifest) -> list[tuple[str, str, str, str]]:
    """Name, type, size and what became of it: what is lost first, then what differs."""
    entries = [each for each in manifest.entries if each.kind != MODULE or not each.saved]
    entries.sort(key=lambda each: (each.saved, not each.differs, -each.size_bytes, each.name))
    rows = [(e.name, e.type, size(e.size_bytes), _became(e)) for e in entries]
    return [*((PROCESS, "", "", f"not saved: {each}") for each in manifest.unkept), *rows]


def _became(entry: Entry) -> str:
    if not entry.saved:
        return f"not saved: {reason(entry)}"
    if CHANGED in entry.differs:
        return f"saved, but comes back changed: {entry.detail}"
    became = f"saved {difference(entry.differs)}" if entry.differs else "saved"
    if entry.sharing == "partial" and not entry.differs:
        became = "saved, perhaps apart from what it shares"
    if entry.proved:
        return f"{became}, and proved"
    return f"{became}, not proved: {entry.unproved}" if entry.unproved else became


def difference(codes: Iterable[str]) -> str:
    """In what a restored value is not as it was."""
    return " and ".join(DIFFERENCES.get(each, each) for each in codes)


def saved_sentence(manifest: Manifest) -> str:
    """One line about a sleep."""
    saved = f"Saved {_count(len(manifest.saved), 'variable')}, {size(manifest.size_bytes)}"
    proved = sum(each.proved for each in manifest.saved)
    proved_words = f", {proved} proved" if proved else ""
    lost = f"; {len(manifest.lost)} not saved" if manifest.lost else ""
    return f"{saved}, in {manifest.seconds:.1f} s{proved_words}{lost}."


def restored_rows(found: Restored) -> list[tuple[str, str, str, str]]:
    """What did not come back as it was, or not yet."""
    rows = [(e.name, e.type, "", f"not restored: {reason(e)}") for e in found.lost]
    rows += [(PROCESS, "", "", f"not restored: {each}") for each in found.unkept]
    rows += [(name, "", "", "restored when a cell names it") for name in found.later]
    rows += [(name, "", "", "kept as you have it now") for name in found.yours]
    rows += [(e.name, e.type, "", _differing(e)) for e in found.differing]
    rows += [(name, "", "", "on the CPU: its GPU is not here") for name in found.moved]
    return rows


def _differing(entry: Entry) -> str:
    changed = f": {entry.detail}" if CHANGED in entry.differs else ""
    return f"{difference(entry.differs)}{changed}"


def restored_sentence(found: Restored) -> str:
    """One line about a wake."""
    later = f", {len(found.later)} more when needed" if found.later else ""
    lost = f"; {len(found.lost)} not restored" if found.lost else ""
    names = _count(len(found.restored), "name")
    return f"Restored {names} in {found.seconds:.1f} s{later}{lost}."


PROCESS: Final = "(kernel)"
"""In place of a name: what is said is of the process."""
HEADINGS: Final = ("Name", "Type", "Size", "")


def plain_table(sentence: str, rows: Sequence[Sequence[str]]) -> str:
    """For a terminal."""
    if not rows:
        return sentence
    table = [HEADINGS, *rows]
    widths = [min(40, max(len(row[column]) for row in table)) for column in range(3)]
    lines = [
        "  ".join([*(_fit(row[n], widths[n]) for n in range(3)), row[3]]).rstrip() for row in table
    ]
    return "\n".join([sentence, "", *lines])


def html_table(sentence: str, rows: Sequence[Sequence[str]]) -> str:
    """For a notebook; every text is escaped, because names and errors are the user's."""
    if not rows:
        return f"<p>{html.escape(sentence)}</p>"
    head = "".join(f"<th scope='col'>{html.escape(each)}</th>" for each in HEADINGS)
    return (
        f"<table><caption>{html.escape(sentence)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(_row(row) for row in rows)}</tbody></table>"
    )


def _row(cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<td>{html.escape(each)}</td>" for each in cells) + "</tr>"


def _fit(text: str, width: int) -> str:
    return (text if len(text) <= width else text[: width - 1] + "…").ljust(width)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def size(number: int) -> str:
    """Bytes in the units of file managers: powers of 1000."""
    if number < 1000:
        return f"{number} B"
    value = float(number)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.5:
            return f"{value:.3g} {unit}"
    return f"{value / 1000:.3g} TB"
