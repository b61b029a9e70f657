"""Summary and examples of each command, as `ec2spawner --help` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill

SUMMARIES: Mapping[str, str] = {
    "demo": "run JupyterHub with an embedded EC2 on this machine, without an AWS account",
    "check": "verify a hub's configuration without starting or changing anything",
    "first-light": "try a configuration on a real account: start, use, stop and delete a server",
    "prices": "compare the prices of each profile by region, market and zone",
    "plan": "say whether a class can start at once, what it costs and how long starts take",
    "reap": "list what a hub left over in the account; delete it with --yes",
    "report": "report what was spent, by whom and for what, or how long starts took",
    "interrupt": "rehearse a spot interruption of a server: do what AWS does",
    "pool": "show the warm pool of a running hub, and set it by hand",
    "load-test": "let simulated users start and use servers of a hub; report how long it takes",
    "run": "run a notebook or script to completion on an instance of its own",
    "runs": "list, show and cancel your runs, and read their results",
    "gpu-check": "compare the speed of this machine's GPUs with their datasheets",
}

EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "demo": {
        "ec2spawner demo": "serve the hub on http://127.0.0.1:8000",
        "ec2spawner demo --port=0 --data-dir=demo": "use any free port; keep homes in ./demo",
    },
    "check": {
        "ec2spawner check": "check ./jupyterhub_config.py",
        "ec2spawner check -f /etc/jupyterhub/jupyterhub_config.py": "check that file",
        "ec2spawner check --EC2Spawner.region=eu-west-1": "check a change in advance",
        "ec2spawner check --json": "for programs; exit status 1 if something failed",
        "ec2spawner check --fix": "offer to fix what is safe and free to fix",
    },
    "first-light": {
        "ec2spawner first-light": "without a GPU, for a few cents; never more than $1",
        "ec2spawner first-light --gpu --max-usd=2": "also the cheapest GPU",
        "ec2spawner first-light --json": "for programs; exit status 1 if a step failed",
    },
    "prices": {
        "ec2spawner prices": "use the profiles of ./jupyterhub_config.py",
        "ec2spawner prices --region=us-east-1 --region=eu-west-1": "compare two regions",
        "ec2spawner prices --latency": "also measure the latency of each region",
        "ec2spawner prices --defaults --csv > prices.csv": "the built-in profiles, as CSV",
    },
    "plan": {
        "ec2spawner plan --profile=t4 --users=40 --at=09:00": "a class tomorrow at nine",
        "ec2spawner plan --profile=t4 --users=40 --hours=4": "now, for four hours",
        "ec2spawner plan --profile=t4 --users=40 --json": "for programs; exit status 1 if "
        "something is short",
        "ec2spawner plan --profile=t4 --users=40 --rehearse=5 --hub=https://hub.example.org": "and "
        "start five servers for real, stop them, and report times and cost; needs an admin's token "
        "in JUPYTERHUB_API_TOKEN",
        "ec2spawner plan --rehearse=0 --hub=https://hub.example.org": "remove what a rehearsal "
        "that was killed has left",
    },
    "reap": {
        "ec2spawner reap": "list what is left over; changes nothing",
        "ec2spawner reap --yes": "delete it",
        "ec2spawner reap --older-than=60": "keep what is younger than an hour",
        "ec2spawner reap --json": "for programs; exit status 3 if something would be deleted",
    },
    "report": {
        "ec2spawner report": "this month by user",
        "ec2spawner report --from=2026-10-01 --to=2026-10-31 --by=group,profile": "last month",
        "ec2spawner report --by=day,user --csv > costs.csv": "for a spreadsheet",
        "ec2spawner report --html > report.html": "a page to attach to a mail",
        "ec2spawner report --starts --profile=t4": "how long starts took, phase by phase",
        "ec2spawner report --reconcile --bill=s3://bucket/exports/hub": "against the bill",
    },
    "interrupt": {
        "ec2spawner interrupt ann --hub=https://hub.example.org": "say what would be interrupted",
        "ec2spawner interrupt ann --hub=https://hub.example.org --yes": "interrupt it",
        "ec2spawner interrupt ann/training --yes": "a named server, in a terminal of a server",
        "ec2spawner interrupt ann --notice-seconds=300 --yes": "with an early warning by AWS",
    },
    "pool": {
        "ec2spawner pool --hub=https://hub.example.org": "how it stands, and why",
        "ec2spawner pool set t4 5 --until=18:00": "five wait until then, on a server of the hub",
        "ec2spawner pool clear t4": "the configuration holds again",
    },
    "load-test": {
        "ec2spawner load-test http://127.0.0.1:8000 --password-file=password": (
            "say what would start, and what it costs"
        ),
        "ec2spawner load-test http://127.0.0.1:8000 --users=40 --at-once --yes": (
            "40 in the same second"
        ),
        "ec2spawner load-test https://hub.example.org --token-file=token --max-usd=5 --yes": (
            "with an admin's token; starts real instances"
        ),
        "ec2spawner load-test http://127.0.0.1:8000 --json --yes": (
            "for programs; exit status 1 if something failed"
        ),
    },
    "run": {
        "ec2spawner run train.ipynb --profile a10g": "in a terminal of your server",
        "ec2spawner run train.ipynb --profile a10g -p lr 0.1 -p name test --max-usd 5": "with "
        "parameters, and a cap for its cost",
        "ec2spawner run train.py --profile a10g --params grid.csv --at-once 8": "an array: one run "
        "for each line of the file",
        "ec2spawner run train.ipynb --profile a10g --deadline 8h --wait": "show its progress; exit "
        "status 1 unless it succeeded",
    },
    "runs": {
        "ec2spawner runs": "those of this server",
        "ec2spawner runs --hub=https://hub.example.org": "all of yours, with a token of yours",
        "ec2spawner runs show 12": "state, progress and cost of one",
        "ec2spawner runs cancel 12": "a run, or an array by its first number",
        "ec2spawner runs result 12 --to so-far.ipynb": "the executed notebook so far, or the log",
        "ec2spawner runs table 12 --csv > grid.csv": "an array with parameters and costs",
    },
    "gpu-check": {
        "ec2spawner gpu-check": "run it in a terminal on the instance",
        "ec2spawner gpu-check --short": "finish within three seconds",
    },
}

WIDTH = 78
"""Columns of the sentence above a command's options; argparse breaks the rest by itself."""

OF_THE_HUB = "Other options go to JupyterHub, such as --EC2Spawner.region=eu-west-1."


def description(command: str) -> str:
    """The sentence above a command's options, wrapped to `WIDTH` columns."""
    summary = SUMMARIES[command]
    said = summary[0].upper() + summary[1:]
    return fill(said if said.endswith("?") else f"{said}.", WIDTH)


def epilog(command: str) -> str:
    """Examples, one below the other, with a line of what each does."""
    lines = ["examples:"]
    for example, does in EXAMPLES[command].items():
        lines += [f"  {example}", f"      {does}"]
    without = ("gpu-check", "interrupt", "load-test", "pool", "run", "runs")
    return "\n".join(lines if command in without else [*lines, "", OF_THE_HUB])
