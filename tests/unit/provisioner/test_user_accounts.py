"""What is recorded of a user stays theirs, whatever happens to names and ids in JupyterHub."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ec2spawner.core.ledger.cost_rows import CostSum, Dimension, with_names
from ec2spawner.core.limits.bounds import Bounds, Limits
from ec2spawner.core.tags import HOME, USER
from ec2spawner.provisioner.limits.admission import LimitReached
from ec2spawner.provisioner.model.leases.lease import Lease
from ec2spawner.provisioner.model.user_account import Identity
from tests.stored import HOME_ROW
from tests.unit.provisioner.world import World, until
from tests.user_accounts import bare_accounts

pytestmark = pytest.mark.virtual_time

BEGIN = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ANN = Identity(3, BEGIN)
NEW_ANN = Identity(7, BEGIN + DAY)


def test_an_account_keeps_its_key_and_its_successor_has_another() -> None:
    accounts = bare_accounts()
    assert accounts.key(ANN, "ann") == "ann"
    assert accounts.key(ANN, "bob") == "ann", "renamed"
    assert accounts.key(NEW_ANN, "ann") == "ann/7"
    assert accounts.key(ANN, "bob") == "ann"
    assert (accounts.name("ann"), accounts.name("ann/7")) == ("bob", "ann")
    assert (accounts.named("bob"), accounts.named("ann")) == ("ann", "ann/7")
    assert accounts.renamed() == {"ann": "bob", "ann/7": "ann"}
    assert accounts.scope("user:ann") == "user:bob"
    assert accounts.scope("group:ann") == "group:ann"


def test_what_is_configured_holds_for_who_has_the_name() -> None:
    accounts = bare_accounts()
    configured = accounts.by_account({"user:ann": 1, "user:bob": 2, "user:zoe": 3, "hub": 4})
    assert dict(configured) == {"user:ann": 1, "user:bob": 2, "user:zoe": 3, "hub": 4}
    accounts.key(ANN, "ann")
    accounts.key(ANN, "bob")
    assert dict(configured) == {"user:ann": 2, "user:zoe": 3, "hub": 4}, "no user has the name ann"
    accounts.key(NEW_ANN, "ann")
    assert dict(configured) == {"user:ann/7": 1, "user:ann": 2, "user:zoe": 3, "hub": 4}
    assert configured.get("user:eve") is None


def test_of_a_deleted_account_remains_a_name_with_its_id() -> None:
    accounts = bare_accounts()
    accounts.key(ANN, "ann")
    accounts.key(NEW_ANN, "ann")
    assert (accounts.name("ann"), accounts.named("ann/3")) == ("ann/3", "ann")
    assert accounts.namesakes("ann/7") == ["ann"]
    third = Identity(7, BEGIN + 2 * DAY)
    assert accounts.key(third, "ann") == "ann/7.2", "SQLite gives an id again"
    assert accounts.named("ann") == "ann/7.2"


def test_a_name_changes_unseen() -> None:
    accounts = bare_accounts()
    accounts.key(ANN, "ann")
    accounts.key(NEW_ANN, "ann")  # the other one has another name by now
    accounts.key(NEW_ANN, "eve")
    assert accounts.key(ANN, "bob") == "ann"
    assert accounts.renamed() == {"ann": "bob", "ann/7": "eve"}


def test_a_name_that_was_left_is_nobodys() -> None:
    accounts = bare_accounts()
    accounts.key(ANN, "ann")
    accounts.key(ANN, "bob")
    assert accounts.named("ann") is None
    assert accounts.named("never-seen") == "never-seen"


def test_databases_that_round_to_seconds_do_not_make_new_accounts() -> None:
    accounts = bare_accounts()
    accounts.key(ANN, "ann")
    assert accounts.key(Identity(3, BEGIN - timedelta(milliseconds=700)), "ann") == "ann"
    assert accounts.key(Identity(3, None), "ann") == "ann/3.2"
    exact = BEGIN + timedelta(days=1, milliseconds=200)
    assert accounts.key(Identity(3, exact), "ann") == "ann/3.3"
    assert accounts.key(Identity(3, exact + timedelta(milliseconds=1)), "ann") == "ann/3.4"


def test_in_a_database_made_anew_names_decide() -> None:
    accounts = bare_accounts()
    accounts.key(ANN, "ann")
    accounts.key(ANN, "bob")
    accounts.key(NEW_ANN, "ann")
    accounts.key(Identity(8, BEGIN), "eve")
    later = BEGIN + 9 * DAY
    anew = [(Identity(1, later), "root"), (Identity(2, later), "bob")]
    accounts.follow(anew)
    assert accounts.key(*anew[1]) == "ann"
    assert accounts.key(Identity(3, later), "ann") == "ann/7"
    assert accounts.key(Identity(4, later), "ann") == "ann/4", "only once"
    assert accounts.key(Identity(5, later), "eve") == "eve"


def test_a_database_with_one_known_account_is_the_same() -> None:
    accounts = bare_accounts()
    accounts.key(ANN, "ann")
    accounts.key(NEW_ANN, "eve")
    later = BEGIN + 9 * DAY
    accounts.follow([(NEW_ANN, "eve"), (Identity(9, later), "ann")])
    assert accounts.key(Identity(9, later), "ann") == "ann/9"


class Hub:
    """JupyterHub's users, as they are created, renamed and deleted."""

    def __init__(self) -> None:
        self.users: dict[str, tuple[Identity, int]] = {}
        """Name -> identity, and the number of the account."""
        self.created = 0

    def act(self, action: str, name: str, other: str) -> None:
        match action:
            case "create" if name not in self.users:
                self.created += 1
                ids = (identity.jupyterhub_id for identity, _ in self.users.values())
                made = Identity(max(ids, default=0) + 1, BEGIN + self.created * DAY)  # as SQLite
                self.users[name] = made, self.created
            case "rename" if name in self.users and other not in self.users:
                self.users[other] = self.users.pop(name)
            case "delete":
                self.users.pop(name, None)


