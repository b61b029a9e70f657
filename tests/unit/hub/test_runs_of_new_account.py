"""A new account sees, reads and cancels no run of a deleted one of its name, and a server none of
another server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from jupyterhub import orm
from jupyterhub.user import User
from tornado.web import HTTPError

from ec2spawner.hub.api import runs as users_calls
from ec2spawner.hub.api.agents.runs import RunsHandler
from ec2spawner.hub.app import service
from ec2spawner.hub.app.user_account import account_of
from ec2spawner.hub.pages.runs_page import RunsPage
from ec2spawner.provisioner.model.leases.run import Run, RunState
from ec2spawner.wire import RunsAnswer, RunsRequest
from tests.unit.provisioner.runs.submitted import run_of, submit
from tests.unit.provisioner.world import World
from tests.user_accounts import fake_users

from .test_cluster_refusal import options_with
from .test_instances_answer import SERVER

pytestmark = pytest.mark.virtual_time

Account = Callable[[datetime], User]


@pytest.fixture
def account() -> Iterator[Account]:
    """An account `ada` of JupyterHub, created at this instant; the one before it is deleted."""
    db = orm.new_session_factory("sqlite:///:memory:")()

    def create(created: datetime) -> User:
        db.query(orm.User).delete()
        ada = orm.User(name="ada", created=created.replace(tzinfo=None))
        db.add(ada)
        db.commit()
        return User(ada, {}, db)

    yield create
    db.close()


@pytest.fixture(autouse=True)
def _hub(world: World) -> Iterator[None]:
    nothing: Any = None
    hub = service.HubService(
        options=options_with(runs={"at_once": 0}),
        seal=nothing,
        verifier=nothing,
        accounts=world.provisioner.accounts,
    )
    hub.provisioner = world.provisioner
    service.publish(hub)
    yield
    service.publish(None)


class OfUser(users_calls.RunsApiHandler):
    """A call of this user with these arguments in the query."""

    current_user: Any = None

    def __init__(self, caller: User, query: Mapping[str, str]) -> None:
        self.current_user = caller
        self.query = query
        self.found: list[int] = []
        arguments = {name: [value.encode()] for name, value in query.items()}
        self.request: Any = SimpleNamespace(query_arguments=arguments, headers={})
        self._chunks = []

    def has_scope(self, scope: str) -> bool:
        return True

    def get_query_argument(self, name: str, *default: Any) -> Any:
        return self.query.get(name, *default)

    async def send(self, runs: list[Run], status: int = 200) -> None:
        self.found = [each.number for each in runs]


class ListCall(OfUser, users_calls.RunListHandler):
    pass


class RunCall(OfUser, users_calls.RunHandler):
    pass


class ResultCall(OfUser, users_calls.RunResultHandler):
    pass


class AgentsCall(RunsHandler):
    """A call of the agent of this user's server."""

    users: Any = None

    def __init__(self, user: User, server: str = "", **request: Any) -> None:
        self.users = fake_users(user)
        self._account, self._server = key(user), server
        self._request = RunsRequest(**request)
        self._chunks: list[bytes] = []

    def read(self, *_: Any) -> Any:
        return self._request

    def finish(self, chunk: Any = None) -> Any:
        self.said = RunsAnswer.model_validate_json(chunk)

    async def found(self) -> list[int]:
        """Numbers of the runs in the answer."""
        await self.call(replace(SERVER, user=self._account, server=self._server))
        return [each.number for each in self.said.runs]

    def refuse(self, status: int, message: str) -> NoReturn:
        raise HTTPError(status, message)


class Page(RunsPage):
    """The page of this user's runs, where the hub allows no new ones."""

    current_user: Any = None
    db: Any = None

    def __init__(self, user: User) -> None:
        self.current_user, self.db = user, user.db

    async def render_template(self, name: str, **variables: Any) -> Any:
        self.has_runs = variables["has_runs"]

    def finish(self, chunk: Any = None) -> Any:
        pass

    async def shows_runs(self) -> bool:
        await self.get()
        return bool(self.has_runs)


async def two_accounts(world: World, account: Account) -> tuple[User, int, int]:
    """The new account, a run of the deleted one, and one of its own."""
    [old] = await submit(world, user=key(account(world.clock())), request_id="sweep")
    world.clock.advance(60)
    ada = account(world.clock())
    [new] = await submit(world, user=key(ada), request_id="another")
    return ada, old, new


def key(user: User) -> str:
    """Under which the hub records what the user has."""
    hub = service.current()
    assert hub is not None
    return account_of(hub.accounts, user)


@pytest.mark.parametrize("query", [{}, {"user": "ada"}])
async def test_the_users_calls_have_only_runs_of_the_new_account(
    world: World, account: Account, query: dict[str, str]
) -> None:
    ada, old, new = await two_accounts(world, account)
    listed, own = ListCall(ada, query), RunCall(ada, query)
    await listed.get()
    await own.get(str(new))
    assert listed.found == own.found == [new]
    for call in (own.get, own.delete, ResultCall(ada, query).get):
        with pytest.raises(HTTPError, match=f"you have no run {old}") as refused:
            await call(str(old))
        assert refused.value.status_code == 404
    assert run_of(world, old).state is RunState.QUEUED


async def test_the_agents_calls_have_only_runs_of_the_new_account(
    world: World, account: Account
) -> None:
    ada, old, new = await two_accounts(world, account)
    assert await AgentsCall(ada, action="list").found() == [new]
    for action in ("list", "cancel"):
        assert await AgentsCall(ada, action=action, request_id="sweep").found() == []
    assert await AgentsCall(ada, action="list", number=new).found() == [new]
    for action in ("list", "result", "delivered", "cancel"):
        with pytest.raises(HTTPError, match=f"this server has no run {old}") as refused:
            await AgentsCall(ada, action=action, number=old).found()
        assert refused.value.status_code == 404
    assert await AgentsCall(ada, action="cancel", number=new).found() == [new]
    assert run_of(world, new).outcome == "cancelled"
    assert run_of(world, old).state is RunState.QUEUED


async def test_the_agents_calls_have_only_runs_of_their_server(
    world: World, account: Account
) -> None:
    """Everyone with access to a server reads its agent's secret; the user has them all."""
    ada = account(world.clock())
    ada.db.add(orm.Spawner(name="lab", user=ada.orm_user))
    sent: dict[str, Any] = {"user": key(ada), "request_id": "sweep"}
    [own] = await submit(world, server="lab", **sent)
    [of_default] = await submit(world, **sent)
    [of_gpu] = await submit(world, server="gpu", **sent)
    for request in ({}, {"request_id": "sweep"}, {"number": own}):
        assert await AgentsCall(ada, "lab", action="list", **request).found() == [own]
    for other in (of_default, of_gpu):
        for action in ("list", "result", "delivered", "cancel"):
            with pytest.raises(HTTPError, match=f"this server has no run {other}") as refused:
                await AgentsCall(ada, "lab", action=action, number=other).found()
            assert refused.value.status_code == 404
    assert await AgentsCall(ada, "lab", action="cancel", request_id="sweep").found() == [own]
    assert run_of(world, of_default).state is run_of(world, of_gpu).state is RunState.QUEUED

    listed = ListCall(ada, {})
    await listed.get()
    assert listed.found == [of_gpu, of_default, own]


async def test_the_page_shows_no_run_of_the_deleted_account(world: World, account: Account) -> None:
    await submit(world, user=key(account(world.clock())))
    world.clock.advance(60)
    ada = account(world.clock())
    page = Page(ada)
    assert not await page.shows_runs()
    await submit(world, user=key(ada))
    assert await page.shows_runs()
