"""A hub of a bench: the harness's, with a configuration of the bench's own."""

from __future__ import annotations

from pathlib import Path

from tests.bench.loop_monitor import Turn, read_turns
from tests.harness import TREE, Embedded, Hub


class BenchHub(Hub):
    """A JupyterHub whose event loop is watched."""

    def __init__(self, name: str, directory: Path, embedded: Embedded, config: Path) -> None:
        self.name = name
        self.loop_log = directory / "loop.jsonl"
        environment = {"PYTHONPATH": str(TREE), "BENCH_LOOP_LOG": str(self.loop_log)}
        super().__init__(directory, embedded, config=config, environment=environment)

    def turns(self, since: float, until: float) -> list[Turn]:
        """The loop's longer turns between two instants (seconds since the epoch), longest first."""
        turns = (turn for turn in read_turns(self.loop_log) if since <= turn.at <= until)
        return sorted(turns, key=lambda turn: turn.wall_ms, reverse=True)
