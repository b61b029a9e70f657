"""`%%cost` for a cell and `%cost` for now, in IPython and so in notebooks.

A cell with `%%cost` runs as any other: only its first line is taken out. So top-level `await`,
its last value, tracebacks and other magics work as they do without it.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from . import agent
from .block import track
from .current import Now, now
from .formatting import counted_workers, kind_of_amounts, money
from .line import Line

OPENING: Final = re.compile(r"\s*%%cost(?:[ \t]+(?P<name>[^\n]*))?(?:\n|$)")

NOT_A_BODY: Final = ("%%", "from __future__")
"""A cell that begins so runs inside the magic, without top-level `await`."""


class CostMagics:
    """The magics of one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._running: list[tuple[Any, track]] = []
        """Cells under way with their execution info, the innermost last."""

    def cost(self, line: str, cell: str | None = None) -> Any:
        """Show what code costs.

        `%cost` alone shows what this server has cost so far. `%cost CODE` runs the line and shows
        its cost. `%%cost [NAME]` shows the cost of the cell.
        """
        if cell is not None:
            block = track(line.strip()).__enter__()
            failed = self._shell.run_cell(cell)
            block.end(_name(failed.error_before_exec or failed.error_in_exec))
            return None
        if not line.strip():
            Line().show(_server(now(), agent.read().why))
            return None
        with track(line.strip()):
            return self._run(line)

    # IPython must not expand `{...}` in a line of code.
    cost._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]

    def _run(self, line: str) -> Any:
        """A line as IPython understands it, magics and `!` commands too, but for `await`."""
        shell = self._shell
        source = shell.transform_cell(line)
        name = shell.compile.cache(source)
        statements = shell.transform_ast(ast.parse(source, name)).body
        last = statements[-1] if statements else None
        value = statements.pop().value if isinstance(last, ast.Expr) else None
        spaces = shell.user_global_ns, shell.user_ns
        exec(shell.compile(ast.Module(statements, []), name, "exec"), *spaces)  # noqa: S102
        if value is None:
            return None
        return eval(shell.compile(ast.Expression(value), name, "eval"), *spaces)  # noqa: S307

    # --- a cell that begins with %%cost ---

    def without_opening(self, lines: list[str]) -> list[str]:
        """The cell as IPython compiles it: its first line is empty, and no line moves."""
        return ["\n", *lines[1:]] if _opening("".join(lines)) else lines

    def cell_begins(self, info: Any) -> None:
        """IPython's `pre_run_cell`: start measuring a cell that begins with `%%cost`."""
        if found := _opening(info.raw_cell):
            name = (found["name"] or "").strip()
            self._running.append((info, track(name).__enter__()))

    def cell_ended(self, result: Any) -> None:
        """IPython's `post_run_cell`: show the cost, also of a cell that failed."""
        places = [n for n, (info, _) in enumerate(self._running) if result and info is result.info]
        if not places:
            return
        _, block = self._running[places[-1]]
        del self._running[places[-1] :]  # with those whose end was never reported
        block.end(_name(result.error_before_exec or result.error_in_exec))


def load(shell: Any) -> None:
    """Register the magics, in place of those registered before."""
    unload(shell)
    magics = CostMagics(shell)
    shell.register_magic_function(magics.cost, "line_cell", "cost")
    shell.input_transformers_cleanup.append(magics.without_opening)
    shell.events.register("pre_run_cell", magics.cell_begins)
    shell.events.register("post_run_cell", magics.cell_ended)


def unload(shell: Any) -> None:
    """Remove the magics and their event handlers; does nothing if they are not loaded."""
    for kind in ("line", "cell"):
        magics = getattr(shell.magics_manager.magics[kind].pop("cost", None), "__self__", None)
    if not isinstance(magics, CostMagics):
        return
    shell.input_transformers_cleanup.remove(magics.without_opening)
    shell.events.unregister("pre_run_cell", magics.cell_begins)
    shell.events.unregister("post_run_cell", magics.cell_ended)


def _opening(cell: str) -> re.Match[str] | None:
    """The first line of a cell that is measured from outside; None for all others."""
    found = OPENING.match(cell)
    if found is None or cell[found.end() :].lstrip().startswith(NOT_A_BODY):
        return None
    return found


def _name(error: BaseException | None) -> str:
    return type(error).__name__ if error is not None else ""


def _server(cost: Now | None, why: str) -> str:
    """What `%cost` says."""
    if cost is None:
        return f"The cost of this server is unknown: {why}"
    if cost.usd is None:
        said = [f"The cost of this server so far is unknown: {why or 'a price is not known'}"]
    else:
        said = [f"This server has cost {money(cost.usd)} so far{_split(cost)}"]
    if cost.usd_per_hour is not None:
        market = f" ({cost.market})" if cost.market else ""
        said.append(_prices(cost, market))
    if cost.saved_usd is not None and cost.saved_usd > 0:
        said.append(f"{money(cost.saved_usd)} less than on demand")
    if cost.today_usd is not None:
        said.append(f"all your servers today {money(cost.today_usd)}")
    if cost.month_usd is not None:
        said.append(f"this month {money(cost.month_usd)}")
    has_amount = cost.usd is not None or len(said) > 1
    return "; ".join(said) + (f" ({kind_of_amounts(cost.estimate)})" if has_amount else "")


def _split(cost: Now) -> str:
    """` (server $1.20 + workers $3.40)`; empty where no worker has cost anything."""
    if cost.usd is None or not cost.workers_usd:
        return ""
    return f" (server {money(cost.usd - cost.workers_usd)} + workers {money(cost.workers_usd)})"


def _prices(cost: Now, market: str) -> str:
    """`$0.53/h (spot) + 2 workers $1.06/h`."""
    hourly, of_workers = cost.usd_per_hour or 0.0, cost.workers_usd_per_hour or 0.0
    own = f"{money(hourly - of_workers)}/h{market}"
    if not cost.workers:
        return own
    return f"{own} + {counted_workers(cost.workers)} {money(of_workers)}/h"
