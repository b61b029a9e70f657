"""Sizes in bytes as people read them. Pure."""

from __future__ import annotations

_UNITS = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3))


def in_words(size_bytes: float) -> str:
    """`3.1 GB`, `40 MB`, `512 bytes`: decimal units, two digits where one is not enough."""
    for unit, length in _UNITS:
        # What rounds up to 1000 of a unit is 1 of the next: 999,950 bytes are "1 MB".
        if size_bytes >= 0.9995 * length:
            number = size_bytes / length
            text = f"{number:.1f}" if number < 9.95 and unit in ("TB", "GB") else f"{number:.0f}"
            return f"{text.removesuffix('.0')} {unit}"
    return f"{size_bytes:.0f} byte{'' if round(size_bytes) == 1 else 's'}"
