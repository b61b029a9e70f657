"""A hub of a bench: the harness's, with a configuration of the bench's own."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from tests.bench.loop_monitor import Turn, read_turns
from tests.harness import ADMIN_TOKEN, TREE, Embedded, Hub


class BenchHub(Hub):
    """A JupyterHub whose event loop is watched."""

    def __init__(self, name: str, directory: Path, embedded: Embedded, config: Path) -> None:
        super().__init__(directory, embedded)
        self.name = name
        self.config = config
        self.loop_log = directory / "loop.jsonl"

    async def launch(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        demo = self.embedded.described | {
            "hub_url": self.url,
            "hub_api_bind_url": f"http://127.0.0.1:{self.api_port}",
            "proxy_api_url": f"http://127.0.0.1:{self.proxy_port}",
            "data_dir": str(self.directory),
            "admin_token": ADMIN_TOKEN,
        }
        environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(TREE),
            "BENCH_LOOP_LOG": str(self.loop_log),
            "EC2SPAWNER_DEMO": json.dumps(demo),
            "AWS_ACCESS_KEY_ID": "embedded",
            "AWS_SECRET_ACCESS_KEY": "embedded",
        }
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "jupyterhub",
                "--config",
                str(self.config),
                cwd=self.directory,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def turns(self, since: float, until: float) -> list[Turn]:
        """The loop's longer turns between two instants (seconds since the epoch), longest first."""
        turns = (turn for turn in read_turns(self.loop_log) if since <= turn.at <= until)
        return sorted(turns, key=lambda turn: turn.wall_ms, reverse=True)
