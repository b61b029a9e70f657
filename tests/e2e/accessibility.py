"""axe-core in a page of the browser tests: what it finds that a person could not use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
RUN = """async (within, rules) => {
  const options = { resultTypes: ['violations'] };
  const found = await axe.run(within, rules.length ? { ...options, runOnly: rules } : options);
  return found.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, any, all, none }) =>
      `${id}: ${html.slice(0, 150)} ${[...any, ...all, ...none][0]?.message}`));
}"""
COLOURS = ("color-contrast", "link-in-text-block")
"""The rules whose results depend on the theme."""


async def is_accessible(page: Any) -> None:
    """A page of the hub, in the light and, as to its colours, in the dark."""
    await page.emulate_media(reduced_motion="reduce")  # no colour on its way to another
    for theme, rules in (("dark", COLOURS), ("light", ())):
        await page.evaluate(
            "theme => document.documentElement.setAttribute('data-bs-theme', theme)", theme
        )
        found = await violations(page, rules=rules)
        assert found == [], "\n".join(found)


def violations(page: Any, within: str = "body", rules: Sequence[str] = ()) -> Any:
    """Of these rules, or of WCAG A and AA and of axe's best practices; awaitable where the page is
    asynchronous."""
    assert AXE.exists(), "no axe-core here: `npm ci` in labextension installs it"
    return page.evaluate(
        f"async within => {{ {AXE.read_text()}\n return ({RUN})(within, {json.dumps(rules)}); }}",
        within,
    )
