"""What users have named in an alarm, without power over those who read it. Pure.

Names of servers, runs and files are in alarms. A chat would notify a whole channel for some, and
make links of others: `@everyone`, `<!channel>`, `@**all**`, `[pay here](https://…)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

MAX_TITLE: Final = 200
"""Characters: mail servers and chats cut longer ones, each elsewhere."""

MAX_BODY: Final = 4000
"""Characters."""

BREAK: Final = "\u200b"
"""A zero-width space: nothing is seen of it, and no service finds a mention or a link around it. A
backslash would be seen where a service does not know it as an escape, as in Zulip."""

_LINKS: Final = re.compile(
    r"(?<=:)(?=//)"  # https://…
    r"|(?<=])(?=[(\[:])"  # [words](address), [words][name], [name]: address
    r"|(?<=\w)(?=\.[^\W\d_]{2})(?<!\bc)(?<!c\.EC2Spawner)"  # example.org; not our options
)
_MENTIONS: Final = re.compile(
    r"(?<=@)(?=\S)"  # @channel, @everyone, @**all**, <@123>
    r"|(?<=<)(?=\S)"  # <!channel>, <at>…</at>, <https://…|words>, HTML
    r"|(?<=[#~])(?=[\w*])"  # #**stream**, ~channel
)

_LITERAL: Final = frozenset({"form", "forms", "json", "jsons", "rsyslog", "syslog", "xml", "xmls"})
"""Services, by the scheme of their Apprise URL, that pass the text on to programs as it is."""

_RULES: Final[Mapping[str, tuple[re.Pattern[str], ...]]] = MappingProxyType(
    dict.fromkeys(_LITERAL, ()) | dict.fromkeys(("mailto", "mailtos", "ses"), (_LINKS,))
)
"""Which marks are broken, by scheme; for all others, chats, both."""


def bounded(text: str, longest: int) -> str:
    """The text in at most so many characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def neutral(url: str, text: str) -> str:
    """The text as the service of an Apprise URL may have it: to be read, and nothing else."""
    scheme = url.partition("://")[0].lower()
    for rule in _RULES.get(scheme, (_LINKS, _MENTIONS)):
        text = rule.sub(BREAK, text)
    return text
