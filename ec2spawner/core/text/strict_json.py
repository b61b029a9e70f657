"""The one reader of JSON from outside: what is wrong is named, and nothing is guessed.

Python's `json` takes the last of two equal keys and reads `NaN` and `1e999`; JupyterHub replaces
bytes that are no UTF-8, and takes `[]` and `0` for an empty body.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

M = TypeVar("M", bound=BaseModel)

ACCEPTED_TYPES: Final = ("application/json", "application/x-www-form-urlencoded", "text/plain")
"""Media types of a body that may be JSON. The second is what curl and urllib say of any body, the
third what browsers say of any text."""

MAX_PROBLEMS: Final = 5
"""Wrong fields that are named in one message; more do not help."""

MAX_SHOWN: Final = 60
"""Characters of a key that a message repeats."""

_SURROGATE: Final = re.compile(rb"\\u[dD][89abAB]")


class WrongBody(ValueError):
    """A body that cannot be followed. The message is one line, without its values."""


def check_type(content_type: str | None) -> None:
    """Raises `WrongBody` for a header `Content-Type` that says that the body is no JSON."""
    named = (content_type or "").partition(";")[0].strip().lower()
    if named and named not in ACCEPTED_TYPES and not named.endswith("+json"):
        raise WrongBody("the Content-Type is not application/json")


def parsed(body: bytes) -> JsonValue:
    """The value of this text. Raises `WrongBody`."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WrongBody(f"the body is not JSON: byte {error.start + 1} is not UTF-8") from None
    try:
        found: JsonValue = json.loads(
            text,
            object_pairs_hook=_checked_object,
            parse_constant=_NoNumber,
            parse_float=_finite,
        )
        if isinstance(found, list | _NoNumber):
            _check_list(found)
        if _SURROGATE.search(body):
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise WrongBody(_in_words(text, error)) from None
    except UnicodeEncodeError:  # neither a database nor an answer can hold it
        raise WrongBody("a text in the body has half of a surrogate pair") from None
    except RecursionError:
        raise WrongBody("the body is not JSON that can be read: it is nested too deeply") from None
    except WrongBody:
        raise
    except ValueError:  # Python refuses to parse a number of thousands of digits
        raise WrongBody("the body has a number with too many digits") from None
    return found


def parsed_object(body: bytes) -> dict[str, Any] | None:
    """The object in this text; None for an empty body and for `null`. Raises `WrongBody`."""
    found = parsed(body) if body.strip() else None
    if found is not None and not isinstance(found, dict):
        raise WrongBody("the body is not an object")
    return found


def read_model(model: type[M], body: bytes) -> M:
    """The message in this text. Raises `WrongBody`, which names fields that are wrong."""
    parsed(body)
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, each['loc'])) or 'body'}: {each['msg']}"
            for each in error.errors(include_input=False, include_url=False)
        ]
        raise WrongBody("; ".join(problems[:MAX_PROBLEMS])) from None


def _in_words(text: str, error: json.JSONDecodeError) -> str:
    if error.msg == "Extra data":
        return f"something follows the JSON in line {error.lineno}, column {error.colno}"
    if error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated string"):
        return f"the JSON ends too early, after {len(text)} characters: is it complete?"
    return f"the body is not JSON in line {error.lineno}, column {error.colno}: {error.msg}"


class _NoNumber(str):
    """A number that only Python reads, until its place is known: `NaN`, or one too large."""


def _finite(text: str) -> float | _NoNumber:
    found = float(text)
    return found if math.isfinite(found) else _NoNumber("such a large one")


def _checked_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise WrongBody("an object in the body has the same key twice")
    for key, value in pairs:
        if isinstance(value, list | _NoNumber):
            _check_list(value, f"{key[:MAX_SHOWN]!r}: ")
    return found


def _check_list(found: list[Any] | _NoNumber, where: str = "") -> None:
    """Raises `WrongBody` for what is no number, also in lists of lists."""
    if isinstance(found, _NoNumber):
        raise WrongBody(f"{where}{found} is no number of JSON")
    for each in found:
        if isinstance(each, list | _NoNumber):
            _check_list(each, where)
