"""`ec2spawner load-test URL`: exit status 0 where all users did everything, 1 where something
failed, 2 for a wrong request, 3 where `--yes` was missing, 130 after Ctrl-C."""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from rich.console import Console

from ..terminal import complain, text
from . import samples
from .budget import Budget
from .health import HealthWatch
from .plan import Plan, PlanRefused, plan_of
from .price import Price
from .report import Report, failures, steps, times
from .report_table import print_report
from .run import INTERRUPTED, run
from .user.price_request import ask_price
from .user.session import StepFailed

FAILED: Final = 1
WRONG: Final = 2
WOULD_RUN: Final = 3
STOPPED: Final = 130

NEEDED: Final = ("locust", "websockets")


def run_load_test(arguments: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> int:
    """`ec2spawner load-test`; returns its exit status."""
    if any(find_spec(each) is None for each in NEEDED):
        complain("load-test", 'locust is missing. Fix: pip install "ec2spawner[load-test]"')
        return WRONG
    console = Console(stderr=arguments.json)
    try:
        plan = plan_of(arguments, environ)
        price = ask_price(plan.settings, plan.secret)
        require_price(plan, price)
    except (PlanRefused, StepFailed) as refused:
        complain("load-test", str(refused))
        return WRONG
    console.print(text(in_words(plan, price)))
    if not arguments.yes:
        complain("load-test", "add --yes to run it: on an AWS account these are real instances")
        return WOULD_RUN
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    report = _run(plan, price)
    if arguments.json:
        Console().print(text(report.model_dump_json()), soft_wrap=True)
    else:
        print_report(report, console)
    return status_of(report)


def status_of(report: Report) -> int:
    """0 all is well, 1 something failed, 130 stopped."""
    if report.ended_by == INTERRUPTED:
        return STOPPED
    return 0 if report.is_clean else FAILED


def require_price(plan: Plan, price: Price | None) -> None:
    """Raises `PlanRefused` where the budget cannot be held."""
    if plan.max_usd is None:
        return
    if price is None:
        raise PlanRefused(
            "the hub says no price of this profile, so --max-usd cannot be held. Fix: check "
            "--profile, or leave --max-usd out"
        )
    least = price.estimate(plan.arrival.users, plan.settings.seconds_used())
    if least > plan.max_usd:
        raise PlanRefused(
            f"{plan.arrival.users} servers in use for {plan.settings.seconds_used():.0f} s each "
            f"may cost ${least:.2f}, more than --max-usd={plan.max_usd:g}. Fix: fewer --users, "
            "less --idle, or more --max-usd"
        )


def in_words(plan: Plan, price: Price | None) -> str:
    """What is about to happen, and what it costs."""
    users, settings = plan.arrival.users, plan.settings
    name = f"{settings.prefix}-0001"
    who = f"{users} users ({name} and so on)" if users > 1 else f"1 user ({name})"
    first = (
        f"{who}: a server each at {settings.url}, started within {plan.arrival.seconds:.0f} s and "
        f"used for {settings.seconds_used():.0f} s."
    )
    if price is None:
        return f"{first} The hub says no price."
    each = f"${price.lowest:.3f} to ${price.highest:.3f}"
    most = price.estimate(users, settings.seconds_used())
    return (
        f"{first} An instance of {price.profile} costs {each} an hour, without disks: about "
        f"${most:.2f} for all of them, and their boots and stops."
    )


def _run(plan: Plan, price: Price | None) -> Report:
    from .clearing import clear  # websockets may be missing, see `NEEDED`

    with tempfile.TemporaryDirectory(prefix="ec2spawner-load-test-") as folder:
        settings = plan.settings.model_copy(update={"folder": folder})
        budget = Budget(Path(folder), price, plan.max_usd)
        with HealthWatch(settings.url) as health:
            reason = run(settings, plan.secret, plan.arrival, plan.html, budget.why_end)
            left = clear(settings, plan.secret)
        found = samples.read(Path(folder))
        return Report(
            users=plan.arrival.users,
            steps=steps(found),
            health=times(health.seconds, health.failures),
            failures=failures(found),
            estimated_usd=budget.spent_usd(),
            driver_busy=samples.driver_was_busy(Path(folder)),
            ended_by=reason,
            left=left,
        )
