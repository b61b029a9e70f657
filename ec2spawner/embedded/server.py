"""The embedded EC2 as one thing: start it, talk to its endpoint, stop it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from .. import data
from . import network
from .api.access_keys import AccessKeys
from .api.loopback import NoBrowsers
from .api.moto_backend import Moto
from .control.control import ROUTES, UnknownHandler
from .control.handler import Controls
from .faults import Faults
from .gateway.authorization import Authorization
from .gateway.call_log import Calls
from .gateway.dry_run import DryRuns
from .gateway.gateway import Gateway, GatewayHandler
from .gateway.missing_resources import References
from .gateway.policy_use import PolicyUse
from .gateway.throttle import Throttle
from .iam.hub_policy import cluster_statements, hub_policy, interruption_statements
from .images import Images
from .instances.account import Account
from .instances.actions import Instances
from .instances.capacity_reservations import CapacityReservations
from .instances.fleet import Fleets
from .instances.group_actions import SecurityGroups
from .instances.launch import Launcher
from .instances.lifecycle import Lifecycles
from .instances.placement_groups import PlacementGroups
from .instances.quotas import Quotas
from .instances.reservations import Reservations
from .instances.scheduled_events import ScheduledEvents
from .market.capacity import Capacity
from .market.price_list import PriceList
from .market.prices import OnDemandPrices, SpotPrices
from .market.reserved_places import ReservedPlaces
from .network import AddressBlock
from .read_lag import ReadLag
from .runtime.identity import IdentitySigner
from .runtime.instance_runtime import InstanceRuntime
from .services import fault_injection
from .services.fault_injection import FaultInjection, FaultInjectionHandler
from .services.free_tier import FreeTier
from .services.public_parameters import PublicParameters
from .services.queues import Queues
from .services.service_quotas import ServiceQuotas
from .storage import buckets
from .storage.buckets import BucketHandler
from .storage.file_systems import FileSystems
from .storage.snapshots import Snapshots
from .storage.volumes import Volumes

REGION = data.PRICES_REGION
HOST = "127.0.0.1"
SPOT_SERVICE = "spot.amazonaws.com"
"""Has its service-linked role, as in an account that has used spot before."""
MAX_BODY = 1024 * 1024

HUB_NAME = "demo"
"""`c.EC2Spawner.hub_name` in the demo's configuration: its key may change this hub's resources."""

BOOT_SECONDS = 3.0
"""A simulated boot, long enough to be seen; EC2 takes about 25 s."""
TERMINATED_VISIBLE_SECONDS = 60.0
"""How long a terminated instance is listed; about an hour on EC2."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What users of an embedded EC2 need to know: endpoints, keys, ids."""

    ec2_endpoint: str
    region: str
    subnets: list[str]
    image_id: str
    certificate: str
    """Path of the PEM file against which identity documents verify."""
    account: str
    data_dir: str
    pid: int
    security_group: str
    """For instances with notebooks: it admits members of the hub's group only."""
    hub_security_group: str
    """Of the hub's machine: the default group of the VPC."""
    zones: list[str]
    """Availability zone of each subnet, in the same order."""
    aws_access_key_id: str
    """The hub's key: it may do what `configs/iam-policy.json` and `configs/clusters-policy.json`
    allow."""
    aws_secret_access_key: str
    admin_access_key_id: str
    """The administrator's: it may do everything."""
    admin_secret_access_key: str
    control_token: str
    """What a control call needs. This and the access keys are random at each start."""
    lag_seed: int
    """Of the read-after-write lags: `--lag-seed` repeats them."""
    rehearsal_role: str
    """ARN of the role for `c.EC2Spawner.rehearsal_role`; empty without `--rehearsals`."""


