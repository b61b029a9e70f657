"""`python -m ec2spawner.embedded`: the embedded EC2 as a program, until SIGTERM or SIGINT."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import logging
import signal
import sys

from .server import BOOT_SECONDS, HUB_NAME, EmbeddedEC2, Facts


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 after a signal, 1 when it cannot start."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(_serve(options))
    except OSError as error:
        sys.stderr.write(f"embedded EC2: {error}\n")
        return 1
    return 0


async def _serve(options: argparse.Namespace) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    server = EmbeddedEC2(
        options.data_dir,
        port=options.port,
        hub_name=options.hub_name,
        boot_seconds=options.boot_seconds,
        terminated_visible_seconds=options.terminated_visible_seconds,
        lag_seed=options.lag_seed,
        lag_seconds=options.lag_seconds,
        rehearsals=options.rehearsals,
    )
    facts = await server.start()
    try:
        _announce(facts, as_json=options.json)
        await ended.wait()
    finally:
        await server.stop()


def _announce(facts: Facts, as_json: bool) -> None:
    in_words = (
        f"Embedded EC2, a simulation: {facts.ec2_endpoint} ({facts.region})\n"
        f"  AWS_ACCESS_KEY_ID={facts.aws_access_key_id}\n"
        f"  AWS_SECRET_ACCESS_KEY={facts.aws_secret_access_key}\n"
        "    (the hub's: it may do what configs/iam-policy.json allows)\n"
        f"  administrator's key {facts.admin_access_key_id} {facts.admin_secret_access_key}\n"
        f"  control token {facts.control_token}\n"
        f"  image {facts.image_id}\n"
        f"  subnets {', '.join(facts.subnets)}\n"
        f"  data in {facts.data_dir}\n"
        f"  --lag-seed {facts.lag_seed} repeats its read-after-write lags\n"
        "Ctrl-C ends it and every instance in it."
    )
    sys.stdout.write((json.dumps(dataclasses.asdict(facts)) if as_json else in_words) + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ec2spawner.embedded", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 (default) takes a free one")
    parser.add_argument("--data-dir", help="keeps volumes; default: a temporary directory")
    parser.add_argument(
        "--rehearsals",
        action="store_true",
        help="let the hub interrupt its spot servers on purpose, as after a deployment of "
        "configs/aws/interruptions.yaml",
    )
    parser.add_argument(
        "--hub-name",
        default=HUB_NAME,
        help="the hub whose resources the hub's key may change, as its c.EC2Spawner.hub_name; "
        "default: %(default)s",
    )
    parser.add_argument(
        "--boot-seconds", type=float, default=BOOT_SECONDS, help="default: %(default)s"
    )
    parser.add_argument(
        "--terminated-visible-seconds",
        type=float,
        default=60.0,
        help="how long terminated instances stay listed; default: %(default)s",
    )
    parser.add_argument(
        "--lag-seed", type=int, help="repeats the read-after-write lags; default: a random one"
    )
    parser.add_argument(
        "--lag-seconds", type=float, help="one read-after-write lag for everything; 0 is none"
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON when ready")
    return parser


if __name__ == "__main__":
    sys.exit(main())
