"""A report on starts in a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from ... import terminal
from ...core.starts.phases import Phase
from ...core.starts.summary import Distribution, GroupOfStarts
from ...provisioner.store.read_only import SlowStart
from .contents import StartReport, parts_of


def print_starts(report: StartReport, console: Console) -> None:
    """A table of phases for each profile and market, and the slowest starts."""
    scope = report.scope
    title = f"{scope.hub}: starts from {scope.since} to {scope.until} ({scope.time_zone})"
    console.print(terminal.text(title, "bold"))
    if not report.groups:
        console.print(terminal.text("No start was measured in this period."))
        return
    for group in report.groups:
        console.print()
        console.print(terminal.text(headline(group, report.profile_names), "bold cyan"))
        if group.total is not None:
            console.print(Padding(_table(group, group.total), (0, 0, 0, 2)))
    if report.slowest:
        console.print()
        console.print(terminal.text("Slowest starts", "bold"))
        for slow in report.slowest:
            console.print(Padding(terminal.text(slow_words(slow)), (0, 0, 0, 2)))


def headline(group: GroupOfStarts, profile_names: Mapping[str, str]) -> str:
    """`T4 (t4), spot: 412 starts, 400 ready, 12 sold-out; boot takes 61 % of the time`."""
    known, slug = profile_names.get(group.profile), group.profile
    name = f"{f'{known} ({slug})' if known else slug}, {group.market or 'nothing bought'}"
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in group.outcomes.items())
    said = f"{name}: {group.count:,} {'start' if group.count == 1 else 'starts'}, {outcomes}"
    if group.dominant is not None:
        said += f"; {group.dominant} takes {percent(group.share(group.dominant))} of the time"
    if group.replaced:
        said += f"; {group.replaced:,} lost an instance first"
    return said


def slow_words(slow: SlowStart) -> str:
    """One of the slowest starts: when, whose, how long, and its longest phases."""
    start = slow.start
    known = [(each, phase) for phase, each in zip(Phase, start.seconds, strict=True) if each]
    longest = sorted(known, key=lambda each: -each[0])[:3]
    parts = ", ".join(f"{phase} {seconds(each)}" for each, phase in longest)
    whose = f"{slow.user}/{slow.server}" if slow.server else slow.user
    lost = f", of that {seconds(start.lost)} for instances that were lost" if start.lost else ""
    return (
        f"{slow.requested_at:%Y-%m-%d %H:%M} UTC  {seconds(start.total)}  {whose}, "
        f"{start.profile}, {start.market}, {slow.instance_id}: {parts}{lost}"
    )


def seconds(value: float) -> str:
    """`0.04 s`, `4.2 s`, `128 s`."""
    if value < 1:
        return f"{value:.2f} s"
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"


def percent(share: float) -> str:
    """`61 %`."""
    return f"{100 * share:.0f} %"


def _table(group: GroupOfStarts, total: Distribution) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("phase")
    for name in ("median", "95th percentile", "share", "starts"):
        table.add_column(name, justify="right")
    for phase in parts_of(group):
        found = group.phases[phase]
        style = "yellow" if phase is group.dominant else ""
        table.add_row(*_row(phase, found, percent(group.share(phase))), style=style)
    table.add_row(*_row("total", total, ""), style="bold")
    return table


def _row(name: str, found: Distribution, share: str) -> list[str]:
    return [name, seconds(found.median), seconds(found.p95), share, f"{found.count:,}"]
