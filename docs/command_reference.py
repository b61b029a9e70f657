"""The reference of the commands, written from their own command line at every build.

A Sphinx extension: before the sources are read it writes `reference/commands.md` from what
`ec2spawner.cli.command_line` says. The same code always gives the same page.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from generated_page import extension

from ec2spawner.cli import command_line

PAGE = Path(__file__).parent / "reference" / "commands.md"

INTRODUCTION = """\
# Commands

Generated from the command line itself. `ec2spawner COMMAND --help` says the same.

Commands that read a hub's configuration pass unknown options to JupyterHub, such as
`--EC2Spawner.region=eu-west-1`: they override the file.
"""

SEE: dict[str, str] = {
    "demo": "See [Getting started](../getting-started.md).",
    "check": "See [Check a configuration](../how-to/check.md), with the exit statuses.",
    "first-light": "See [Try a configuration on a real account](../how-to/first-light.md), with "
    "the exit statuses.",
    "prices": "See [Prices and discounts](../how-to/prices.md), with the exit statuses.",
    "plan": "See [Plan a class](../how-to/plan.md), with the exit statuses.",
    "reap": "See [What is left over](../how-to/operate.md#what-is-left-over-ec2spawner-reap), with "
    "the exit statuses.",
    "report": "See [Report costs](../how-to/report.md), with the exit statuses.",
    "interrupt": "See [Rehearse an interruption]"
    "(../how-to/interruptions.md#rehearse-an-interruption), with the exit statuses.",
    "pool": "See [The warm pool](../how-to/warm-pool.md#set-it-by-hand). It needs a token in "
    "`JUPYTERHUB_API_TOKEN` of a person who may see the page *Instances*.",
    "load-test": "See [Load test](../how-to/load-test.md), with the exit statuses.",
    "run": "See [Run a notebook to completion](../how-to/runs.md#from-a-terminal). Exit status 0 "
    "where it was submitted, or with `--wait` where all have succeeded; 1 where the hub refused or "
    "a run did not succeed; 2 for a wrong request.",
    "runs": "See [Run a notebook to completion](../how-to/runs.md#from-a-terminal).",
    "gpu-check": "See [GPU check](../how-to/gpu-check.md), with the exit statuses.",
}
"""Command -> the page that explains it."""


def render() -> str:
    """The page."""
    return "\n".join([INTRODUCTION, *(_section(*each) for each in commands())])


def commands() -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Name, purpose and parser of each command."""
    parser = command_line()
    # argparse has no public way to list them.
    [subparsers] = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    purposes = {action.dest: action.help or "" for action in subparsers._choices_actions}
    for name, command in subparsers.choices.items():
        yield name, purposes[name], command


def options(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a command takes, without `--help`."""
    return [each for each in command._actions if not isinstance(each, argparse._HelpAction)]


def _section(name: str, purpose: str, command: argparse.ArgumentParser) -> str:
    rows = [
        f"| `{_written(action)}` | {_default(action)} | {_help(command, action)} |"
        for action in options(command)
    ]
    sentence = purpose[0].upper() + purpose[1:]
    parts = [f"## `ec2spawner {name}`", "", sentence if sentence[-1] in ".?" else f"{sentence}."]
    if name in SEE:
        parts += ["", SEE[name]]
    epilog = ["```text", command.epilog.strip(), "```", ""] if command.epilog else []
    return "\n".join(
        [*parts, "", "| option | default | what |", "|---|---|---|", *rows, "", *epilog]
    )


def _written(action: argparse.Action) -> str:
    """`-f CONFIG`, `--config CONFIG`, as one types it."""
    if not action.option_strings:
        return action.metavar if isinstance(action.metavar, str) else action.dest
    if action.nargs == 0:
        return ", ".join(action.option_strings)
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return ", ".join(f"{each} {value}" for each in action.option_strings)


def _default(action: argparse.Action) -> str:
    if action.nargs == 0 or action.default in (None, "", []):
        return ""
    default = action.default
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


def _help(command: argparse.ArgumentParser, action: argparse.Action) -> str:
    """As `--help` shows it, for a cell of a table."""
    text = command._get_formatter()._expand_help(action)
    return re.sub(r" \(default: [^)]*\)", "", text).replace("|", "\\|")


setup = extension(PAGE, render)
