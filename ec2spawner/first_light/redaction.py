"""Remove from a text what a bug report must not show. Pure.

Ids of resources stay: they say nothing to others, and a report without them cannot be read.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_PEM: Final = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", re.DOTALL)
_ACCESS_KEY: Final = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA|ANPA)[A-Z0-9]{12,}\b")
_SECRET: Final = re.compile(
    r"(?i)\b((?:[\w-]*(?:token|secret|password|passwd|credential|signature|cookie|api[_-]?key)"
    r"[\w-]*)\"?\s*[=:]\s*\"?)((?:token |bearer |basic )?[^\s\"',;&}]+)"
)
_AUTHORIZATION: Final = re.compile(r"(?i)\b(token|bearer|basic) [A-Za-z0-9+/=._~-]{16,}")
_LONG_HEX: Final = re.compile(r"\b[0-9a-f]{32,}\b")
_EMAIL: Final = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b")
_ACCOUNT: Final = re.compile(r"(?<![\w.-])\d{12}(?![\w.-])|(?<=:)\d{12}(?=:)")
_IPV4: Final = re.compile(r"(?<![\d.])\d{1,3}(?:[.-]\d{1,3}){3}(?!\d|\.\d)")

_PUBLIC_KNOWLEDGE: Final = frozenset({"169.254.169.254", "127.0.0.1", "0.0.0.0"})  # noqa: S104


@dataclass(slots=True)
class Redaction:
    """Replaces the same value by the same word in all texts of a report."""

    known: Mapping[str, str]
    """Values that must not be shown -> the word in their place, such as a host's name."""
    _numbered: dict[str, str] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        """The text without secrets, accounts, addresses and names."""
        for value in sorted(self.known, key=len, reverse=True):
            if value:
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", self.known[value], text)
        text = _PEM.sub(r"(\1 removed)", text)
        text = _AUTHORIZATION.sub(r"\1 SECRET", text)
        text = _SECRET.sub(r"\1SECRET", text)
        text = _ACCESS_KEY.sub("ACCESS-KEY", text)
        text = _LONG_HEX.sub("SECRET", text)
        text = _EMAIL.sub("E-MAIL", text)
        text = _ACCOUNT.sub(lambda found: self._number("ACCOUNT", found[0]), text)
        return _IPV4.sub(self._address, text)

    def _address(self, found: re.Match[str]) -> str:
        """`10.0.0.5`, and `10-0-0-5` of a host's name."""
        value = found[0].replace("-", ".")
        try:
            ipaddress.IPv4Address(value)
        except ValueError:
            return found[0]
        return found[0] if value in _PUBLIC_KNOWLEDGE else self._number("ADDRESS", value)

    def _number(self, kind: str, value: str) -> str:
        if value not in self._numbered:
            count = sum(word.startswith(kind) for word in self._numbered.values())
            self._numbered[value] = f"{kind}-{count + 1}"
        return self._numbered[value]
