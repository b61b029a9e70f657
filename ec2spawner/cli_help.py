"""What `ec2spawner --help` says of each command: one line, and examples."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill

SUMMARIES: Mapping[str, str] = {
    "demo": "the whole journey on this machine, with an embedded EC2 and no AWS account",
    "check": "prove that a hub's configuration will work, without starting or changing anything",
    "prices": "what each profile costs, by region, market and zone",
    "reap": "what a hub left in the account and nobody needs; ends it only with --yes",
    "gpu-check": "measure this machine's GPUs: are they as fast as they should be?",
}

EXAMPLES: Mapping[str, Mapping[str, str]] = {
    "demo": {
        "ec2spawner demo": "the hub on http://127.0.0.1:8000",
        "ec2spawner demo --port=0 --data-dir=demo": "any free port; homes stay in ./demo",
    },
    "check": {
        "ec2spawner check": "of ./jupyterhub_config.py",
        "ec2spawner check -f /etc/jupyterhub/jupyterhub_config.py": "of that file",
        "ec2spawner check --EC2Spawner.region=eu-west-1": "of a change before it is written",
        "ec2spawner check --json": "for a program; exit status 1 if something failed",
    },
    "prices": {
        "ec2spawner prices": "of the hub whose jupyterhub_config.py is here",
        "ec2spawner prices --region=us-east-1 --region=eu-west-1": "two regions side by side",
        "ec2spawner prices --latency": "and how far away each region is",
        "ec2spawner prices --defaults --csv > prices.csv": "the built-in profiles, for a sheet",
    },
    "reap": {
        "ec2spawner reap": "list what is left over; changes nothing",
        "ec2spawner reap --yes": "end it",
        "ec2spawner reap --older-than=60": "spare what is younger than an hour",
        "ec2spawner reap --json": "for a program; exit status 3 if something would end",
    },
    "gpu-check": {
        "ec2spawner gpu-check": "in a terminal on the instance",
        "ec2spawner gpu-check --short": "within three seconds",
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
    return "\n".join(lines if command == "gpu-check" else [*lines, "", OF_THE_HUB])
