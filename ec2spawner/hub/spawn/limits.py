"""Why a limit refuses a start, for its user."""

from __future__ import annotations

from html import escape

from ...core.limits.admission import Obstacle
from ...core.limits.words import refusal_words
from ...provisioner.limits.admission import LimitReached
from ..app.spawn_error import SpawnError


def limit_error(error: LimitReached, contact: str) -> SpawnError:
    """The error of a start that is refused: what is left, until when, and who can raise it."""
    is_limit = error.refusal.obstacle is Obstacle.LIMIT
    words = limit_words_of(error, contact)
    return SpawnError(
        words,
        html=f'<span class="ec2-limit-error">{escape(words)}</span>' if is_limit else "",
        reason="limit" if is_limit else "price-unknown",
        log_message=str(error),
        status_code=403 if is_limit else 503,
    )


def limit_words_of(error: LimitReached, contact: str) -> str:
    """The same as a text."""
    return refusal_words(error.displayed, contact, error.bounds)
