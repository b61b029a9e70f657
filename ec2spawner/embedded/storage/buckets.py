"""S3 as far as buckets to mount need it: moto's, behind the same endpoint as EC2.

Addresses have the bucket in their path, as boto3 writes them for an endpoint by number. Objects
live in moto's memory and go with the embedded EC2; they are as large as one request may be.
"""

from __future__ import annotations

import uuid
from xml.sax.saxutils import escape

from tornado.web import RequestHandler

from ..api.access_keys import AccessKeys, Denial, DeniedError
from ..api.moto_backend import Moto
from ..api.protocol import EC2Error

ROUTE = r"/(?!(?:embedded|moto-api)(?:/|$))[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/.*)?"

"""A bucket's path, and no other: moto's own control calls would be below `/moto-api`."""

DENIALS = {
    Denial.MISSING: "AccessDenied",
    Denial.UNKNOWN_KEY: "InvalidAccessKeyId",
    Denial.BAD_SIGNATURE: "SignatureDoesNotMatch",
    Denial.NOT_ALLOWED: "AccessDenied",
}
"""S3's codes, each with the HTTP status 403."""

_NOT_PASSED_ON = frozenset({"connection", "content-length", "server", "date", "transfer-encoding"})


class BucketHandler(RequestHandler):
    """Hands a request of S3's REST protocol to moto, and back what it says."""

    def initialize(self, moto: Moto, keys: AccessKeys) -> None:
        """Called by tornado for each request."""
        self._moto = moto
        self._keys = keys

    def check_xsrf_cookie(self) -> None:
        """No browser's business."""

    async def _pass_on(self) -> None:
        request = self.request
        assert request.method is not None
        try:
            service = self._keys.authenticate(request)
            # moto would answer as the service that the signature names.
            if service != "s3":
                raise DeniedError(Denial.NOT_ALLOWED, service)
        except DeniedError as error:
            self._refuse(error)
            return
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
            lower = name.lower()
            # moto opens every answer to pages of any site.
            if lower not in _NOT_PASSED_ON and not lower.startswith("access-control-"):
                self.set_header(name, value)
        # Also an empty body is one to tornado, and a 204 has none.
        self.finish(answer.body if answer.body and request.method != "HEAD" else None)

    def _refuse(self, error: DeniedError) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "application/xml")
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{DENIALS[error.denial]}</Code><Message>{escape(str(error))}</Message>"
            f"<RequestId>{uuid.uuid4()}</RequestId></Error>"
        )
        self.finish(None if self.request.method == "HEAD" else body)

    get = head = post = put = delete = _pass_on