NAMES = st.sampled_from(["ann", "bob", "eve"])
ACTIONS = st.sampled_from(["create", "rename", "delete", "seen", "restart"])


@given(st.lists(st.tuples(ACTIONS, NAMES, NAMES), max_size=30))
def test_no_two_accounts_share_a_key_and_none_changes_its_own(
    actions: list[tuple[str, str, str]],
) -> None:
    hub, accounts, keys = Hub(), bare_accounts(), dict[int, str]()
    hub.act("create", "admin", "")

    def see(name: str) -> None:
        identity, number = hub.users[name]
        key = accounts.key(identity, name)
        assert keys.setdefault(number, key) == key
        assert (accounts.named(name), accounts.name(key)) == (key, name)

    see("admin")  # there is always somebody: no database made anew
    for action, name, other in actions:
        hub.act(action, name, other)
        if action == "seen" and name in hub.users:
            see(name)
        elif action == "restart":
            accounts.follow([(identity, each) for each, (identity, _) in hub.users.items()])
            for each in hub.users:
                see(each)
    assert len(set(keys.values())) == len(keys)


async def test_accounts_outlive_a_restart_of_the_hub(world: World) -> None:
    accounts = world.provisioner.accounts
    accounts.key(ANN, "ann")
    accounts.key(ANN, "bob")
    world.clock.advance(1)
    accounts.key(NEW_ANN, "ann")
    world.clock.advance(1)
    await accounts.hand_over("ann", "ann/7")
    await world.restart()
    after = world.provisioner.accounts
    assert after is not accounts
    assert after.renamed() == accounts.renamed()
    assert after.key(NEW_ANN, "ann") == "ann"
    assert after.identity("ann/7") is None


async def test_what_is_handed_over_can_be_handed_back(world: World) -> None:
    accounts = world.provisioner.accounts

    def of(user: Identity) -> str:
        return accounts.key(user, "ann")

    of(ANN)
    assert of(NEW_ANN) == "ann/7"
    await accounts.hand_over("ann", "ann/7")
    assert of(NEW_ANN) == "ann"
    assert (accounts.name("ann"), accounts.named("ann/7")) == ("ann", "ann/7")
    await accounts.hand_over("ann/7", "ann")
    assert of(NEW_ANN) == "ann/7"
    assert accounts.name("ann/7") == "ann"
    assert accounts.named("ann/3") == "ann"


