"""Base of JupyterHub's handlers that we replace, and of ours: how they read JSON."""

from __future__ import annotations

from typing import Any

from jupyterhub.apihandlers.base import APIHandler
from tornado.web import HTTPError

from ...core.text.strict_json import WrongBody, check_type, parsed_object
from ...wire import MAX_BODY_BYTES


class StrictBody(APIHandler):
    """Reads objects alone, and says what is wrong with anything else."""

    def get_json_body(self) -> dict[str, Any] | None:
        """The body; None if it is empty or `null`. Raises `HTTPError`: 400, and 413 for one that
        would keep the event loop from everybody else while it is parsed."""
        body = self.request.body or b""
        if len(body) > MAX_BODY_BYTES:
            raise HTTPError(413, f"a body may have {MAX_BODY_BYTES} bytes")
        try:
            if body:  # clients name a type of nothing, too
                check_type(self.request.headers.get("Content-Type"))
            return parsed_object(body)
        except WrongBody as error:
            raise HTTPError(400, str(error)) from error
