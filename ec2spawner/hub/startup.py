"""Starts with the hub: checks the options, opens the store and runs the provisioner.

Resolving `spawner_class = "ec2"` calls `arrange`, so that this one line is enough: the
provisioner runs from the hub's start, even before any user logs in.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from jupyterhub import apihandlers
from jupyterhub import handlers as page_handlers
from jupyterhub.app import JupyterHub
from jupyterhub.proxy import Proxy
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_delay,
    wait_fixed,
    wait_random_exponential,
)

from .. import data
from ..alarms.delivery import Delivery
from ..alarms.destinations import destinations
from ..aws.ec2 import EC2Cloud
from ..aws.identity import IdentitySetupError, IdentityVerifier
from ..aws.monitoring.spot_event_queue import SpotEventQueue
from ..config import ConfigError, Options, small_disks
from ..core.partitions import why_prices_are_unknown
from ..provisioner.model.cloud.cloud import CloudError
from ..provisioner.model.settings import Settings
from ..provisioner.provisioner import Provisioner
from ..provisioner.retention.controller import keeps_of
from ..provisioner.runtime.clock import Clock
from ..provisioner.state.user_accounts import UserAccounts
from ..provisioner.store.store import Store, StoreAwayError, StoreError, StoreHeldError
from .api import (
    admin_actions,
    costs,
    instances,
    jupyterhub_server_api,
    jupyterhub_user_api,
    move,
    pool,
    rehearsal,
    server_end,
)
from .api import runs as runs_api
from .api import sleep as sleep_api
from .api import usage as usage_api
from .api import user as user_api
from .api.agents import calls, clusters, hardware, runs
from .api.save_before_stop import saving_before_stop
from .app import api_address
from .app.default_payers import default_payers, lost_payers
from .app.event_loop.gc_pauses import GCPauses, nothing_starts_or_stops
from .app.event_loop.route_activity import without_activity
from .app.interruption_queue import InterruptionQueue
from .app.reporting import log_limits, log_sanitizer, metrics
from .app.reporting.cloudwatch import CloudWatchMetrics
from .app.reporting.event_log import EventLog
from .app.request_bounds import bound_requests
from .app.resume import Resumes
from .app.route_times import noting_routes
from .app.service import HubService, publish, utc_now
from .app.user_account import all_users
from .app.user_activity import keep_users_logged_in
from .app.user_names import explain_refused_names
from .configuration import validate
from .pages import runs_page, start_page, template_vars, usage_pages
from .pages.jinja_environment import TEMPLATES
from .runs.starts import RunStarts
from .security import instances_scope
from .security.notebook_certificates import AUTHORITY, NotebookAuthority
from .security.sealed_start import Seal
from .spawn.pool_specs import PoolSpecs

STORE_TIMEOUT = 15.0
"""Seconds to wait for a hub that is stopping to release the store, and for a database server
that starts with this machine to answer."""

IMAGE_TIMEOUT = 10.0
"""Seconds that the hub's start waits for the image: a search by name may take a minute."""

API_HANDLERS: Final = tuple(
    handler
    for module in (
        calls,
        clusters,
        hardware,
        runs,
        user_api,
        move,
        server_end,
        instances,
        admin_actions,
        rehearsal,
        pool,
        sleep_api,
        usage_api,
        runs_api,
        costs,
    )
    for handler in module.handlers
)
REPLACED_API_HANDLERS: Final = (*jupyterhub_server_api.handlers, *jupyterhub_user_api.handlers)
"""Come before JupyterHub's own handlers of their paths."""

PAGE_HANDLERS: Final = (*usage_pages.handlers, *runs_page.handlers)
HANDLERS: Final = (
    *REPLACED_API_HANDLERS,
    *API_HANDLERS,
    *start_page.handlers,
    *PAGE_HANDLERS,
)
"""Paths below `/hub` and what answers them: all that this package adds to JupyterHub, or replaces.
A test asks each with every kind of token."""

log = logging.getLogger(__name__)

_task: asyncio.Task[None] | None = None


