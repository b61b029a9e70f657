"""Asks the hub about runs with a token of their user: of all servers, from anywhere."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from ..core.runs.documents import DocumentError, pack
from ..hub_call import HubRefused, api_url, call, read
from ..wire import RunsAnswer, RunsRequest
from .errors import RunError, RunRefused


@dataclass(frozen=True)
class HubOfUser:
    """The hub's calls of runs, as an agent passes them on for its server."""

    token: str
    hub: str

    def __call__(self, request: RunsRequest) -> RunsAnswer:
        """The hub's answer to `list`, `cancel` or `result`. Raises `RunRefused` with its reason,
        and `RunError`."""
        number = f"/{request.number}" if request.number is not None else ""
        try:
            if request.action == "result":
                content = read(self._url(f"{number}/result"), self.token)
                return self._answer("GET", number).model_copy(update={"result": pack([content])})
            if request.action == "cancel":
                return self._answer("DELETE", f"{number}?array" if request.array else number)
            return self._answer("GET", f"{number}?array" if number else "")
        except HubRefused as error:
            raise RunRefused(f"The hub refused it: {error}") from error
        except DocumentError as error:
            raise RunError(
                f"The result of run {request.number} cannot be read: {error}."
            ) from error

    def _answer(self, method: str, path: str) -> RunsAnswer:
        try:
            found = call(method, self._url(path), self.token)
            return RunsAnswer.model_validate({"runs": found["runs"]})
        except (ValidationError, KeyError, TypeError) as error:
            raise RunError(
                "The hub has another version of ec2spawner: install its version."
            ) from error

    def _url(self, path: str) -> str:
        return api_url(self.hub, f"runs{path}")
