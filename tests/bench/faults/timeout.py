"""How long a failing AWS may keep people waiting: the documented bounds, and a hub in a hurry.

`HubTimeouts` has what the hub's limits are made of; `BOUNDS` says of what each wait consists. The
table in docs/reference/aws-faults.md is written with `HubTimeouts.of_the_hub`, the bench measures
with `HURRIED`, by the same sums.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from ec2spawner.aws.calls.client import Timeouts
from ec2spawner.core.instances.leaks import verdict
from ec2spawner.core.offers import sold_out


@dataclass(frozen=True, slots=True)
class HubTimeouts:
    """Seconds."""

    call: float
    """One call to AWS with its repetitions."""
    launch_call: float
    """One launch, its launch template included."""
    launch: float
    """For so long a launch that is throttled or not answered is repeated."""
    attach_call: float
    """One attempt to attach a home."""
    attach: float
    """For so long attempts to attach a home are begun."""
    grow: float
    """For so long a home that grows is looked at."""
    boot_log: float
    """For the boot log of a machine that ended before its server was ready."""
    start: float
    """`c.EC2Spawner.start_timeout`."""
    stop: float
    """`c.EC2Spawner.stop_timeout`, and what detaching and terminating get beyond it."""
    click: float
    """A click while AWS has not answered since the hub's start."""
    command: float
    """A command of `ec2spawner`."""

    @staticmethod
    def of_the_hub() -> HubTimeouts:
        """The hub's defaults."""
        from ec2spawner import spawner
        from ec2spawner.aws.storage import volumes
        from ec2spawner.check import run
        from ec2spawner.provisioner.homes import volumes as homes
        from ec2spawner.provisioner.instances import boot_logs
        from ec2spawner.provisioner.launch import fleet_calls
        from ec2spawner.provisioner.model import settings

        usual = settings.Settings(hub="", region="", subnets=())
        return HubTimeouts(
            call=Timeouts().total,
            launch_call=fleet_calls.LAUNCH_TIMEOUT,
            launch=usual.launch_timeout,
            attach_call=volumes.ATTACH_SECONDS,
            attach=homes.ATTACH_TIMEOUT,
            grow=volumes.GROW_SECONDS,
            boot_log=boot_logs.BOOT_LOG_SECONDS,
            start=float(spawner.EC2Spawner().start_timeout),
            stop=usual.stop_timeout + spawner.STOP_MARGIN,
            click=spawner.CLICK_TIMEOUT,
            command=run.TIMEOUT,
        )


SLOWNESS_VARIABLE: Final = "BENCH_SLOWNESS"


def _slowness() -> float:
    """How much slower than by itself this machine is while others keep it busy.

    The environment says so, or it is guessed from the load at the beginning (1 to 4); hubs inherit
    it. All limits and deadlines of the bench are multiplied by it: one that a mere queue for a core
    exceeds shows no fault.
    """
    by_itself = 2 * len(os.sched_getaffinity(0))
    guessed = min(4.0, max(1.0, os.getloadavg()[0] / by_itself))
    return float(os.environ.setdefault(SLOWNESS_VARIABLE, f"{guessed:.2f}"))


SLOWNESS: Final = _slowness()

PLAIN: Final = "plain"
KEPT: Final = "kept"
"""Slugs: a profile whose machines end at a stop, and one whose machines are stopped and kept."""

STOP_TIMEOUT: Final = 5.0
STOP_MARGIN: Final = 6.0 * SLOWNESS
BUSY_INTERVAL: Final = 0.3
QUIET_INTERVAL: Final = 0.4
MARKED_FOR: Final = timedelta(seconds=2)
LISTING_GRACE: Final = timedelta(seconds=5 * SLOWNESS)
REAP_GRACE: Final = 0.5
REAP_INTERVAL: Final = 1.0
REAPS: Final = "BENCH_REAPS"
"""In the environment of a hub that looks every `REAP_INTERVAL` for what is left over. Others look
once, as they begin: what they list is not another scene's."""

HURRIED: Final = HubTimeouts(
    call=8.0 * SLOWNESS,
    launch_call=6.0 * SLOWNESS,
    launch=5.0 * SLOWNESS,
    attach_call=4.0 * SLOWNESS,
    attach=6.0 * SLOWNESS,
    grow=4.0 * SLOWNESS,
    boot_log=3.0 * SLOWNESS,
    start=30.0 * SLOWNESS,
    stop=STOP_TIMEOUT + STOP_MARGIN,
    click=2.0,
    command=25.0 * SLOWNESS,
)
"""Of the bench's hub: the same limits, so short that a call that hangs costs little."""

TIMEOUTS: Final = Timeouts(
    connect=2.0 * SLOWNESS,
    read=2.5 * SLOWNESS,
    launch_read=5.0 * SLOWNESS,
    total=HURRIED.call,
)


@dataclass(frozen=True, slots=True)
class Bound:
    """How long somebody waits at most, beside what a start or a stop takes anyway."""

    wait: str
    """What is waited for."""
    seconds: Callable[[HubTimeouts], float]
    then: str
    """What follows."""