def arrange() -> None:
    """Start with the hub, once; do nothing in any other command.

    `jupyterhub token`, `upgrade-db` and the like load the same configuration and must start
    nothing. JupyterHub has no hook for "the hub starts", but a starting hub resolves its spawner
    class in its event loop before it builds its handlers. That is our signal.
    """
    global _task
    if _task is not None or not JupyterHub.initialized():
        return
    app = JupyterHub.instance()
    if app.subapp or app.generate_config or not hasattr(app, "_start_future"):
        return
    if app.show_config or app.show_config_json:
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    instances_scope.define(app)
    apihandlers.default_handlers[:0] = REPLACED_API_HANDLERS
    apihandlers.default_handlers.extend(API_HANDLERS)
    page_handlers.default_handlers[:0] = start_page.handlers
    page_handlers.default_handlers.extend(PAGE_HANDLERS)
    keep_users_logged_in()
    _extend_proxy(app)
    _show_our_templates(app)
    template_vars.define(app)
    # JupyterHub serves no request until it has checked every running server, or until this
    # timeout. Ours are checked once their agents call, which needs a hub that serves.
    app.init_spawners_timeout = 0
    logging.getLogger("ec2spawner").parent = app.log
    log_limits.install(app.log)
    log_sanitizer.install()
    _task = loop.create_task(_begin_or_exit(app), name="ec2spawner begin")


def _extend_proxy(app: JupyterHub) -> None:
    """Extend the class of the proxy, also one that the configuration names after the spawner's."""
    extended: type[Proxy] | None = None

    def extend(_change: object = None) -> None:
        nonlocal extended
        if app.proxy_class is not extended:
            extended = without_activity(noting_routes(saving_before_stop(app.proxy_class)))
            app.proxy_class = extended

    app.observe(extend, names=["proxy_class"])
    extend()


def _show_our_templates(app: JupyterHub) -> None:
    """Let our spawn and progress pages take precedence over JupyterHub's, but not the admin's."""

    def add(_change: object = None) -> None:
        if str(TEMPLATES) not in app.template_paths:
            own = app._template_paths_default()
            admins = [path for path in app.template_paths if path not in own]
            app.template_paths = [*admins, str(TEMPLATES), *own]

    app.observe(add, names=["template_paths"])
    add()


async def _begin_or_exit(app: JupyterHub) -> None:
    """Exit the hub if it could not start any server."""
    try:
        await _begin(app)
    except (ConfigError, IdentitySetupError, StoreError) as error:
        app.log.critical(str(error))  # several lines, with values that the admin wrote
    except CloudError as error:
        app.log.critical(
            "EC2 refused the first calls of ec2spawner: %s. Fix: check region, subnets and "
            "credentials of c.EC2Spawner, and the permissions in configs/iam-policy.json",
            str(error).rstrip("."),
        )
    except Exception:
        app.log.exception("ec2spawner cannot start")
    # While we waited for a held store, JupyterHub has started its proxy.
    if getattr(app.proxy, "proxy_process", None) is not None:
        app.proxy.stop()
    sys.exit(1)


async def _begin(app: JupyterHub) -> None:
    """Validate, open, start; then keep running until the hub ends.

    Runs at the first await after the configuration is loaded, before the proxy starts: a hub
    that refuses its configuration leaves nothing behind.
    """
    options = validate(app)
    if unknown := why_prices_are_unknown(options.region):
        log.warning("Prices: %s", unknown)
    verifier = IdentityVerifier(options.region, map(Path, options.identity_certificates))
    store = await _open_store(app, options)
    clock = Clock(utc_now)
    accounts = UserAccounts(store, clock)
    await accounts.load()
    accounts.follow(all_users(app.db))
    service = HubService(options, Seal(app.cookie_secret), verifier, accounts, authority(app))
    publish(service)
    cloud = EC2Cloud(options.region, options.endpoint_url or None)
    provisioner = Provisioner(
        cloud,
        store,
        _by_account(settings_of(options), accounts),
        data.instance_types(options.region),
        clock,
        accounts,
        ended=service.lease_ended,
        payers_of=default_payers(options.payers.payers(), lambda: app.db, accounts.name),
        lost_payers=lost_payers(options.payers.payers(), lambda: app.db, accounts),
    )
    try:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception(lambda e: isinstance(e, CloudError) and e.retryable),
            wait=wait_random_exponential(max=30),
            reraise=True,
            before_sleep=lambda state: app.log.error(
                "EC2 does not answer yet: %s", state.outcome and state.outcome.exception()
            ),
        ):
            with attempt:
                await provisioner.start()
        await refuse_small_disks(provisioner, options)
        events = EventLog(app.eventlog, provisioner.lease_events, accounts, options.contact)
        provisioner.spawn(events.run(), "event log")
        if namespace := options.cloudwatch_namespace:
            published = CloudWatchMetrics(cloud.client, namespace, options.hub_name, provisioner)
            provisioner.spawn(published.run(), "CloudWatch")
        if url := options.interruption_queue:
            queue = SpotEventQueue(url, options.region, options.endpoint_url or None)
            received = InterruptionQueue(queue, provisioner)
            provisioner.spawn(received.run(), "interruption queue")
        if options.alarms.to:
            delivery = Delivery(provisioner.alarms, destinations(options), Clock(utc_now))
            provisioner.spawn(delivery.run(), "delivery of alarms")
        service.started(provisioner)
        provisioner.spawn(bound_requests(app), "bounds of requests")
        provisioner.spawn(explain_refused_names(app), "names of users")
        provisioner.spawn(Resumes(app, service, provisioner).run(), "resumes")
        provisioner.spawn(RunStarts(app, service, provisioner).run(), "starts of runs")
        address = api_address.api_address(app, options).url
        provisioner.spawn(PoolSpecs(options, provisioner, address).run(), "warm pool")
        pauses = GCPauses(lambda: nothing_starts_or_stops(provisioner.lease_states()))
        provisioner.spawn(pauses.run(), "garbage collection")
        with pauses.kept_short(), metrics.on_metrics_endpoint(provisioner):
            await asyncio.get_running_loop().create_future()
    finally:
        publish(None)
        verifier.close()
        await provisioner.close()
        await cloud.close()


