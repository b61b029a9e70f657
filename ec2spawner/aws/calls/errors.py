"""What boto3 raises -> `CloudError`: a code, one sentence, and whether a retry can help."""

from __future__ import annotations

from typing import Final

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from ...core.offers.launch_errors import PENDING_VERIFICATION, SOLD_OUT, THROTTLES, code_of
from ...provisioner.model.cloud.cloud import CloudError

MAX_MESSAGE: Final = 1000
"""Characters kept of EC2's message: the encoded part of an UnauthorizedOperation is longer."""

CREDENTIALS: Final = (
    "give the hub an instance role, or credentials in its environment or ~/.aws as for any AWS tool"
)
"""The fix if there are no credentials."""


def cloud_error(error: Exception) -> CloudError:
    """Translate an exception of botocore. A refusal is retryable only if it passes by itself."""
    if isinstance(error, boto.ClientError):
        return _refused(error)
    name = type(error).__name__
    if name in NO_CREDENTIALS:
        return CloudError(name, f"no AWS credentials: {CREDENTIALS}", retryable=False)
    if isinstance(error, _NO_ANSWER):
        return CloudError(name, _short(str(error)), retryable=True)
    return CloudError(name, _short(str(error)), retryable=False)


NO_CREDENTIALS: Final = frozenset({"NoCredentialsError", "PartialCredentialsError"})
"""Names of botocore's errors, and codes of ours, for missing credentials."""

_NO_ANSWER: Final = (
    boto.ConnectionError,
    boto.HTTPClientError,  # timeouts and broken connections
    boto.CredentialRetrievalError,  # the hub's own metadata service was busy
    boto.MetadataRetrievalError,
    ResponseParserError,  # a truncated response, or a proxy's page instead
    boto.IncompleteReadError,
    OSError,
)


_PASSING: Final = THROTTLES | {PENDING_VERIFICATION}
"""Refusals that pass by themselves: nothing was made, and the same call succeeds later."""


def _refused(error: boto.ClientError) -> CloudError:
    answer = error.response.get("Error", {})
    message = answer.get("Message") or str(error)
    code = code_of(answer.get("Code") or "Unknown", message)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    fault = status >= 500 and code not in SOLD_OUT
    return CloudError(code, _short(message), retryable=fault or code in _PASSING)


def _short(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[: MAX_MESSAGE - 1]}…"
