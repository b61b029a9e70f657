"""A failed start as JupyterHub shows it: text for REST and logs, HTML with links for pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...core.profiles.choices import ONCE
from ..app.spawn_error import SpawnError
from ..pages.jinja_environment import environment
from .start_failure import Action, ActionKind, StartFailure

Link = Callable[[Mapping[str, str]], str]
"""The address that starts the server with these user options."""


def spawn_error(failure: StartFailure, link: Link) -> SpawnError:
    """The exception that JupyterHub shows on every page and in REST (503)."""
    return SpawnError(
        as_text(failure), reason=failure.reason, html=as_html(failure, link), status_code=503
    )


def as_text(failure: StartFailure) -> str:
    """Message and actions in one line; stands by itself, without the page's links."""
    others, explained = _split(failure)
    parts = []
    if others:
        parts.append(f"You can start now: {'; '.join(action.label for action in others)}.")
    parts += [f"{each.label}: {each.consequence} Send {_option_of(each)}." for each in explained]
    message = failure.message
    if message and parts:
        message = f"{message.rstrip('. ')}."
    return " ".join(part for part in (message, *parts) if part)


def as_html(failure: StartFailure, link: Link) -> str:
    """The same with a link for each action; all text is escaped."""
    others, explained = _split(failure)
    return environment.get_template("ec2spawner/start_failure.html").render(
        message=failure.message,
        others=[(action, link(action.user_options)) for action in others],
        explained=[(action, link(action.user_options)) for action in explained],
    )


def _split(failure: StartFailure) -> tuple[list[Action], list[Action]]:
    others = [each for each in failure.actions if each.kind is ActionKind.START_OTHER]
    return others, [each for each in failure.actions if each.kind is not ActionKind.START_OTHER]


def _option_of(action: Action) -> str:
    """The option by which REST requests the action, such as `"move_home": "us-east-1b"`."""
    names = ("market",) if action.kind is ActionKind.WAIT_FOR_SPOT else ONCE
    once = ((name, action.user_options.get(name)) for name in names)
    return ", ".join(f'"{name}": "{value}"' for name, value in once if value)
