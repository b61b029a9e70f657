"""Remove from a text what a bug report must not show. Pure.

Ids of resources stay: they say nothing to others, and a report without them cannot be read. Texts
come from instances too and are hostile: every pattern is linear in the length of a line.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_LINE: Final = 20_000
"""Characters of a line that are shown."""

SECRET: Final = "SECRET"  # noqa: S105 - what is shown in place of one

TAG: Final = "TAG"
"""What is shown in place of a tag's value that is not ours: names of people, teams and projects."""

_OUR_TAGS: Final = "ec2spawner:"

_WORDS: Final = (
    r"token|secret|passw(?:or)?d|passphrase|credential|signature|cookie|authorization|"
    r"api[_-]?key|access[_-]?key|private[_-]?key|session[_-]?id"
)
_SECRET_NAME: Final = re.compile(_WORDS, re.IGNORECASE)
_NO_SECRETS: Final = frozenset({"HttpTokens", "ClientToken", "NextToken", "KeyName"})
"""Names of EC2's that hold none."""

_ASSIGNED: Final = re.compile(
    rf"(?i)((?:{_WORDS})[\w-]{{0,30}}\\{{0,3}}[\"']?\s{{0,3}}[=:>]\s{{0,3}}\\{{0,3}}[\"']?"
    r"(?:(?:token|bearer|basic)\s{1,3})?)(?!null\b|true\b|false\b|None\b)([^\s\"'\\<&]{1,4000})"
)
_SCHEME: Final = re.compile(r"(?i)\b(token|bearer|basic)(\s{1,3})[A-Za-z0-9+/=._~-]{8,4000}")
_URL_USER: Final = re.compile(r"(://)[^/\s@]{1,300}@")
_PEM: Final = re.compile(r"-----(BEGIN|END) [A-Z ]{1,40}-----")
_PEM_REMOVED: Final = "(key or certificate removed)"
_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]{1,76}\r?")
_JWT: Final = re.compile(r"\beyJ[\w-]{5,4000}(?:\.[\w-]{1,4000}){1,2}")
_ACCESS_KEY: Final = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA|ANPA|ABIA|ACCA)[A-Z0-9]{12,124}\b")
_LONG_HEX: Final = re.compile(
    r"(?<![0-9A-Za-z])[0-9A-Fa-f]{32,4000}(?![0-9A-Za-z])|(?<=_)[0-9a-f]{16,4000}"
)
_RANDOM: Final = re.compile(
    r"(?<![\w+=-])(?=[\w+=-]{0,60}\d)(?=[\w+=-]{0,60}[A-Z])[\w+=-]{32,4000}"
)
_SECRET_KEY: Final = re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+=]{40}(?![A-Za-z0-9/+=])")
_EMAIL: Final = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_ACCOUNT: Final = re.compile(r"(?<!\d)\d{12}(?!\d)")
_IPV4: Final = re.compile(r"(?<![\d.])\d{1,3}(?:[.-]\d{1,3}){3}(?!\d|\.\d)")
_IPV6: Final = re.compile(r"(?<![\w:])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?![\w:])")

_PUBLIC_KNOWLEDGE: Final = frozenset({"169.254.169.254", "127.0.0.1", "0.0.0.0", "::", "::1"})  # noqa: S104


@dataclass(slots=True)
class Redaction:
    """Replaces the same value by the same word in all texts of a report."""

    known: Mapping[str, str]
    """Values that must not be shown -> the word in their place, such as a host's name."""
    _numbered: dict[str, str] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        """The text without secrets, accounts, addresses and names; of a key or certificate, every
        line is removed."""
        shown: list[str] = []
        in_pem = False
        for line in text.split("\n"):
            marks = _PEM.findall(line)
            in_pem = in_pem and not marks and _BASE64.fullmatch(line) is not None
            if in_pem or (marks == ["END"] and shown[-1:] == [_PEM_REMOVED]):
                continue
            if marks:
                if marks[0] == "END":  # its beginning was cut off
                    while shown and _BASE64.fullmatch(shown[-1]):
                        shown.pop()
                shown.append(_PEM_REMOVED)
                in_pem = marks[-1] == "BEGIN"
                continue
            shown.append(self._line(line[:MAX_LINE]))
        return "\n".join(shown)

    def json_lines(self, text: str) -> str:
        """The same of a text with one JSON object to a line, which stays JSON."""
        return "\n".join(self._json_line(line) for line in text.splitlines())

    def value(self, value: Any, name: str = "") -> Any:
        """The same of a value as JSON has them; `name` is its key."""
        if isinstance(value, Mapping):
            shown = {str(key): self.value(inner, str(key)) for key, inner in value.items()}
            return {**shown, "Value": TAG} if _is_anothers_tag(value) else shown
        if isinstance(value, list | tuple):
            return [self.value(inner, name) for inner in value]
        if not isinstance(value, str):
            return value
        if value and name not in _NO_SECRETS and _SECRET_NAME.search(name):
            return SECRET
        return self(value)

    def _json_line(self, line: str) -> str:
        try:
            return json.dumps(self.value(json.loads(line)))
        except ValueError:
            return self(line)

    def _line(self, text: str) -> str:
        for value in sorted(self.known, key=len, reverse=True):
            if value:
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", self.known[value], text)
        text = _URL_USER.sub(rf"\1{SECRET}@", text)
        text = _ASSIGNED.sub(rf"\1{SECRET}", text)
        text = _SCHEME.sub(rf"\1\2{SECRET}", text)
        for pattern in (_JWT, _ACCESS_KEY, _LONG_HEX, _RANDOM, _SECRET_KEY):
            text = pattern.sub(SECRET, text)
        text = _EMAIL.sub("E-MAIL", text)
        text = _ACCOUNT.sub(lambda found: self._number("ACCOUNT", found[0]), text)
        text = _IPV4.sub(self._address, text)
        return _IPV6.sub(self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        """`10.0.0.5`, `10-0-0-5` of a host's name, and `fd00::5`."""
        value = found[0] if ":" in found[0] else found[0].replace("-", ".")
        try:
            ipaddress.ip_address(value)
        except ValueError:
            return found[0]
        return found[0] if value in _PUBLIC_KNOWLEDGE else self._number("ADDRESS", value)

    def _number(self, kind: str, value: str) -> str:
        if value not in self._numbered:
            count = sum(word.startswith(kind) for word in self._numbered.values())
            self._numbered[value] = f"{kind}-{count + 1}"
        return self._numbered[value]


def _is_anothers_tag(value: Mapping[Any, Any]) -> bool:
    """Whether it is a tag as AWS's answers have it, and none of ec2spawner's."""
    return value.keys() == {"Key", "Value"} and not str(value["Key"]).startswith(_OUR_TAGS)
