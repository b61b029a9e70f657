"""Options that are valid alone, and impossible together. Pure."""

from .contradictions import impossible

__all__ = ["impossible"]
