"""Forms and messages in a page of JupyterHub. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final, TypeAlias

MAX_FIELDS: Final = 2000
"""Of a form: what comes after them is ignored."""

MAX_MESSAGE: Final = 300
"""Characters of a message."""

_VOID: Final = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})
"""Elements that have no end."""

_MESSAGES: Final = ("login_error", "spawn-error-msg", "error")
"""Classes of what JupyterHub's templates say about an error: login, spawn page, error page."""

_NOT_SENT: Final = frozenset({"button", "file", "image", "reset", "submit"})
"""Types of inputs that a browser leaves out when another button is pressed."""


class FormRefused(Exception):
    """The form has no place for what should be sent; the message says what it has."""


@dataclass(slots=True)
class Form:
    """A form as its page shows it, before anybody has touched it."""

    action: str = ""
    values: list[tuple[str, str]] = field(default_factory=list)
    """What a browser would send."""
    choices: dict[str, list[str]] = field(default_factory=dict)
    """The values of radio buttons and lists, by field."""

    def filled(self, chosen: Mapping[str, str]) -> list[tuple[str, str]]:
        """What a browser sends after its user has made these choices. Raises `FormRefused`."""
        for name, value in chosen.items():
            offered = self.choices.get(name)
            if offered is not None and value not in offered:
                raise FormRefused(f"the page offers {name} {', '.join(offered)}, not {value}")
        kept = [(name, value) for name, value in self.values if name not in chosen]
        return [*kept, *chosen.items()]


def form_of(page: str, form_id: str) -> Form | None:
    """The form with that id; None if the page has none."""
    reader = _FormReader(form_id)
    reader.feed(page)
    reader.close()
    return reader.form


def message_of(page: str) -> str:
    """What the page says about an error, as one line; empty if nothing."""
    reader = _MessageReader()
    reader.feed(page)
    reader.close()
    return " ".join("".join(reader.parts).split())[:MAX_MESSAGE]


_Attributes: TypeAlias = Sequence[tuple[str, str | None]]


class _FormReader(HTMLParser):
    def __init__(self, form_id: str) -> None:
        super().__init__()
        self.form: Form | None = None
        self._id = form_id
        self._inside = False
        self._list: _List | None = None
        self._text: tuple[str, list[str]] | None = None

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        found = dict(attrs)
        if tag == "form":
            self._inside = self.form is None and found.get("id") == self._id
            if self._inside:
                self.form = Form(found.get("action") or "")
        elif not self._inside or self.form is None or len(self.form.values) >= MAX_FIELDS:
            return
        elif tag == "option":
            if self._list is not None:
                self._list.add(found)
        elif "disabled" in found or not found.get("name"):
            return
        elif tag == "input":
            self._input(self.form, found)
        elif tag == "select":
            self._list = _List(found["name"] or "")
        elif tag == "textarea":
            self._text = (found["name"] or "", [])

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif self.form is None:
            return
        elif tag == "select" and self._list is not None:
            self._list.enter(self.form)
            self._list = None
        elif tag == "textarea" and self._text is not None:
            name, parts = self._text
            self.form.values.append((name, "".join(parts).removeprefix("\n")))
            self._text = None

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text[1].append(data)

    @staticmethod
    def _input(form: Form, found: Mapping[str, str | None]) -> None:
        name, kind = found["name"] or "", found.get("type") or "text"
        is_choice = kind in ("checkbox", "radio")
        value = found.get("value") or ("on" if is_choice else "")
        if kind == "radio":
            form.choices.setdefault(name, []).append(value)
        if kind not in _NOT_SENT and (not is_choice or "checked" in found):
            form.values.append((name, value))


class _List:
    """The options of a `select`: the selected one is sent, or the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._values: list[str] = []
        self._selected: list[str] = []

    def add(self, option: Mapping[str, str | None]) -> None:
        if len(self._values) < MAX_FIELDS and "disabled" not in option:
            self._values.append(option.get("value") or "")
            if "selected" in option:
                self._selected.append(self._values[-1])

    def enter(self, form: Form) -> None:
        form.choices[self._name] = self._values
        for value in (self._selected or self._values)[:1]:
            form.values.append((self._name, value))


class _MessageReader(HTMLParser):
    """The text of the first element of the classes in `_MESSAGES`."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._depth = 0
        self._is_done = False

    def handle_starttag(self, tag: str, attrs: _Attributes) -> None:
        if self._is_done or tag in _VOID:
            return
        classes = (dict(attrs).get("class") or "").split()
        if self._depth or any(each in classes for each in _MESSAGES):
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        if self._depth and tag not in _VOID:
            self._depth -= 1
            self._is_done = not self._depth

    def handle_data(self, data: str) -> None:
        if self._depth:
            self.parts.append(f"{data} ")