async def refuse_small_disks(provisioner: Provisioner, options: Options) -> None:
    """Raises `ConfigError` if a configured root disk is smaller than the image's.

    An image that is unknown by then refuses nothing: starts say why, and get a disk that is large
    enough.
    """
    try:
        async with asyncio.timeout(IMAGE_TIMEOUT):
            image = await provisioner.market.images.current()
    except (CloudError, TimeoutError) as error:
        log.warning("The sizes of root disks are not compared with the image: %s", error or "late")
        return
    if problems := small_disks(options, image):
        raise ConfigError(problems)


async def _open_store(app: JupyterHub, options: Options) -> Store:
    # Instances of an embedded EC2 end with it: a copied store could harm nothing.
    agents_at = (
        "" if options.endpoint_url else urlsplit(api_address.api_address(app, options).url).netloc
    )
    async for attempt in AsyncRetrying(
        retry=retry_if_exception_type((StoreAwayError, StoreHeldError)),
        stop=stop_after_delay(STORE_TIMEOUT),
        wait=wait_fixed(0.5),
        reraise=True,
    ):
        with attempt:
            return await Store.open(
                options.store_url,
                now=utc_now(),
                agents_at=agents_at,
                moved_from=options.hub_moved_from,
            )
    raise AssertionError("unreachable: the last attempt raises")


def authority(app: JupyterHub) -> NotebookAuthority | None:
    """The authority that signs the certificates of notebooks; None without `internal_ssl`."""
    if not app.internal_ssl:
        return None
    return NotebookAuthority(
        Path(app.internal_certs_location).absolute(),
        lambda: Path(app.internal_trust_bundles[AUTHORITY]).absolute(),
    )


def settings_of(options: Options) -> Settings:
    """The provisioner's settings from the hub's options, in seconds and GiB."""
    types = {kind.name for p in options.profiles for kind in options.instance_types(p)}
    types |= {name for p in options.profiles for name in p.instance_types}
    limits = options.limits.limits()
    return Settings(
        hub=options.hub_name,
        region=options.region,
        subnets=options.subnets,
        boot_timeout=options.boot_timeout,
        ready_timeout=options.ready_timeout,
        agent_silent_after=options.agent_silent_after,
        stop_timeout=options.stop_timeout,
        image=options.image.query(options.architecture),
        architecture=options.architecture,
        discounts=tuple(each.discount() for each in options.discounts),
        capacity_reservations=options.capacity_reservations.choice(),
        want_types=tuple(sorted(types)),
        keeps=_keeps(options),
        home=options.home.rules(),
        alarms=options.alarms.rules(),
        alarm_destinations=tuple(options.alarms.destinations()),
        time_zone=ZoneInfo(options.time_zone),
        limits=limits,
        pool=options.pool_rules,
        has_clusters=options.clusters.max_workers > 0,
        runs=options.runs.rules(),
        spending_days=limits.days,
    )


def _by_account(settings: Settings, accounts: UserAccounts) -> Settings:
    """What the options say of a user holds for the account that has the name now."""
    limits, runs = settings.limits, settings.runs
    return replace(
        settings,
        limits=replace(limits, scopes=accounts.by_account(limits.scopes)),
        runs=replace(runs, priorities=accounts.by_account(runs.priorities)),
    )


def _keeps(options: Options) -> frozenset[tuple[str, str]] | None:
    """Which profiles retain instances, and how; None if a function returns the profiles."""
    if callable(options.profile_list):
        return None
    return keeps_of({p.slug: options.after_stop_of(p).then for p in options.profiles})
