"""CreateFleet: stored before it is made, made with a back-off that all calls share, and logged."""

from __future__ import annotations

import asyncio
import logging

from ...core.names import client_token, tag_value
from ...core.offers.launch_errors import ErrorClass, LaunchError, error_class
from ...core.offers.quotas import quota_in_log
from ...core.tags import HUB, INTENT, LAUNCH_KEY, POOL, STORE
from ..model.cloud.cloud import Cloud, CloudError
from ..model.cloud.launch import FleetResponse, LaunchRequest, LaunchSpec
from ..model.error_hints import fix_of
from ..model.launch_key import launch_key_of
from ..model.leases.lease import Intent, IntentState
from ..offers.images import ImageCache
from ..offers.offers import Order
from ..state.state import State
from ..store.store import Store
from .fleet_response import is_partly_busy
from .shared_backoff import SharedBackoff

log = logging.getLogger(__name__)

LAUNCH_TIMEOUT = 60.0
"""Seconds for one launch call, the launch template included."""

_NOTHING_UNTIL = {
    ErrorClass.MARKET: "No {} until this is fixed",
    ErrorClass.PLAN: "None of these types until this is fixed",
    ErrorClass.VERIFICATION: "No instance until this is over",
}
"""Errors of the account that no other offer avoids, as the log introduces them."""

IMAGE_GONE = "InvalidAMIID"
"""Prefix of the EC2 error codes that say that an image no longer exists."""


class FleetCalls:
    """Makes launch calls. A call is replayed word for word after a crash."""

    def __init__(self, state: State, cloud: Cloud, store: Store, images: ImageCache) -> None:
        self._state = state
        self._cloud = cloud
        self._store = store
        self._images = images
        self._backoff = SharedBackoff(state.settings.launch_pause)

    def deadline(self) -> float:
        """Until when a call that begins now may be repeated, in seconds of the loop's clock."""
        return asyncio.get_running_loop().time() + self._state.settings.launch_timeout

    async def store_intent(self, spec: LaunchSpec, order: Order, pool: str = "") -> Intent:
        """The call for an order, stored with its token and its exact content; `pool` is the profile
        of a call for the warm pool.

        Raises `StoreError`; then the call must not be made.
        """
        token = client_token(order.market)
        tags = {
            HUB: self._state.settings.hub,
            STORE: self._state.store_id,
            LAUNCH_KEY: launch_key_of(spec),
            INTENT: token,
        }
        if pool:
            tags[POOL] = tag_value(pool)
        request = LaunchRequest(
            client_token=token,
            market=order.market,
            count=order.count,
            spec=spec,
            tags=tags,
            offers=order.pairs,
            preferred=order.preferred,
            reservation=order.reservation,
            is_block=order.is_block,
        )
        intent = Intent(request, launch_key_of(spec), IntentState.OPEN, self._state.clock.now())
        await asyncio.shield(self._store.save_intent(intent))
        self._state.launches.intents[token] = intent
        return intent

    async def create(self, request: LaunchRequest, deadline: float) -> FleetResponse:
        """Make one call once the shared back-off lets it.

        Raises `CloudError`, and `TimeoutError` where its turn does not come by the `deadline`.
        """
        async with self._backoff.turn(deadline) as turn:
            self._state.leases.times.launch_asked(request.client_token)
            try:
                response = await self.create_once(request)
            except CloudError as error:
                self._backoff.report(turn, busy=is_busy_error(error))
                raise
            self._backoff.report(turn, busy=is_partly_busy(response))
            return response

    async def create_once(self, request: LaunchRequest) -> FleetResponse:
        """Make one call now, whatever other calls have met. Raises `CloudError`."""
        try:
            async with asyncio.timeout(LAUNCH_TIMEOUT):
                return await self._cloud.launch(request)
        except TimeoutError:
            message = f"no answer to CreateFleet within {LAUNCH_TIMEOUT:.0f} s"
            raise CloudError("Timeout", message, retryable=True) from None

    def respond(self, intent: Intent, state: IntentState, response: FleetResponse) -> Intent:
        """Apply the response in memory, and log it."""
        if any(error.code.startswith(IMAGE_GONE) for error in response.errors):
            self._images.doubt(intent.request.spec.image_id)
        _log_response(intent.request, response)
        found = [launched.instance_id for launched in response.instances]
        self._state.leases.times.launch_answered(intent.client_token, found)
        return self._state.launches.respond(intent, state, response, self._state.clock.now())

    async def store_response(self, intent: Intent) -> None:
        """Store a call with its response, now or with a later pass."""
        await self._store.write_behind.now_or_later(
            f"the response to {intent.client_token}", lambda: self._store.save_intent(intent)
        )


def is_busy_error(error: CloudError) -> bool:
    """True if the same call is worth repeating within seconds."""
    found = error_class(error.code)
    return found is not ErrorClass.VERIFICATION and (error.retryable or found is ErrorClass.BUSY)


def _log_response(request: LaunchRequest, response: FleetResponse) -> None:
    """A line for the instances and one for each error code: a call may ask for 300 offers."""
    ids = ", ".join(launched.instance_id for launched in response.instances)
    place = f" in reservation {request.reservation}" if request.reservation else ""
    requested = f"{request.count} x {request.market}{place}"
    log.info("Launched %d of %s: %s", len(response.instances), requested, ids or "none")
    by_code: dict[str, list[LaunchError]] = {}
    for error in response.errors:
        by_code.setdefault(error.code, []).append(error)
    for code, alike in by_code.items():
        types = {error.instance_type for error in alike} - {""}
        places = {error.zone or error.subnet for error in alike} - {""}
        log.warning(
            "Launching %s (%s in %s): %s: %s",
            requested,
            ", ".join(sorted(types)) or "any type",
            ", ".join(sorted(places)) or "any zone",
            code,
            alike[0].message,
        )
        if (nothing := _NOTHING_UNTIL.get(error_class(code))) is not None:
            log.error("%s: %s", nothing.format(request.market), fix_of(code, ""))
        if error_class(code) is ErrorClass.QUOTA:
            requested_types = types or {name for name, _ in request.offers}
            exceeded = {quota_in_log(request.market, each) for each in requested_types}
            log.warning("%s", "; ".join(sorted(exceeded)))