class EmbeddedEC2:
    """EC2 on this machine, on a loopback endpoint of its own.

    `await start()` inside a running event loop; `await stop()` ends every instance's processes
    and closes every port. With a `data_dir`, volumes and the identity key outlive a stop;
    without one they live in a temporary directory that goes with it. One data directory serves
    one embedded EC2 at a time.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        port: int = 0,
        hub_name: str = HUB_NAME,
        boot_seconds: float = BOOT_SECONDS,
        terminated_visible_seconds: float = TERMINATED_VISIBLE_SECONDS,
        lag_seed: int | None = None,
        lag_seconds: float | None = None,
        rehearsals: bool = False,
    ) -> None:
        """`rehearsals`: the hub may interrupt its spot servers on purpose. `lag_seed` repeats the
        read-after-write lags of an earlier run; `lag_seconds` is one lag for everything instead."""
        self._temporary = data_dir is None
        self._wanted_data_dir = Path(data_dir).resolve() if data_dir is not None else None
        self._port = port
        self._hub_name = hub_name
        self._boot_seconds = boot_seconds
        self._terminated_visible_seconds = terminated_visible_seconds
        seed = secrets.randbits(32) if lag_seed is None else lag_seed
        self._lag = ReadLag(seed, lag_seconds)
        self._rehearsals = rehearsals
        self._stack = contextlib.AsyncExitStack()
        self._facts: Facts | None = None

    @property
    def facts(self) -> Facts:
        """Raises RuntimeError before `start`."""
        if self._facts is None:
            raise RuntimeError("the embedded EC2 has not been started")
        return self._facts

    @property
    def endpoint(self) -> str:
        """URL of the EC2 API; raises RuntimeError before `start`."""
        return self.facts.ec2_endpoint

    async def __aenter__(self) -> EmbeddedEC2:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    async def start(self) -> Facts:
        """Be ready for calls. Raises OSError when a port or the data directory is in use."""
        try:
            self._facts = await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self._facts

    async def stop(self) -> None:
        """End everything; returns when nothing is left. Stopping twice is no error."""
        await self._stack.aclose()

    async def _start(self) -> Facts:
        data_dir = await asyncio.to_thread(self._open_data_dir)
        notes = await asyncio.to_thread(_read_notes, data_dir / "embedded.json")
        signer = await asyncio.to_thread(IdentitySigner, data_dir)
        keys = AccessKeys()
        block = AddressBlock(int(notes["room"], 16))
        self._stack.callback(block.release)

        moto = Moto(notes["account"], REGION)
        self._stack.push_async_callback(moto.close)
        runtime = InstanceRuntime(
            data_dir,
            notes["room"],
            signer,
            keys,
            lambda instance_id, what: lifecycles.power_button(instance_id, what),
        )
        capacity, quotas, reservations = Capacity(), Quotas(), Reservations()
        places = ReservedPlaces(capacity)
        spot_prices, on_demand_prices = SpotPrices(), OnDemandPrices()
        self._stack.push_async_callback(runtime.close)
        await asyncio.gather(moto.start(), runtime.open())
        built = await moto.run(lambda: network.build(moto, block))
        lifecycles = Lifecycles(
            moto,
            runtime,
            places,
            built.hub_subnet,
            self._boot_seconds,
            self._terminated_visible_seconds,
        )
        self._stack.push_async_callback(lifecycles.close)
        await moto.forward_call(
            "CreateServiceLinkedRole", {"AWSServiceName": SPOT_SERVICE}, service="iam"
        )
        snapshots = Snapshots(moto, runtime, data_dir / "snapshots.json")
        account = Account(REGION)
        register = data_dir / "volumes.json"
        volumes = Volumes(moto, lifecycles, runtime, snapshots, account, register)
        self._stack.push_async_callback(volumes.close)
        await volumes.restore()
        await snapshots.restore()

        file_systems = FileSystems(moto, built, data_dir)
        await file_systems.restore()
        placement_groups = PlacementGroups(REGION, notes["account"], lifecycles, self._lag)
        launcher = Launcher(
            moto, built, lifecycles, places, quotas, placement_groups, account, self._lag
        )
        capacity_reservations = CapacityReservations(moto, places, lifecycles, quotas)
        scheduled_events = ScheduledEvents(lifecycles)
        self._stack.callback(scheduled_events.close)
        calls, throttle, faults = Calls(), Throttle(), Faults()
        groups = SecurityGroups(moto, lifecycles)
        instances = Instances(moto, launcher, lifecycles, runtime, groups, account)
        fleets = Fleets(launcher, spot_prices, on_demand_prices, faults)
        authorization = Authorization(
            moto, lifecycles, placement_groups, built.default_group, PolicyUse()
        )
        experiments = FaultInjection(moto, lifecycles, authorization.check_access)
        self._stack.callback(experiments.close)
        gateway = Gateway(
            moto,
            built,
            instances,
            fleets,
            volumes,
            snapshots,
            Images(moto),
            authorization,
            References(moto, lifecycles, groups),
            spot_prices,
            reservations,
            capacity_reservations,
            scheduled_events,
            groups,
            placement_groups,
            DryRuns(moto, instances, fleets, volumes, groups, placement_groups),
            {
                "freetier": FreeTier(account, notes["account"]),
                "pricing": PriceList(on_demand_prices, REGION),
                "servicequotas": ServiceQuotas(quotas, notes["account"], REGION),
                "sqs": Queues(moto),
                "ssm": PublicParameters(built.image_id),
            },
            throttle,
            faults,
            self._lag,
            calls,
        )
        self._stack.push_async_callback(gateway.close)
        controls = Controls(
            secrets.token_urlsafe(32),
            calls,
            lifecycles,
            runtime,
            capacity,
            quotas,
            account,
            throttle,
            faults,
            self._lag,
            spot_prices,
            on_demand_prices,
            reservations,
            capacity_reservations,
            scheduled_events,
            moto,
            built,
            file_systems,
            REGION,
            signer.certificate_pem,
            keys,
        )
        of_hub = REGION, notes["account"], self._hub_name
        more = cluster_statements(*of_hub)
        more += interruption_statements(*of_hub) if self._rehearsals else []
        hub_key = keys.issue_for_hub(hub_policy(*of_hub, more))
        role = await fault_injection.create_role(moto) if self._rehearsals else ""
        port = self._listen(gateway, controls, experiments, moto, keys)
        runtime.s3_endpoint = f"http://{HOST}:{port}"
        return Facts(
            ec2_endpoint=f"http://{HOST}:{port}",
            region=REGION,
            subnets=list(built.subnets.values()),
            image_id=built.image_id,
            certificate=str(signer.certificate_path),
            account=notes["account"],
            data_dir=str(data_dir),
            pid=os.getpid(),
            security_group=built.security_group,
            hub_security_group=built.default_group,
            zones=list(built.subnets),
            aws_access_key_id=hub_key.id,
            aws_secret_access_key=hub_key.secret,
            admin_access_key_id=keys.administrator.id,
            admin_secret_access_key=keys.administrator.secret,
            control_token=controls.token,
            lag_seed=self._lag.seed,
            rehearsal_role=role,
        )

    def _listen(
        self,
        gateway: Gateway,
        controls: Controls,
        experiments: FaultInjection,
        moto: Moto,
        keys: AccessKeys,
    ) -> int:
        sockets = bind_sockets(self._port, HOST)
        port = int(sockets[0].getsockname()[1])
        application = Application(
            [
                (r"/", GatewayHandler, {"gateway": gateway, "keys": keys}),
                *((pattern, handler, {"controls": controls}) for pattern, handler in ROUTES),
                (
                    fault_injection.ROUTE,
                    FaultInjectionHandler,
                    {"service": experiments, "keys": keys},
                ),
                (buckets.ROUTE, BucketHandler, {"moto": moto, "keys": keys}),
                (r"/embedded.*", UnknownHandler, {"controls": controls}),
            ],
            log_function=lambda handler: None,
        )
        hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        server = HTTPServer(NoBrowsers(application, hosts), max_body_size=MAX_BODY)
        server.add_sockets(sockets)

        async def close() -> None:
            server.stop()
            await server.close_all_connections()

        self._stack.push_async_callback(close)
        return port

    def _open_data_dir(self) -> Path:
        if self._wanted_data_dir is None:
            data_dir = Path(tempfile.mkdtemp(prefix="ec2spawner-embedded-"))
            # Users of instances, where they are others, may pass through but not look around.
            data_dir.chmod(0o711)
            self._stack.callback(shutil.rmtree, data_dir, ignore_errors=True)
        else:
            data_dir = self._wanted_data_dir
            data_dir.mkdir(parents=True, exist_ok=True)
        self._stack.callback(_lock(data_dir).close)
        return data_dir


def _lock(data_dir: Path) -> IO[str]:
    """Hold the data directory; the kernel lets go when the process ends, however it ends."""
    file = (data_dir / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise OSError(f"{data_dir} is in use by another embedded EC2") from error
    return file


def _read_notes(path: Path) -> dict[str, Any]:
    """What stays the same for a data directory: its AWS account and its instance runtime's mark."""
    if path.exists():
        notes: dict[str, Any] = json.loads(path.read_text())
        return notes
    notes = {"account": f"{secrets.randbelow(9 * 10**11) + 10**11}", "room": secrets.token_hex(8)}
    path.write_text(json.dumps(notes))
    return notes
