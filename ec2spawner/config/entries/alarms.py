"""`c.EC2Spawner.alarms`: where alarms go, and what raises them.

Apprise URLs hold passwords and tokens: no message repeats one, nor a part of one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from ...core.alarms.account_rules import MAX_INTERRUPTIONS
from ...core.alarms.alarm import AlarmRules, Kind
from ...core.alarms.weekly import Schedule
from ..values import PositiveDuration, Words, as_written, listed, shown, suggest, wrong
from ..working_hours import time_of_week

_FIX: Final = (
    'write Apprise URLs, such as "mailtos://...", or the ARN of an SNS topic; Apprise\'s '
    "documentation lists the services"
)

NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,38}[A-Za-z0-9])?")
"""Of a destination, as an admin may write it: it is in the log and in the database."""

TOPIC: Final = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]{1,256}(\.fifo)?")
"""ARN of an SNS topic."""

EXAMPLE: Final = ["arn:aws:sns:us-east-1:123456789012:gpu-hub"]

KINDS: Final = tuple(kind.value for kind in Kind if kind is not Kind.SUMMARY)
"""What an admin may choose from. The summary has an option of its own."""

MAX_DESTINATIONS: Final = 20
"""Each alarm is sent to each of them."""


def _destinations(value: object) -> object:
    """By name: those of a list are named by service and place."""
    if not isinstance(value, list | tuple | Mapping):
        wrong("`to` is neither a list nor a dict", _FIX)
    if len(value) > MAX_DESTINATIONS:
        wrong(f"more than {MAX_DESTINATIONS} destinations", "use a mailing list or an SNS topic")
    if isinstance(value, Mapping):
        for place, name in enumerate(value, start=1):
            if not isinstance(name, str) or not NAME.fullmatch(name):
                wrong(  # without the name: a URL may be in its place
                    f"name {place} of `to` is no name of a destination",
                    "write name: URL, with at most 40 letters, digits, spaces, . _ - in the name",
                )
        return {name: _judged(f'to["{name}"]', url) for name, url in value.items()}
    urls = [_judged(f"to[{place}]", url) for place, url in enumerate(value)]
    return {f"{_service(url)} #{place}": url for place, url in enumerate(urls, start=1)}


def _judged(where: str, url: object) -> str:
    """The same; what is no destination is refused, naming its place and its service only."""
    url = url.get_secret_value() if isinstance(url, SecretStr) else url
    if not isinstance(url, str):
        wrong(f"{where} is no text", _FIX)
    if not TOPIC.fullmatch(url):
        _judge_apprise_url(where, url)
    return url


def _judge_apprise_url(where: str, url: str) -> None:
    service, separator, _ = url.partition("://")
    if not separator or not re.fullmatch(r"[a-z][a-z0-9+]{1,30}", service):
        wrong(f"{where} is neither an Apprise URL nor the ARN of an SNS topic", _FIX)
    try:
        from apprise import Apprise
        from apprise.manager_plugins import NotificationManager
    except ImportError:
        wrong(f"{where} needs Apprise, which is not installed", 'pip install "ec2spawner[alarms]"')
    keep_quiet()
    known = set(NotificationManager().schemas())
    if service not in known:
        wrong(
            f"{where}: Apprise knows no service {shown(service)}",
            suggest(service, known, all_known=False),
        )
    if Apprise.instantiate(url) is None:
        wrong(
            f"{where}: Apprise does not accept this URL for {shown(service)}",
            "compare it with Apprise's documentation of that service; encode special characters in "
            "passwords, such as %40 for @",
        )


def keep_quiet() -> None:
    """Let Apprise log nothing: its messages hold parts of URLs."""
    log = logging.getLogger("apprise")
    log.propagate = False
    if not log.handlers:
        log.addHandler(logging.NullHandler())


def _kinds(value: object) -> object:
    for kind in value if isinstance(value, list | tuple) else ():
        if kind not in KINDS:
            wrong(f"there is no kind {shown(kind)}", suggest(str(kind), KINDS))
    return value


def _time_of_week(value: str) -> str:
    if value:
        time_of_week(value)
    return value


Percent = Annotated[float, Field(gt=0, le=10_000)]


class AlarmsConfig(Words):
    """Where alarms go and what raises them. A list is short for a dict with `to`. Each alarm is
    sent to each destination until that has accepted it."""

    to: Annotated[dict[str, SecretStr], BeforeValidator(_destinations)] = Field(
        default_factory=dict,
        description="Apprise URLs, and ARNs of SNS topics: a list, or a dict with a name for each, "
        "which the log uses. One recipient in each URL: what a "
        "service refuses for one of several is sent again to all. Apprise URLs hold secrets: read "
        "them from the environment or a file. Apprise needs `ec2spawner[alarms]`.",
        examples=[EXAMPLE],
    )
    kinds: Annotated[tuple[str, ...], BeforeValidator(_kinds), BeforeValidator(listed)] = Field(
        default=KINDS,
        description="The kinds to raise; by default all.",
        examples=[["limit", "idle-gpu", "interruptions"]],
    )
    limit_used: Percent = Field(
        default=90.0,
        description="A limit of which so many percent are used; another alarm follows when it is "
        "used up.",
    )
    idle_gpu: PositiveDuration = Field(
        default=as_written("6h"),
        description="A server with a GPU that has been idle for this long and still runs: its idle "
        "rule is off or longer, or its user extended it.",
    )
    unattended_gpu: PositiveDuration = Field(
        default=as_written("30m"),
        description="A GPU that a program has used for this long that belongs to no kernel and no "
        "terminal of its user.",
    )
    interruptions: int = Field(
        default=5,
        ge=1,
        le=MAX_INTERRUPTIONS,
        description="So many spot instances that EC2 interrupted within `interruptions_within`, "
        "in use or starting.",
    )
    interruptions_within: PositiveDuration = Field(
        default=as_written("1h"), description="The time for `interruptions`."
    )
    price_rise: Percent = Field(
        default=50.0,
        description="A spot price of a running instance this many percent above the median of its "
        "last seven days.",
    )
    quota_used: Percent = Field(
        default=90.0,
        description="A vCPU quota of the account of which this hub's instances use this many "
        "percent.",
    )
    discount_expires: PositiveDuration = Field(
        default=as_written("14d"),
        description="A discount or Reserved Instance that expires within this time.",
    )
    pool_unused: PositiveDuration = Field(
        default=as_written("1d"),
        description="Instances of the warm pool that have waited for this long without a server "
        "that takes them.",
    )
    disk_used: Percent = Field(
        default=90.0,
        description="A home, system or scratch disk of a running server of which this many percent "
        "of the space, or of the inodes, are used.",
    )
    summary: Annotated[str, AfterValidator(_time_of_week)] = Field(
        default="",
        description="When a summary of the last seven days is sent: a weekday and a time, in "
        "`time_zone`. Use, waste and cost, by payer. Empty sends none.",
        examples=["Mon 08:00"],
    )
    per_hour: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Alarms of one kind in an hour that are sent one by one, half as many of one "
        "user's; the rest of the hour becomes one message.",
    )

    def rules(self) -> AlarmRules:
        """The thresholds, with durations in seconds."""
        return AlarmRules(
            kinds=frozenset({*map(Kind, self.kinds), Kind.SUMMARY}),
            limit_used=self.limit_used,
            idle_gpu=self.idle_gpu,
            unattended_gpu=self.unattended_gpu,
            interruptions=self.interruptions,
            interruptions_within=self.interruptions_within,
            price_rise=self.price_rise,
            quota_used=self.quota_used,
            discount_expires=self.discount_expires,
            pool_unused=self.pool_unused,
            disk_used=self.disk_used,
            summary=Schedule(*time_of_week(self.summary)) if self.summary else None,
            per_hour=self.per_hour,
        )

    def destinations(self) -> Mapping[str, str]:
        """Name -> URL or ARN. No name holds a secret."""
        return {name: url.get_secret_value() for name, url in self.to.items()}


def _service(url: str) -> str:
    return "sns" if TOPIC.fullmatch(url) else url.partition("://")[0]


def from_list(value: object) -> object:
    """A list is short for a dict. For use as a pydantic validator."""
    if isinstance(value, list | tuple):
        return {"to": value}
    if not isinstance(value, dict | AlarmsConfig):
        wrong("is neither a list nor a dict", _FIX)
    return value


AlarmsWords = Annotated[AlarmsConfig, BeforeValidator(from_list)]

NO_ALARMS: Final = as_written([])
