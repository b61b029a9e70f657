"""`c.EC2Spawner.payers`, `limits` and `time_zone`: who pays, and how much at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from ...core.ledger.cost_rows import HUB, user_payer
from ...core.limits.bounds import AtLimit, Bounds, Limits
from ...core.limits.scopes import (
    Members,
    Payers,
    group_scope,
    project_scope,
)
from ..values import PositiveDuration, Texts, Words, as_written, listed, shown, suggest, wrong
from ..working_hours import time_zone

MAX_WINDOW_DAYS = 366
"""Days of the longest window."""


def _payer_name(name: str) -> str:
    if not name.strip() or len(name) > 200:
        wrong(f"{shown(name)} is no name", "write 1 to 200 characters")
    return name


PayerName = Annotated[str, AfterValidator(_payer_name)]
TimeZone = Annotated[str, AfterValidator(time_zone)]
Usd = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class ProjectConfig(Words):
    """Who may charge servers to a project: the users, and the members of the groups."""

    users: Texts = Field(default=(), description="Names of users.", examples=[["ann", "ben"]])
    groups: Texts = Field(
        default=(), description="JupyterHub groups, all of whose members count.", examples=[["lab"]]
    )

    @model_validator(mode="after")
    def _has_members(self) -> Self:
        if not self.users and not self.groups:
            wrong("has no members, so nobody could use it", '"users": ["ann"] or "groups": ["lab"]')
        return self


class PayersConfig(Words):
    """Who may pay for servers besides their users."""

    user: bool = Field(
        default=True,
        description="Whether users may pay for themselves. With False a user without a group or "
        "project that pays can start nothing.",
    )
    group: Annotated[tuple[PayerName, ...], BeforeValidator(listed)] = Field(
        default=(),
        description="JupyterHub groups to which their members may charge servers.",
        examples=[["research"]],
    )
    project: dict[PayerName, ProjectConfig] = Field(
        default=as_written({}),
        description="Projects, each with its members.",
        examples=[{"nlp": {"users": ["ann"], "groups": ["lab"]}}],
    )

    def payers(self) -> Payers:
        """As the hub decides by them."""
        members = {
            name: Members(frozenset(each.users), frozenset(each.groups))
            for name, each in self.project.items()
        }
        return Payers(self.user, self.group, members)


class BoundsConfig(Words):
    """The limits of one user, group, project, or of the hub; what is left out is not limited."""

    usd_per_month: Usd | None = Field(
        default=None,
        description="USD per calendar month in `time_zone`.",
        examples=[200],
    )
    usd_per_window: Usd | None = Field(
        default=None,
        description="USD in each `window_days` consecutive days, today included.",
        examples=[50],
    )
    window_days: int | None = Field(
        default=None,
        ge=1,
        le=MAX_WINDOW_DAYS,
        description="Days of `usd_per_window`.",
        examples=[7],
    )
    credit_usd: Usd | None = Field(
        default=None,
        description="Credit in USD, full at first: what is spent is missing until it is refilled.",
        examples=[100],
    )
    credit_usd_per_day: Usd | None = Field(
        default=None,
        description="What the credit gains each day, in USD, until it is full; 0, the default, "
        "never refills it.",
        examples=[5],
    )
    usd_per_hour: Usd | None = Field(
        default=None,
        description="USD per hour of all servers that run at the same time.",
        examples=[5],
    )
    gpu_hours_per_month: Usd | None = Field(
        default=None,
        description="GPU-hours per calendar month in `time_zone`: an hour with four GPUs is four.",
        examples=[100],
    )
    servers: int | None = Field(
        default=None,
        ge=0,
        description="Servers that may run at the same time.",
        examples=[2],
    )
    max_run: PositiveDuration | None = Field(
        default=None,
        description="A server stops at this age, also in use, with a warning before. The shortest "
        "of its limits and of `idle.max_age` holds.",
        examples=["12h"],
    )
    at_limit: Literal["stop", "warn"] | None = Field(
        default=None,
        description="Overrides the hub's `at_limit` for this one.",
        examples=["warn"],
    )

    @model_validator(mode="after")
    def _go_together(self) -> Self:
        if self.usd_per_window is not None and self.window_days is None:
            wrong('has "usd_per_window" without "window_days"', 'add "window_days": 7')
        if self.window_days is not None and self.usd_per_window is None:
            wrong('has "window_days" without "usd_per_window"', 'add "usd_per_window": 50')
        if self.credit_usd_per_day is not None and self.credit_usd is None:
            wrong('has "credit_usd_per_day" without "credit_usd"', 'add "credit_usd": 100')
        return self

    def written(self) -> dict[str, Any]:
        """What the admin wrote, by the names of `core.limits.bounds.Bounds`."""
        found = {name: getattr(self, name) for name in self.model_fields_set}
        if "max_run" in found:
            found["max_run_seconds"] = found.pop("max_run")
        if at_limit := found.pop("at_limit", None):
            found["at_limit"] = AtLimit(at_limit)
        return found


class LimitsConfig(Words):
    """Limits of each user, of single users, of groups and projects that pay, and of the hub."""

    user: BoundsConfig = Field(
        default=as_written({}),
        description="Of every user, over all of their servers, whoever pays for them.",
        examples=[{"usd_per_month": 200, "servers": 2, "max_run": "12h"}],
    )
    users: dict[PayerName, BoundsConfig] = Field(
        default=as_written({}),
        description="Overrides of `user` for single users.",
        examples=[{"ann": {"usd_per_month": 500}}],
    )
    group: dict[PayerName, BoundsConfig] = Field(
        default=as_written({}),
        description="Of the servers that are charged to a group of `payers`.",
        examples=[{"research": {"usd_per_month": 3000}}],
    )
    project: dict[PayerName, BoundsConfig] = Field(
        default=as_written({}),
        description="Of the servers that are charged to a project of `payers`.",
        examples=[{"nlp": {"credit_usd": 100, "credit_usd_per_day": 5}}],
    )
    hub: BoundsConfig = Field(
        default=as_written({}),
        description="Of all servers together, and of what belongs to no server.",
        examples=[{"usd_per_month": 10000}],
    )
    at_limit: Literal["stop", "warn"] = Field(
        default="stop",
        description="What happens to running servers when a limit of USD or GPU-hours is used up: "
        '`"stop"` stops them with notice, and saves their sessions as an idle stop does; `"warn"` '
        "only notifies their users. No server starts in both cases.",
    )
    grace: PositiveDuration = Field(
        default=as_written("2m"),
        description="How long a server runs at least after its stop by a limit was announced, also "
        "if nothing is left of the limit: what it costs meanwhile exceeds the limit.",
        examples=["10m"],
    )

    def limits(self) -> Limits:
        """As the hub decides by them."""
        every = self._bounds(self.user)
        scopes = {
            **{group_scope(name): self._bounds(each) for name, each in self.group.items()},
            **{project_scope(name): self._bounds(each) for name, each in self.project.items()},
            **{
                user_payer(name): replace(every, **each.written())
                for name, each in self.users.items()
            },
            HUB: self._bounds(self.hub),
        }
        return Limits(every, scopes, self.grace)

    def _bounds(self, words: BoundsConfig) -> Bounds:
        return replace(Bounds(at_limit=AtLimit(self.at_limit)), **words.written())


def limit_problems(limits: LimitsConfig, payers: PayersConfig) -> Iterator[tuple[str, str, str]]:
    """What is limited and can never pay: (option below `limits`, what is wrong, fix)."""
    known: Mapping[str, Mapping[str, object]] = {
        "group": dict.fromkeys(payers.group),
        "project": payers.project,
    }
    for kind, limited in (("group", limits.group), ("project", limits.project)):
        for name in limited:
            if name not in known[kind]:
                example = f'["{name}"]' if kind == "group" else f'{{"{name}": {{"users": [...]}}}}'
                yield (
                    f"{kind}.{name}",
                    f"no server is ever charged to this {kind}: it is not in c.EC2Spawner.payers",
                    f'c.EC2Spawner.payers = {{"{kind}": {example}}}'
                    if not known[kind]
                    else suggest(name, known[kind]),
                )
