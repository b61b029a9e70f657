"""EC2Spawner: JupyterHub's spawner interface on top of the provisioner.

`start` puts a lease on the waiting list and returns when the notebook listens; `poll` reads
memory; `stop` ends the lease. The provisioner does everything in between.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

from jupyterhub.spawner import Spawner
from jupyterhub.utils import url_path_join
from pydantic import ValidationError
from traitlets import default

from .config.traits import OptionTraits
from .core.names import lease_id as new_lease_id
from .hub.api.environment import notebook_environment
from .hub.api.jupyterhub_server_api import is_asked_by, is_asked_for, stop_for
from .hub.app import service
from .hub.app.orphaned_tokens import renew_client, revoke_left_tokens
from .hub.app.restart_check import RestartCheck
from .hub.app.resume import could_not_continue
from .hub.app.server_rename import rename_server
from .hub.app.service import HubService
from .hub.app.spawn_error import SpawnError
from .hub.app.user_account import account_of
from .hub.app.user_rename import RENAMED, has_other_address
from .hub.failure.explained_start import ExplainedStart, ec2_unanswered
from .hub.pages.progress.progress_stream import progress_of
from .hub.pages.spawn_page.scheduled_notice import ScheduledNotice, scheduled_notice
from .hub.pages.spawn_page.spawn_page import render_options_form
from .hub.pages.spawn_page.stop_notice import StopNotice, last_stop
from .hub.pages.stop_choice import StopChoice, stop_choice
from .hub.security.sealed_start import NotebookStart, Seal, SealBroken
from .hub.security.signed_link import SIGNED, NotByThisLink, is_signed
from .hub.spawn import user_options
from .hub.spawn.home_choice import release_home
from .hub.spawn.idle_policy import follow_configuration, policy_of
from .hub.spawn.lease_request import Server, new_lease
from .hub.spawn.notebook_port import check_notebook_port
from .hub.spawn.server_options import configured_options
from .hub.spawn.sleep_choice import sleep_of
from .provisioner.lifecycle.recovery import SavedServer, saved
from .provisioner.model.cloud.cloud import CloudError
from .provisioner.model.leases.lease import LIVE, OPEN, Lease, LeaseState
from .provisioner.provisioner import Provisioner
from .provisioner.store.store import StoreError
from .wire import Stop

CLICK_TIMEOUT = 2.0
"""Seconds that a user's request waits while EC2 has not answered since the hub's start."""

HUB_START_TIMEOUT = 60.0
"""Seconds a poll waits after a hub start for the store and the first listing."""

STOP_MARGIN = 30.0
"""Seconds beyond the time of the agent for detaching and terminating."""

TIMEOUT_MARGIN = 1.5
"""Seconds before the end of `start_timeout` at which a start ends itself, to say why it is late."""


class EC2Spawner(OptionTraits, Spawner):
    """Notebook servers on EC2 instances of their own."""

    def __init__(self, **kwargs: Any) -> None:
        self.lease_id = ""
        self.continues = ""
        """Id of the lease under which the start in progress continues this server; else empty."""
        self._left = ""
        """Id of the lease that JupyterHub's check after a hub start found to have ended."""
        self.start_check = RestartCheck()
        self._saved: SavedServer | None = None
        self._recovered = False
        super().__init__(**kwargs)
        if self.orm_spawner is not None:
            # JupyterHub makes it of names: the server `b` of `ann` would share that of `ann-b`.
            self.oauth_client_id = f"jupyterhub-server-{self.orm_spawner.id}"
        self.configured = configured_options(self)

    # --- defaults that differ from a local server's ---

    @default("env_keep")
    def _env_keep_default(self) -> list[str]:
        return []  # the hub's PATH does not apply to an instance

    @default("start_timeout")
    def _start_timeout_default(self) -> int:
        return 900  # seconds: a GPU instance, its boot, and a replacement if the first one fails

    @default("http_timeout")
    def _http_timeout_default(self) -> int:
        return 60

    @default("options_form")
    def _options_form_default(self) -> Any:
        return self._render_options_form

    @default("options_from_form")
    def _options_from_form_default(self) -> Any:
        return user_options.read_form

    @default("apply_user_options")
    def _apply_user_options_default(self) -> Any:
        return self._check_user_options

    async def create_certs(self) -> dict[str, str]:
        """No certificates yet: the hub signs at the claim, when the instance's address is known."""
        return {}

    async def move_certs(self, paths: dict[str, str]) -> dict[str, str]:
        """Unchanged: certificates reach the instance in its grant, not as files."""
        return paths

    # --- choosing ---

    async def _render_options_form(self, _spawner: Spawner) -> str:
        running, provisioner = await self._answering()
        return await render_options_form(self, running.options, provisioner)

    async def _check_user_options(self, _spawner: Spawner, sent: Mapping[str, object]) -> None:
        """Refuse options that cannot be followed, except of a server that continues: its lease
        needs none of them, and a running server outlives its profile."""
        if not self.continues:
            await user_options.resolve(self, sent)

    def options_from_query(self, query_data: dict[str, Any]) -> dict[str, Any]:
        """A link signed by this hub starts a server; any other link only fills in the form."""
        options, signed = user_options.read_link(query_data), query_data.get(SIGNED, [""])[0]
        # JupyterHub treats any query as options, even the `_xsrf` of its own form.
        if not is_signed(self, options, signed, service.utc_now()):
            raise NotByThisLink(
                "the link is not signed by this hub: the spawn page opens with its choice"
            )
        return options

    # --- start, poll, stop ---

    async def start(self) -> str:
        """The server's URL, once the notebook listens. Raises `SpawnError`."""
        # JupyterHub's own timeout gives no reason, so ours comes before it.
        deadline = asyncio.get_running_loop().time() + self.start_timeout - TIMEOUT_MARGIN
        self.lease_id, self._recovered = new_lease_id(), True
        running, provisioner = await self._answering()
        account = account_of(provisioner.accounts, self.user)
        successor = provisioner.moves.to_resume(account, self.name, self.continues)
        if successor is not None:
            return await self._resume(running, provisioner, successor, deadline)
        if self.continues:
            self.lease_id = self.continues
            raise await ExplainedStart(self, running.options, provisioner).cannot_continue()
        options, choice = await user_options.resolve(self, self.user_options)
        user_options.drop_one_time_options(self)
        chosen_idle = choice.server_idle_seconds
        idle = await policy_of(
            options, provisioner, self, choice.profile, chosen_idle, choice.payer
        )
        running.spawners[self.lease_id] = self
        sleep = sleep_of(options, choice, provisioner, self)
        environment, hub_api_url = notebook_environment(self, running, sleep)
        command = [*self.cmd, *self.get_args()]
        start = NotebookStart(environment, command, self.api_token, self.server.base_url)
        explained = ExplainedStart(self, options, provisioner)
        async with explained.request(choice.profile.slug), asyncio.timeout_at(deadline):
            lease, home = await new_lease(
                self.lease_id,
                Server(account, self.name),
                choice,
                options=options,
                idle=idle,
                sleep=sleep,
                provisioner=provisioner,
                hub_api_url=hub_api_url,
                sealed_start=running.seal.close(start),
                start_timeout=self.start_timeout,
            )
            await provisioner.request(lease, home, afresh=choice.afresh)
        return await self._ready_url(running, provisioner, explained, deadline)

    async def _resume(
        self, running: HubService, provisioner: Provisioner, lease: Lease, deadline: float
    ) -> str:
        """The server's URL on the instance on which it continues, with the token that it had."""
        self.lease_id = lease.lease_id
        running.spawners[self.lease_id] = self
        if self._take_token_back(lease.sealed_start) not in {"", self.server.base_url}:
            raise SpawnError(RENAMED.message, reason="renamed")
        explained = ExplainedStart(self, running.options, provisioner)
        return await self._ready_url(running, provisioner, explained, deadline)

    async def _ready_url(
        self,
        running: HubService,
        provisioner: Provisioner,
        explained: ExplainedStart,
        deadline: float,
    ) -> str:
        """Where the notebook of the requested lease listens. Raises `SpawnError`."""
        async with explained.wait(), asyncio.timeout_at(deadline):
            ready = await provisioner.wait_ready(self.lease_id, self.start_timeout)
            await check_notebook_port(ready.url)
            await running.ready_turns.take()  # JupyterHub's next part yields nowhere
        return ready.url

    async def poll(self) -> int | None:
        """None while there is a lease; 0 when there is none. Never asks AWS, never raises."""
        try:
            lease = await self._lease()
            if lease is not None and lease.state in LIVE and self._is_elsewhere:
                self.log.warning("%s runs at %s", self._log_name, self.server.base_url)
                provisioner = await self._provisioner()
                await provisioner.end_server(lease.lease_id, RENAMED)
                lease = provisioner.lease(lease.lease_id)
        except (CloudError, StoreError) as error:
            # Unknown is not gone.
            self.log.warning("The state of %s is unknown right now: %s", self._log_name, error)
            return None
        if lease is not None and lease.state not in LIVE:
            provisioner = await self._provisioner()
            if self._check_pending:
                self._left = lease.lease_id  # the stop that follows the check polls again
            has_left = provisioner.moves.has_released(lease) or self._left == lease.lease_id
            # Then JupyterHub keeps token and OAuth client, and `hub.app.resume` starts it again.
            self.will_resume = has_left and provisioner.moves.is_continued(lease)
            if self.will_resume:
                return 0
        if lease is not None and lease.state is LeaseState.ENDING and self._check_pending:
            # Its notebook has stopped: JupyterHub would wait for it until `http_timeout`.
            return 0
        return None if lease is not None and lease.state in OPEN else 0

    async def stop(self, now: bool = False) -> None:
        """End the lease and wait a while for its instance to be released.

        Never raises: JupyterHub would then forget the server and leave its token valid. The
        provisioner's next pass completes what fails now.
        """
        try:
            lease = await self._lease()
            if lease is None:
                return
            provisioner = await self._provisioner()
            self.will_resume = False
            stop, by_user = self._why_stopped(lease), is_asked_by(self.user.name)
            await provisioner.end_server(lease.lease_id, stop, by_user=by_user)
            timeout = provisioner.stop_seconds(lease.lease_id) + STOP_MARGIN
            await provisioner.wait_ended(lease.lease_id, timeout)
        except TimeoutError:
            self.log.warning("%s is not released yet; the provisioner continues", self._log_name)
        except (CloudError, StoreError) as error:
            self.log.error("Stopping %s is not complete yet: %s", self._log_name, error)

    def _why_stopped(self, lease: Lease) -> Stop:
        """Who asked for the stop in progress, or which error did.

        JupyterHub stops a server whose start failed while it handles the error of that start.
        """
        error = sys.exception() if self.continues else None
        if error is not None:
            return could_not_continue(error)
        stop = stop_for(self.user.name, lease)
        has_failed = lease.ready_at is None and not is_asked_for()
        return stop.model_copy(update={"reason": "failed"}) if has_failed else stop

    def run_post_stop_hook(self) -> Any:
        """Called at the end of every stop, also after a start during which the hub was killed."""
        if not self.will_resume:
            revoke_left_tokens(self)
        return super().run_post_stop_hook()

    async def delete_forever(self) -> None:
        """The user or this named server is deleted in JupyterHub: delete the home if the
        configuration says so, and keep it otherwise."""
        running, provisioner = await self._running()
        account = account_of(provisioner.accounts, self.user)
        await provisioner.give_up_retained(account, self.name)
        await release_home(provisioner, running.options.home.kind, account, self.name)

    async def rename(self, old_name: str, new_name: str) -> None:
        """JupyterHub is about to rename this stopped server; an error prevents it."""
        running, provisioner = await self._answering()
        account, kind = account_of(provisioner.accounts, self.user), running.options.home.kind
        await rename_server(provisioner, kind, account, old_name, new_name)

    async def get_url(self) -> str:
        """Where the notebook listens, also when the hub was killed before it wrote that down.

        After a hub start, JupyterHub stops every server that does not answer at this address,
        which is all of them during a network failure. So its check waits here until the server is
        known to run; silent servers are left to the provisioner's safeguards. For a server that is
        about to stop, the hub's own URL is returned: the check succeeds, and the stop follows.
        """
        try:
            lease = await self._lease()
            if lease is not None and self._check_pending:
                lease = await self.start_check.wait(self, await self._provisioner(), lease)
                if lease is None:
                    return str(self.hub.url)
        except (CloudError, StoreError):
            lease = None  # an exception here would leave this server's check pending
        if lease is None or not lease.url:
            return str(self.server.url)
        return str(url_path_join(lease.url, self.server.base_url))

    def start_polling(self) -> None:
        """Called at the end of the check after a hub start: add this server's route at once."""
        super().start_polling()
        provisioner = service.current_provisioner()
        if self._check_pending and provisioner is not None:
            # JupyterHub clears `_check_pending` right after this call.
            provisioner.spawn(self.start_check.done(self), f"check of {self._log_name}")

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """All events of the start from its beginning, for every browser that connects."""
        provisioner = await self._provisioner()
        while not (lease := provisioner.lease(self.lease_id)):
            await asyncio.sleep(0.1)  # JupyterHub ends this generator with the start
        async with aclosing(progress_of(provisioner, lease)) as events:
            async for event in events:
                yield event

    @property
    def stop_notice(self) -> StopNotice | None:
        """How this server's last run ended, for its pages; None if its user ended it."""
        provisioner = service.current_provisioner()
        return last_stop(provisioner, self.user, self.name) if provisioner else None

    @property
    def stop_choice(self) -> StopChoice | None:
        """The choice between sleep and stop for this server's pages; None unless it is ready."""
        provisioner = service.current_provisioner()
        return stop_choice(provisioner, self.lease_id, self.display_name) if provisioner else None

    @property
    def scheduled_notice(self) -> ScheduledNotice | None:
        """The notice of a scheduled event of this server's machine, for its user's home page."""
        provisioner = service.current_provisioner()
        return scheduled_notice(provisioner, self.user, self.name) if provisioner else None

    @property
    def stop_progress(self) -> str:
        """What this server's stop still waits for, for its page; empty if nothing takes long."""
        provisioner = service.current_provisioner()
        return provisioner.flush_progress(self.lease_id) if provisioner else ""

    # --- state ---

    def get_state(self) -> dict[str, Any]:
        """JupyterHub's record of a running server, from which a lost lease is rebuilt."""
        state: dict[str, Any] = super().get_state()
        provisioner = service.current_provisioner()
        lease = provisioner.lease(self.lease_id) if provisioner else None
        if provisioner and lease and lease.state is LeaseState.READY:
            home = provisioner.homes.for_lease(lease)
            state["server"] = saved(lease, home).model_dump(mode="json")
        return state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore the lease's id and the API token; an unreadable record is logged and ignored."""
        super().load_state(state)
        if "server" not in state:
            return
        try:
            self._saved = SavedServer.model_validate(state["server"])
        except ValidationError as error:
            self.log.error("The saved state of %s is unreadable: %s", self._log_name, error)
            return
        self.lease_id = self._saved.lease_id
        self._take_token_back(self._saved.sealed_start)

    def _take_token_back(self, sealed_start: str) -> str:
        """Restore the server's token from an earlier process, so that a stop can revoke it.

        Returns the address at which the server runs; empty if it is unknown.

        At once: JupyterHub records which token to revoke before it polls. `revoke_left_tokens`
        finds tokens by the server's URL, which has changed if the user was renamed since.
        """
        try:
            start = Seal(self.user.settings["cookie_secret"]).open(sealed_start)
        except SealBroken as error:
            self.log.warning("The token of %s cannot be revoked: %s", self._log_name, error)
            return ""
        self.api_token = start.api_token
        return start.base_url

    def clear_state(self) -> None:
        """Forget the lease: the server has stopped."""
        super().clear_state()
        self.lease_id = self._left = ""
        self._saved = None
        self._recovered = False

    # --- inside ---

    async def _lease(self) -> Lease | None:
        """This server's lease; after a hub restart taken up from the store, or rebuilt.

        Raises `CloudError` while it cannot be known.
        """
        provisioner = await self._provisioner()
        lease = provisioner.lease(self.lease_id)
        if lease is not None and self._recovered:
            return lease
        if self._start_pending:
            return None  # this start has requested nothing yet
        lease_id = self.lease_id or self.continues
        account = account_of(provisioner.accounts, self.user)
        lease = provisioner.take_up(account, self.name, lease_id)
        if lease is None and self._saved is not None:
            if not await provisioner.first_listing(HUB_START_TIMEOUT):
                raise CloudError("Unknown", "no listing of instances yet", retryable=True)
            lease = await provisioner.rebuild(account, self.name, self._saved)
        if lease is not None:
            await self._recover(provisioner, lease)
        return lease

    @property
    def _is_elsewhere(self) -> bool:
        """Whether JupyterHub does not find this server where it runs: its user was renamed."""
        is_changing = self._start_pending or self._stop_pending
        return not is_changing and has_other_address(self)

    async def _recover(self, provisioner: Provisioner, lease: Lease) -> None:
        """Make a lease of an earlier process this spawner's own.

        Restores the token that only our store still knows.
        """
        running, _ = await self._running()
        self.lease_id = lease.lease_id
        self._recovered = True
        running.spawners[self.lease_id] = self
        if not self.api_token:
            self._take_token_back(lease.sealed_start)
        if lease.continues:
            await renew_client(self)
        if lease.state is not LeaseState.ENDING:
            following = follow_configuration(running.options, self, provisioner, lease)
            provisioner.spawn(following, f"idle policy of {lease.lease_id}")

    async def _answering(self) -> tuple[HubService, Provisioner]:
        """For a user's request. Raises `SpawnError` while EC2 has not answered."""
        try:
            return await self._running()
        except CloudError as error:
            raise ec2_unanswered(error) from error

    async def _provisioner(self) -> Provisioner:
        return (await self._running())[1]

    async def _running(self) -> tuple[HubService, Provisioner]:
        """Raises `CloudError` while EC2 has not answered since the hub's start."""
        timeout = HUB_START_TIMEOUT if self._check_pending else CLICK_TIMEOUT
        provisioner = await service.wait_for_provisioner(timeout)
        running = service.current()
        if running is None or provisioner is None:
            raise CloudError(
                "Unknown", "EC2 has not answered since the hub started", retryable=True
            )
        return running, provisioner
