"""S3 as far as mounted buckets need it: moto's, on the same endpoint as EC2.

The bucket is in the path, as boto3 writes it for an endpoint with an IP address. Objects are in
moto's memory and end with the embedded EC2; they are at most as large as one request.
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
    Denial.EXPIRED: "RequestTimeTooSkewed",
    Denial.NOT_ALLOWED: "AccessDenied",
}
"""S3's codes, each with the HTTP status 403."""

_NOT_PASSED_ON = frozenset({"connection", "content-length", "server", "date", "transfer-encoding"})


class BucketHandler(RequestHandler):
    """Forwards requests of S3's REST protocol to moto."""

    def initialize(self, moto: Moto, keys: AccessKeys) -> None:
        """Called by tornado for each request."""
        self._moto = moto
        self._keys = keys

    def check_xsrf_cookie(self) -> None:
        """Not needed: pages in browsers are refused, see `api.loopback`."""

    async def _pass_on(self) -> None:
        request = self.request
        assert request.method is not None
        try:
            caller = self._keys.authenticate(request)
            # moto answers as the service that the signature names.
            if caller.service != "s3":
                raise DeniedError(Denial.NOT_ALLOWED, caller.service)
        except DeniedError as error:
            await self._answer_strangers(error)
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
            # moto allows every site to read its responses.
            if lower not in _NOT_PASSED_ON and not lower.startswith("access-control-"):
                self.set_header(name, value)
        # To tornado an empty body is a body, and a 204 must have none.
        self.finish(answer.body if answer.body and request.method != "HEAD" else None)

    async def _answer_strangers(self, error: DeniedError) -> None:
        """S3 answers anyone whether a bucket exists and where, and nothing else."""
        bucket = self.request.path.split("/")[1]
        head = await self._moto.forward_rest("HEAD", f"/{bucket}", b"", {})
        if error.denial is Denial.MISSING and head.status == 404:
            self.set_status(404)
            self.finish()
            return
        self.set_header("x-amz-bucket-region", self._moto.region)
        self._refuse(error)

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