BOUNDS: Final = {
    "begin": Bound(
        "the hub's start, refused",
        lambda p: p.call,
        "the hub ends and says what AWS refused",
    ),
    "click": Bound(
        "a click while AWS has not answered since the hub's start",
        lambda p: p.click,
        "the user is asked to try again; the hub keeps trying",
    ),
    "image": Bound(
        "a start that needs the image looked up",
        lambda p: 2 * p.call,
        "the start fails with a message",
    ),
    "launch": Bound(
        "an instance, while launches are throttled or not answered",
        lambda p: p.launch + p.launch_call,
        "the start fails with a message; instances that may have been launched are found and "
        "terminated",
    ),
    "home": Bound(
        "a home",
        lambda p: 2 * p.call + p.attach + p.attach_call,
        "the start fails with a message, and the instance is released",
    ),
    "growth": Bound(
        "a home that has to grow",
        lambda p: p.call + p.grow,
        "the start continues with the home as it is; a later start grows it",
    ),
    "boot log": Bound(
        "the boot log of an instance that ended before its server was ready",
        lambda p: p.boot_log,
        "the start fails with a message, without the log",
    ),
    "start": Bound(
        "a start, whatever fails: also while instances cannot be listed",
        lambda p: p.start,
        "the start fails with a message, and the instance is released",
    ),
    "stop": Bound(
        "a stop",
        lambda p: p.stop,
        "the server is stopped for its user; its instance is terminated as soon as AWS allows it",
    ),
    "background": Bound(
        "prices, reservations, instance types, tags, old templates",
        lambda p: 0.0,
        "no user waits for these; the last known values are used, with their age",
    ),
    "command": Bound(
        "`ec2spawner check`, and each region of `ec2spawner prices`",
        lambda p: p.command,
        "the calls that failed are named",
    ),
}


BOUND_OF: Final = {
    "AttachVolume": "home",
    "CreateSnapshot": "start",
    "CreateFleet": "launch",
    "CreateLaunchTemplate": "launch",
    "CreateVolume": "home",
    "DescribeImages": "image",
    "DescribeInstances": "start",
    "DescribeSnapshots": "start",
    "DescribeVolumes": "home",
    "GetConsoleOutput": "boot log",
    "GetParameter": "image",
    "ModifyVolume": "growth",
    "StartInstances": "start",
}
"""Action -> the bound of a start that needs it. A start waits for no other."""


def bound_of_start(action: str) -> float:
    """Seconds beyond a usual start, in the bench."""
    return BOUNDS[BOUND_OF.get(action, "background")].seconds(HURRIED)


def bounds_table(timeout: HubTimeouts) -> str:
    """The table of the documentation."""
    rows = ["| waiting for | at most | then |", "|---|---|---|"]
    for bound in BOUNDS.values():
        seconds = bound.seconds(timeout)
        rows.append(f"| {bound.wait} | {f'{seconds:g} s' if seconds else '-'} | {bound.then} |")
    return "\n".join(rows)


# --- a hub in a hurry ------------------------------------------------------------------------

CONSTANTS: Final[tuple[tuple[str, str, object], ...]] = (
    ("ec2spawner.aws.storage.volumes", "ATTACH_SECONDS", HURRIED.attach_call),
    ("ec2spawner.aws.storage.volumes", "GROW_SECONDS", HURRIED.grow),
    ("ec2spawner.spawner", "STOP_MARGIN", STOP_MARGIN),
    ("ec2spawner.provisioner.homes.volumes", "ATTACH_TIMEOUT", HURRIED.attach),
    ("ec2spawner.provisioner.launch.fleet_calls", "LAUNCH_TIMEOUT", HURRIED.launch_call),
    ("ec2spawner.provisioner.reconciler", "PASS_INTERVAL", 1.0),
    ("ec2spawner.core.homes.zone_migration", "LISTING_GRACE", LISTING_GRACE),
    ("ec2spawner.provisioner.instances.boot_logs", "BOOT_LOG_SECONDS", HURRIED.boot_log),
    ("ec2spawner.provisioner.garbage_collection", "verdict", partial(verdict, grace=REAP_GRACE)),
    # So that what one cell has sold out can be asked for in the next.
    (
        "ec2spawner.core.offers.sold_out",
        "MARKED_FOR",
        dict.fromkeys(sold_out.MARKED_FOR, MARKED_FOR),
    ),
    ("ec2spawner.core.offers.sold_out", "HINTED_FOR", MARKED_FOR),
    # So that every start of a hub deletes those of the last one.
    ("ec2spawner.provisioner.garbage_collection", "TEMPLATES_KEPT", timedelta(0)),
    ("ec2spawner.aws.calls.client", "Timeouts", lambda: TIMEOUTS),
    ("ec2spawner.check.run", "TIMEOUTS", TIMEOUTS),
    ("ec2spawner.check.run", "TIMEOUT", HURRIED.command),
    ("ec2spawner.prices.region", "TIMEOUT", HURRIED.command),
)
"""What no option says. It belongs into a bench and into nothing else to change these."""


def hurry() -> Callable[[], None]:
    """Let this process's parts of ec2spawner have `HURRIED`'s limits, until what it returns is
    called."""
    modules: list[Any] = [importlib.import_module(name) for name, _, _ in CONSTANTS]
    constants = [(constant, value) for _, constant, value in CONSTANTS]
    before = [(m, name, getattr(m, name)) for m, (name, _) in zip(modules, constants, strict=True)]
    for module, (constant, value) in zip(modules, constants, strict=True):
        setattr(module, constant, value)

    def undo() -> None:
        for module, constant, value in before:
            setattr(module, constant, value)

    return undo


def hurry_hub() -> None:
    """The same for the hub that this process is, and for the settings of its provisioner."""
    from ec2spawner.hub import startup

    hurry()
    settings_of = startup.settings_of

    def hurried_settings(options: Any) -> Any:
        settings = settings_of(options)
        return replace(
            settings,
            reap_interval=REAP_INTERVAL if REAPS in os.environ else settings.reap_interval,
            launch_timeout=HURRIED.launch,
            launch_pause=0.2,
            busy_interval=BUSY_INTERVAL,
            quiet_interval=QUIET_INTERVAL,
            recovery_grace=2.0,
        )

    startup.settings_of = hurried_settings
