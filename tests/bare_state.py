"""A provisioner's state without a store, for what only reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from types import SimpleNamespace
from typing import cast

from ec2spawner.provisioner.model.settings import Settings
from ec2spawner.provisioner.runtime.clock import Clock
from ec2spawner.provisioner.state.home_records import HomeRecords
from ec2spawner.provisioner.state.state import State
from ec2spawner.provisioner.store.store import Store
from tests.user_accounts import bare_accounts

STORE_ID = "store-1"


def bare_state(
    settings: Settings,
    now: Callable[[], datetime],
    zones: Iterable[str] = (),
    monotonic: Callable[[], float] = time.monotonic,
) -> State:
    """With a subnet in each of the zones."""
    store, clock = cast("Store", SimpleNamespace(store_id=STORE_ID)), Clock(now, monotonic)
    accounts = bare_accounts(now)
    homes = HomeRecords(store, settings, clock, lambda users: {}, accounts)
    state = State(store, settings, clock, homes, accounts)
    state.zones.by_subnet = {f"subnet-{zone}": zone for zone in zones}
    return state
