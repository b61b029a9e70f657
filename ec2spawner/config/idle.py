"""`c.EC2Spawner.idle`, and what a profile changes of it."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from ..wire import IdlePolicy
from .values import Duration, Words, as_written, wrong


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
        description="The furthest a user may push the stop away, counted from the moment they ask.",
    )
    max_age: Duration = Field(
        default=as_written("0s"),
        description="Stop a server at this age, whatever it is doing. 0, the default, is never.",
    )
    gpu_busy_percent: float = Field(
        default=5.0, ge=0, le=100, description="A GPU used at least this much, in percent, is work."
    )
    cpu_busy_percent: float = Field(
        default=20.0,
        ge=0,
        description=(
            "The user's processes are work when they use at least this much CPU, "
            "in percent of one core."
        ),
    )

    @model_validator(mode="after")
    def _warning_comes_before_the_stop(self) -> Self:
        if {"server", "warn"} <= self.model_fields_set and 0 < self.server <= self.warn:
            wrong(
                f"warns {self.warn:g} s before a stop that comes after {self.server:g} s",
                'make "warn" shorter than "server"',
            )
        return self

    def policy(self, override: IdleConfig | None = None) -> IdlePolicy:
        """The policy of these words, with what the override sets in its place.

        A warning time that is no shorter than the stop's becomes half of it: a profile that
        shortens `server` need not think of `warn`.
        """
        override_set = override.model_dump(exclude_unset=True) if override else {}
        idle = self.model_copy(update=override_set)
        warn = idle.warn if not idle.server or idle.warn < idle.server else idle.server / 2
        return IdlePolicy(
            server_seconds=idle.server,
            kernel_seconds=idle.kernel,
            warn_seconds=warn,
            user_may_extend_seconds=idle.user_may_extend,
            max_age_seconds=idle.max_age,
            gpu_busy_percent=idle.gpu_busy_percent,
            cpu_busy_percent=idle.cpu_busy_percent,
        )
