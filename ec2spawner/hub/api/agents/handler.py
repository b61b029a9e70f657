"""Base of the agents' API: a small body in, within a timeout; a model of `wire` out.

JupyterHub's cookies and tokens are not accepted here.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from tornado.web import Finish

from ....core.text.strict_json import WrongBody
from ....provisioner.model.cloud.instance import Instance
from ....provisioner.model.leases.lease import Lease
from ....provisioner.provisioner import Provisioner
from ....provisioner.store.store import StoreError
from ....wire import Message, Refusal
from ...app import service
from ...app.service import HubService
from ..bounded_body import BoundedBody, Refused

STOPPING = "the hub is stopping"

LIMITED_PAUSE = 1.0
"""Seconds before a call is answered 429."""

LISTINGS = 3
"""Listings to wait for what EC2 knows of an instance from the launch on."""

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class AgentHandler(BoundedBody):
    """Reads a small body, answers a model."""

    _accept_cookie_auth = False
    _accept_token_auth = False

    def check_xsrf_cookie(self) -> None:
        """No cookie is accepted here, so none can be forged."""

    def refuse_size(self, message: str) -> NoReturn:
        """End the request with 413. Raises `Finish`."""
        self.is_preparing = False
        self.refuse(413, message)

    async def _refuse(self, *_: str) -> None:
        if isinstance(self._refusal, Refused):
            self.refuse(self._refusal.status, self._refusal.message)
        await super()._refuse()

    def read(self, model: type[M], instead: str = "") -> M:
        """The body as a message; ends the request with 400 if it is invalid.

        `instead`: a message that replaces what is wrong with the body.
        """
        try:
            return self.read_body(model)
        except WrongBody as error:
            self.refuse(400, instead or str(error))

    def answer(self, status: int, message: Message) -> None:
        """Send a message as JSON and finish the request."""
        self.set_status(status)
        self.finish(message.model_dump_json())

    def refuse(self, status: int, message: str) -> NoReturn:
        """End the request with a `Refusal`. Raises `Finish`; `Refused` before the body is read."""
        if self.is_preparing:
            raise Refused(status, message)
        self.answer(status, Refusal(message=message[:500]))
        raise Finish

    def retry_later(self, message: str) -> NoReturn:
        """End the request with 503 and Retry-After. Raises `Finish`."""
        self.set_header("Retry-After", "2")
        self.refuse(503, message)

    async def refuse_for_now(self, seconds: float, message: str) -> NoReturn:
        """End the request with 429, after a pause. Raises `Finish`.

        The pause slows down clients that retry at once: answering 429 costs the hub nearly as much
        as a heartbeat.
        """
        try:
            await asyncio.sleep(LIMITED_PAUSE)
        except asyncio.CancelledError:
            self.retry_later(STOPPING)
        self.set_header("Retry-After", str(math.ceil(max(seconds, 1))))
        self.refuse(429, message)

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Answer 503 if the store failed, so that the agent retries."""
        if isinstance(kwargs.get("exc_info", (None, None))[1], StoreError):
            status_code = 503
        super().send_error(status_code, **kwargs)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """A failed store is one line: the hub reports it once, not for each agent."""
        if isinstance(value, StoreError):
            self.log.error("%s: %s", self.request.path, value)
        else:
            super().log_exception(typ, value, tb)

    @property
    def service(self) -> HubService:
        """What the hub process holds; refuses with 503 while the hub is starting."""
        running = service.current()
        if running is None or running.provisioner is None:
            self.retry_later("the hub is starting")
        return running

    @property
    def provisioner(self) -> Provisioner:
        """The running provisioner; refuses with 503 while the hub is starting."""
        provisioner = self.service.provisioner
        assert provisioner is not None
        return provisioner

    async def address(self, lease: Lease) -> str:
        """The instance's private address as EC2 reports it, never as the instance does."""
        return await self.listed(lease, lambda each: each.private_address or None, "address")

    async def listed(self, lease: Lease, read: Callable[[Instance], T | None], what: str) -> T:
        """What `read` finds of the lease's instance; ends the request with 503 if EC2 does not
        report it within `LISTINGS` listings."""
        for _ in range(LISTINGS):
            instance = self.provisioner.instance(lease.instance_id)
            if instance is not None and (found := read(instance)) is not None:
                return found
            await self.provisioner.next_listing(timeout=10)
        return self.retry_later(f"EC2 does not report this instance's {what} yet")
