"""`c.EC2Spawner.idle`, and what groups and profiles change of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from ...wire import IdlePolicy
from ..values import Duration, PositiveDuration, Words, as_written, listed, shown, wrong
from ..working_hours import EXAMPLE, WorkingHoursConfig

IdleHook = Callable[[Any, dict[str, Any]], Any]
"""Of the spawner and the policy as it would be, in an admin's words; sync or async."""


def _pair(value: object) -> object:
    listed(value)
    if isinstance(value, list | tuple) and len(value) != 2:
        wrong(f"{shown(value)} is no pair", 'write the shortest and the longest: ["15m", "8h"]')
    return value


class UserMaySet(Words):
    """What users may change of the policy for their own running server, and within which bounds."""

    server: Annotated[tuple[PositiveDuration, PositiveDuration], BeforeValidator(_pair)] = Field(
        description="The shortest and the longest idle limit `server`; never beyond `max_age`.",
        examples=[["15m", "8h"]],
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        shortest, longest = self.server
        if shortest > longest:
            wrong(f"its first, {shortest:g} s, is above its second, {longest:g} s", "swap them")
        return self


class IdleConfig(Words):
    """What counts as idle and what follows. A duration of 0 turns its rule off."""

    server: Duration = Field(
        default=as_written("1h"),
        description="Stop the server after it has been idle for this long.",
    )
    kernel: Duration = Field(
        default=as_written("2h"), description="Shut down a kernel that has been idle for this long."
    )
    warn: Duration = Field(
        default=as_written("10m"),
        description="Warn the user this long before the stop. Must be shorter than `server`.",
    )
    user_may_extend: Duration = Field(
        default=as_written("4h"),
        description="The longest that a user may postpone the stop, counted from the moment they "
        "ask.",
    )
    max_age: Duration = Field(
        default=as_written("0s"),
        description="Stop a server at this age, even if it is in use. 0, the default, is never.",
    )
    then: Literal["sleep", "stop"] = Field(
        default="sleep",
        description="What happens to the variables of an idle server's kernels. `sleep`: they are "
        "saved in the home before the stop, and the next start brings them back; see `sleep`. "
        "`stop`: they are lost. The same holds for stops at `max_age`, at a limit and over "
        "JupyterHub.",
    )
    gpu_busy_percent: float = Field(
        default=5.0, ge=0, le=100, description="GPU use that counts as work, in percent."
    )
    cpu_busy_percent: float = Field(
        default=20.0,
        ge=0,
        description=(
            "The user's programs are work when they use at least this much CPU, "
            "in percent of one core."
        ),
    )
    busy_without_work: Duration = Field(
        default=as_written("1d"),
        description="A kernel that runs a cell for this long while neither its processes nor a GPU "
        "do anything, such as one that waits for input, counts as idle from then on. With 0 it "
        "always counts as work.",
    )
    working_hours: WorkingHoursConfig | None = Field(
        default=None,
        description="Hours of the week with a different `server`.",
        examples=[{"when": EXAMPLE, "server": "3h"}],
    )
    user_may_set: UserMaySet | None = Field(
        default=None,
        description="What users may change for their own running server; nothing by default.",
        examples=[{"server": ["15m", "8h"]}],
    )

    @model_validator(mode="after")
    def _warning_comes_before_the_stop(self) -> Self:
        if {"server", "warn"} <= self.model_fields_set and 0 < self.server <= self.warn:
            wrong(
                f"warns {self.warn:g} s before a stop that comes after {self.server:g} s",
                'make "warn" shorter than "server"',
            )
        return self

    def changed_by(self, *overrides: IdleConfig) -> IdleConfig:
        """These words with what each override writes in their place, the last one last.

        Whoever writes `server` and no `working_hours` means it for all hours.
        """
        merged = self
        for override in overrides:
            written: dict[str, Any] = {
                name: getattr(override, name) for name in override.model_fields_set
            }
            if "server" in written:
                written.setdefault("working_hours", None)
            merged = merged.model_copy(update=written)
        return merged

    def policy(self) -> IdlePolicy:
        """The policy of these words."""
        shortest, longest = self.user_may_set.server if self.user_may_set else (0.0, 0.0)
        return IdlePolicy(
            server_seconds=self.server,
            kernel_seconds=self.kernel,
            warn_seconds=self.warn,
            user_may_extend_seconds=self.user_may_extend,
            max_age_seconds=self.max_age,
            then=self.then,
            gpu_busy_percent=self.gpu_busy_percent,
            cpu_busy_percent=self.cpu_busy_percent,
            silent_kernel_seconds=self.busy_without_work,
            working_hours=self.working_hours.hours() if self.working_hours else None,
            user_server_min_seconds=shortest,
            user_server_max_seconds=longest,
        )
