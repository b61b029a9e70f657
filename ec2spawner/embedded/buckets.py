"""S3 as far as buckets to mount need it: moto's, behind the same endpoint as EC2.

Addresses have the bucket in their path, as boto3 writes them for an endpoint by number. Objects
live in moto's memory and go with the embedded EC2; they are as large as one request may be.
"""

from __future__ import annotations

from tornado.web import RequestHandler

from .moto_backend import Moto
from .protocol import EC2Error

ROUTE = r"/(?!embedded(?:/|$))[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/.*)?"

_NOT_PASSED_ON = frozenset({"connection", "content-length", "server", "date", "transfer-encoding"})


class BucketHandler(RequestHandler):
    """Hands a request of S3's REST protocol to moto, and back what it says."""

    def initialize(self, moto: Moto) -> None:
        self._moto = moto

    def check_xsrf_cookie(self) -> None:
        """No browser's business."""

    async def _pass_on(self) -> None:
        request = self.request
        assert request.method is not None
        try:
            answer = await self._moto.forward_rest(
                request.method, request.uri or "/", request.body, dict(request.headers)
            )
        except EC2Error as error:
            self.set_status(501)
            self.finish(str(error))
            return
        self.clear()
        self.set_status(answer.status)
        for name, value in answer.headers:
            if name.lower() not in _NOT_PASSED_ON:
                self.set_header(name, value)
        # Also an empty body is one to tornado, and a 204 has none.
        self.finish(answer.body if answer.body and request.method != "HEAD" else None)

    get = head = post = put = delete = _pass_on
