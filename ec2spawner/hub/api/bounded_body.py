"""Base of all our calls with a body: it is read once its sender is known and may send it."""

from __future__ import annotations

import re
from typing import Any, ClassVar, NoReturn, TypeVar

from pydantic import BaseModel
from tornado.web import HTTPError, stream_request_body

from ...core.text.strict_json import check_type, read_model
from ...wire import MAX_BODY_BYTES
from ..app.event_loop.user_turns import Turn, UserTurns
from .strict_body import StrictBody

M = TypeVar("M", bound=BaseModel)

BODY_SECONDS = 10.0
"""A body that has not arrived completely by then closes its connection without an answer. Clients
send their bodies in one piece; a slow sender holds a file descriptor of the hub."""


class Refused(Exception):
    """Why a request is refused before its body is read."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@stream_request_body
class BoundedBody(StrictBody):
    """Bounds size (413) and duration of a body before any of it is read.

    Of a request that `admit` refuses, the body is neither kept nor parsed. It is let pass before
    the answer: a proxy answers 503 in our place if we answer, and close the connection, while it
    still sends.
    """

    MAX_BODY_BYTES: ClassVar[int] = MAX_BODY_BYTES
    """The largest body of a request of this kind."""

    is_preparing = True
    """Whether its body is yet to be read."""
    _refusal: Exception | None = None
    _turn: Turn | None = None
    _has_arrived = False

    async def prepare(self) -> None:
        """Bound the body, identify the user, and `admit` the request."""
        self._chunks: list[bytes] = []
        declared = self.request.headers.get("Content-Length", "0")
        # Python refuses to parse a number of thousands of digits.
        if not re.fullmatch("[0-9]{1,9}", declared) or int(declared) > self.MAX_BODY_BYTES:
            self.refuse_size(f"a body may have {self.MAX_BODY_BYTES} bytes")
        # Tornado cuts off a body without a length, with a plain 400.
        self.request.connection.set_max_body_size(self.MAX_BODY_BYTES)
        self.request.connection.set_body_timeout(BODY_SECONDS)
        try:
            await super().prepare()
            await self.admit()
        except (HTTPError, Refused) as error:
            self._refusal = error
            # In the place of the method that would answer, once the body has passed.
            setattr(self, str(self.request.method).lower(), self._refuse)
        self.is_preparing = False

    async def admit(self) -> None:
        """Raises `HTTPError` or `Refused` for a request whose body is not to be read."""

    async def _refuse(self, *_: str) -> None:
        assert self._refusal is not None
        raise self._refusal

    def refuse_size(self, message: str) -> NoReturn:
        """End the request with 413."""
        raise HTTPError(413, message)

    @property
    def may_be_large(self) -> bool:
        """Whether the body may have more than small ones have."""
        declared = self.request.headers.get("Content-Length")
        is_chunked = "Transfer-Encoding" in self.request.headers
        return is_chunked or (declared is not None and int(declared) > MAX_BODY_BYTES)

    async def wait_turn(self, turns: UserTurns, user: str) -> None:
        """Have a turn from now until the request is answered. Raises `TooManyAtOnce`."""
        self._turn = await turns.take(user)

    def data_received(self, chunk: bytes) -> None:
        """Collect the body, which tornado leaves to handlers of streamed requests."""
        if self._refusal is None:
            self._chunks.append(chunk)

    def body(self) -> bytes:
        """All of it."""
        self._has_arrived = True
        return b"".join(self._chunks)

    def get_json_body(self) -> dict[str, Any] | None:
        """As the base has it."""
        self.request.body = self.body()
        return super().get_json_body()

    def read_body(self, model: type[M]) -> M:
        """The body as a message. Raises `WrongBody`."""
        check_type(self.request.headers.get("Content-Type"))
        return read_model(model, self.body())

    def refuse_body(self) -> None:
        """For calls that take none. Raises `HTTPError` (400) for one that says something."""
        if self.get_json_body():
            raise HTTPError(400, "this call takes no body")

    def release_body(self) -> None:
        """Free the body of a request that is held: it has been read."""
        self._chunks.clear()

    def on_finish(self) -> None:
        """Give the turn back."""
        self._end_turn()
        super().on_finish()

    def on_connection_close(self) -> None:
        """Give the turn back if the body will not arrive: then there is no answer."""
        super().on_connection_close()
        if not self._has_arrived:
            self._end_turn()

    def _end_turn(self) -> None:
        if self._turn is not None:
            self._turn.give_back()
