"""`python -m tests.bench NAME [--short] [--json] [--starts N]`, from the root of the tree.

Of `kill` besides: `--list` names its points, `--only TEXT` takes those with TEXT in their names;
of `faults`, `--only EXPRESSION` takes the cells whose names it matches somewhere: they are as in
`stop: TerminateInstances, hang, once`; of `scale` and `cluster`, `--only TEXT` takes the parts with
TEXT in their names. `widget --no-peers` installs nothing.

Exit status 0 when everything was measured, whether goals are met or not; 1 when it could not be.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from tests.bench import interruption, offers, proof, spawn
from tests.bench.bench_hub import StartFailedError
from tests.bench.cluster import bench as cluster
from tests.bench.faults import bench as faults
from tests.bench.figures import Result
from tests.bench.kill import bench as kill
from tests.bench.scale import bench as scale
from tests.bench.widget import bench as widget

BENCHES: dict[str, Callable[..., Result]] = {
    "cluster": cluster.run,
    "faults": faults.run,
    "interruption": interruption.run,
    "kill": kill.run,
    "offers": offers.run,
    "proof": proof.run,
    "scale": scale.run,
    "spawn": spawn.run,
    "widget": widget.run,
}


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    if options.bench != "widget" and shutil.which("configurable-http-proxy") is None:
        sys.stderr.write("configurable-http-proxy is not on PATH: `make bench` puts it there\n")
        return 1
    # Hubs and EC2s have sessions of their own: a bench that is just ended would leave them.
    signal.signal(signal.SIGTERM, _as_ctrl_c)
    # With --json the table is for people, and standard output for programs.
    console = Console(stderr=options.json)
    run = BENCHES[options.bench]
    if options.bench == "kill":
        run = partial(kill.run, only=options.only, listing=options.list)
    if options.bench == "faults":
        run = partial(faults.run, only=options.only)
    if options.bench == "cluster":
        run = partial(cluster.run, only=options.only)
    if options.bench == "scale":
        run = partial(scale.run, only=options.only)
    if options.bench == "widget":
        run = partial(widget.run, peers=options.peers)
    try:
        result = run(options.starts, options.short, console)
    except StartFailedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if options.list:
        return 0
    console.print(_goals_table(result))
    if options.json:
        print(result.line())
    return 0


def _as_ctrl_c(*_: object) -> None:
    """SIGTERM ends what a bench has started, as Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("bench", metavar="NAME", choices=sorted(BENCHES), help=", ".join(BENCHES))
    parser.add_argument("--short", action="store_true", help="few starts, for a quick look")
    parser.add_argument(
        "--starts",
        type=_count,
        metavar="N",
        help="starts of each hub; of `cluster`, repetitions; of `offers`, hubs; of `kill` and "
        "`faults`, hubs at once; of `proof`, repetitions; of `scale`, starts at once; of `widget`, "
        "kernels",
    )
    parser.add_argument("--list", action="store_true", help="of `kill`: name its points")
    parser.add_argument(
        "--only",
        default="",
        metavar="TEXT",
        help="of `cluster`, `kill`, `faults`, `scale`: only such",
    )
    parser.add_argument(
        "--no-peers", dest="peers", action="store_false", help="of `widget`: ours alone"
    )
    parser.add_argument("--json", action="store_true", help="the figures as the last line")
    return parser


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("at least one start")
    return count


def _goals_table(result: Result) -> Table:
    table = Table("figure", "", "goal", "")
    met = result.met
    for name, figure in result.figures.items():
        value = "unknown" if figure is None else f"{figure:.3g}"
        verdict = "" if name not in met else "met" if met[name] else "missed"
        table.add_row(name, value, str(result.goals.get(name, "")), verdict)
    return table


if __name__ == "__main__":
    sys.exit(main())