async def test_what_is_set_aside_is_nobodys(world: World) -> None:
    """Not the next user's of the name either, whatever becomes of the one who had it."""
    accounts = world.provisioner.accounts
    accounts.key(ANN, "ann")
    world.clock.advance(1)
    accounts.key(NEW_ANN, "ann")
    await accounts.hand_over("ann", "ann/7")
    world.clock.advance(1)
    accounts.key(NEW_ANN, "eve")
    third, fourth = Identity(10, BEGIN + 2 * DAY), Identity(11, BEGIN + 3 * DAY)
    assert accounts.key(third, "ann") == "ann/10"
    await world.restart()
    accounts = world.provisioner.accounts
    assert accounts.key(fourth, "ann") == "ann/11"
    assert (accounts.key(third, "ann"), accounts.key(NEW_ANN, "eve")) == ("ann/10", "ann")
    assert accounts.named("ann/7") == "ann/7"


async def test_a_lost_account_is_claimed_once(world: World) -> None:
    accounts = world.provisioner.accounts
    accounts.key(ANN, "ann")
    world.clock.advance(1)
    accounts.key(NEW_ANN, "ann")
    later = BEGIN + 9 * DAY
    accounts.follow([(Identity(1, later), "root")])
    first, second = Identity(2, later), Identity(3, later)
    assert accounts.key(first, "ann") == "ann/7", "the latest of that name"
    world.clock.advance(1)
    accounts.key(first, "eve")
    await world.restart()
    assert world.provisioner.accounts.key(second, "ann") == "ann/3.2"


async def test_nobody_gets_new_money_by_being_created_again(world: World) -> None:
    await world.restart(limits=Limits(Bounds(usd_per_month=1.0)), spending_days=31)
    accounts, spending = world.provisioner.accounts, world.provisioner._state.spending
    accounts.key(ANN, "ada")
    accounts.key(Identity(5, BEGIN), "bob")
    row = replace(
        HOME_ROW, day=spending.today(), user="ada", payer="user:ada", nano_usd=900_000_000
    )
    spending.count_overhead([row], ())
    again = accounts.key(NEW_ANN, "ada")
    starts = [world.request(user) for user in (again, "bob")]
    found = await asyncio.gather(*starts, return_exceptions=True)
    assert [type(each) for each in found] == [LimitReached, Lease]


async def test_the_home_of_a_renamed_user_is_tagged_with_the_new_name(world: World) -> None:
    accounts = world.provisioner.accounts
    accounts.key(ANN, "ada")
    lease, agent = await world.ready(home_kind="ebs")
    [volume] = world.cloud.volumes
    accounts.key(ANN, "bob")
    accounts.key(NEW_ANN, "ada")
    homes = world.provisioner.homes
    await homes.list_volumes()
    assert world.cloud.volumes[volume].tags[USER] == "bob"
    assert homes.of("ada/7", "") is None
    await world.stop(lease)
    await agent.event("stopped")
    await until(lambda: not world.cloud.running(), "the instance ends")
    [shown] = [x for x in [homes.of("ada", "")] if x]
    assert shown.volume_id == volume


async def test_a_volume_without_a_record_is_found_by_the_name_of_now(world: World) -> None:
    """As after an admin has handed it over by its tags, or in an older backup of the store."""
    accounts, homes = world.provisioner.accounts, world.provisioner.homes
    accounts.key(ANN, "ada")
    await world.ready(home_kind="ebs")
    [volume] = world.cloud.volumes.values()
    accounts.key(ANN, "bob")
    for name in ("bob", "eve", "ada"):
        tags = {**volume.tags, HOME: f"home-{name}", USER: name}
        world.cloud.volumes[name] = replace(volume, volume_id=name, tags=tags)
    await homes.list_volumes()
    found = homes.of("ada", "")
    assert found is not None
    assert found.volume_id == volume.volume_id, "its record decides"
    assert homes.of("eve", "") is not None
    assert homes.of(accounts.key(NEW_ANN, "ada"), "") is not None


def test_sums_have_names() -> None:
    sums = [CostSum(("user:ann", "ann", "2026-11-30"), *[0] * 6)]
    by = (Dimension.PAYER, Dimension.USER, Dimension.DAY)
    [named] = with_names(sums, by, {"ann": "bob"})
    assert named.key == ("user:bob", "bob", "2026-11-30")
