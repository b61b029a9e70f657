"""Pages that are written from code at every build, before Sphinx reads the sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config


def extension(page: Path, render: Callable[[], str]) -> Callable[[Sphinx], dict[str, bool]]:
    """The `setup` of a Sphinx extension that writes what `render` returns to the page.

    An unchanged page is not touched, so that Sphinx does not read it again.
    """

    def write(_app: Sphinx, _config: Config) -> None:
        text = render()
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")

    def setup(app: Sphinx) -> dict[str, bool]:
        app.connect("config-inited", write)
        return {"parallel_read_safe": True, "parallel_write_safe": True}

    return setup
