"""An admin who types `ec2spawner` commands beside the demo's configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.forked_command import Ended, run_command
from tests.harness import CONFIG, OF_EACH_HUB, Embedded, free_ports
from tests.nursery import ForkedProcess

COMMAND = "from ec2spawner.cli import main; raise SystemExit(main())"

QUICK_FIRST_LIGHT = """
import sys
from ec2spawner import iri_grammar
iri_grammar.defer()
from ec2spawner.cli import parse
from ec2spawner.first_light.cleanup import Waits
from ec2spawner.first_light.command import run_first_light
waits = Waits(settled=1.0, unsettled=5.0, pause=0.5)
raise SystemExit(run_first_light(*parse(["first-light", *sys.argv[1:]]), waits))
"""
"""Waits for as long as the embedded EC2's listings may lag, instead of EC2's."""


class Admin:
    """Types `ec2spawner ...` where the demo's configuration can be read."""

    def __init__(self, embedded: Embedded, directory: Path) -> None:
        self.embedded = embedded
        self.directory = directory
        self.hub_port, self.api_port, self.proxy_port = free_ports(3)

    @property
    def demo(self) -> dict[str, Any]:
        return self.embedded.described | {
            "hub_url": f"http://127.0.0.1:{self.hub_port}",
            "hub_api_bind_url": f"http://127.0.0.1:{self.api_port}",
            "proxy_api_url": f"http://127.0.0.1:{self.proxy_port}",
            "data_dir": str(self.directory),
            **OF_EACH_HUB,
        }

    async def types(
        self,
        *arguments: str,
        environment: Mapping[str, str | None] | None = None,
        demo: Mapping[str, Any] | None = None,
        on_start: Callable[[ForkedProcess], None] = lambda process: None,
        program: str = COMMAND,
    ) -> Ended:
        """Run to the end. An environment variable of None is absent."""
        variables: dict[str, str | None] = {
            **os.environ,
            "EC2SPAWNER_DEMO": json.dumps({**self.demo, **(demo or {})}),
            **self.embedded.credentials,
            "XDG_STATE_HOME": str(self.directory / "state"),
            "COLUMNS": "200",
            **(environment or {}),
        }
        given = {name: value for name, value in variables.items() if value is not None}
        return await run_command(program, arguments, given, self.directory, on_start)

    async def checks(self, *arguments: str, **how: Any) -> Ended:
        return await self.types("check", f"--config={CONFIG}", "--json", *arguments, **how)

    async def tries(self, *arguments: str, **how: Any) -> Ended:
        """`ec2spawner first-light`, as quick as the embedded EC2 allows."""
        quick = (f"--config={CONFIG}", "--idle=10", "--json")
        return await self.types(*quick, *arguments, program=QUICK_FIRST_LIGHT, **how)
