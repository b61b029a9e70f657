"""What a rehearsal has seen so far."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Course:
    """What a rehearsal has seen so far."""

    ready: dict[str, float] = field(default_factory=dict)
    """User -> seconds from the request until the server was ready."""
    failed: dict[str, str] = field(default_factory=dict)
    """User -> why it did not start."""
    is_stopping: bool = False
    """Everything is being stopped."""
    is_interrupted: bool = False
    """Somebody has asked to end it."""
    stop_seconds: float | None = None
    """From the first stop until the last instance was gone; None where that was not seen."""
    left: dict[str, str] = field(default_factory=dict)
    """User or instance -> why it is still there."""
