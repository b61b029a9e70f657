"""Names for EC2 and for URLs: always valid for arbitrary strings, no collisions.

A text that is a valid name already is its own name. Any other keeps what can be kept of it and
gets a hash of the whole text; a text that merely looks like such a result is hashed too. So two
different texts never share a name. Only `readable` is lossy, and says so.

The hash is 128 bits of SHA-256: users choose their own names, so a collision must cost more than
a patient person can compute.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import unicodedata
from base64 import b32encode, urlsafe_b64encode

MAX_SLUG = 63
"""The length of a DNS label, which is also what JupyterHub's and kubespawner's slugs obey."""

MAX_TAG_VALUE = 256
"""EC2's limit for the value of a tag, in characters."""

MAX_CLIENT_TOKEN = 64
"""EC2's limit for a ClientToken, in ASCII characters."""

_HASH_LENGTH = 26
_MARK = "---"
_HASHED = re.compile(rf"{_MARK}[a-z2-7]{{{_HASH_LENGTH}}}\Z")
_SLUG = re.compile(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?\Z")
_NOT_IN_TAG = re.compile(r"[^A-Za-z0-9 +\-=._:/@]")


def sha256_hex(text: str) -> str:
    """SHA-256 of the text's UTF-8, as 64 hexadecimal digits. Lone surrogates are allowed."""
    return hashlib.sha256(_bytes(text)).hexdigest()


def launch_key(spec_json: str) -> str:
    """The key of a launch spec, from its canonical JSON: 26 characters of a-z and 2-7."""
    return _hash(spec_json)


def readable(text: str) -> str:
    """The part of a slug that people recognise: lossy, may be empty, at most 63 characters.

    Use it only where something else sees to it that names differ.
    """
    plain = unicodedata.normalize("NFKD", text).casefold().encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:MAX_SLUG].strip("-")


def is_slug(text: str) -> bool:
    """True for a-z, 0-9, `.`, `_` and `-`, letter or digit at both ends, at most 63 long."""
    return len(text) <= MAX_SLUG and _SLUG.match(text) is not None


def slug(text: str) -> str:
    """A name for URLs, files and options: see `is_slug`. Different texts, different slugs."""
    if is_slug(text) and not _HASHED.search(text):
        return text
    kept = readable(text)[: MAX_SLUG - len(_MARK) - _HASH_LENGTH].strip("-")
    return f"{kept or 'x'}{_MARK}{_hash(text)}"


def home_folder(user: str, server: str) -> str:
    """The folder of a server's home among all others: no two servers share one.

    No slug has a comma in it. An empty `server` is the user's default server.
    """
    return f"{slug(user)},{slug(server)}" if server else slug(user)


def tag_value(text: str) -> str:
    """The value of an EC2 tag, in the characters that every AWS service accepts.

    Longer than 256, with other characters, with space at an end or with AWS's reserved prefix,
    the text is changed and its hash appended. Different texts, different values.
    """
    valid = (
        len(text) <= MAX_TAG_VALUE
        and text == text.strip(" ")
        and not text.lower().startswith("aws:")
        and not _NOT_IN_TAG.search(text)
        and not _HASHED.search(text)
    )
    if valid:
        return text
    kept = _NOT_IN_TAG.sub("_", text).strip(" ")
    if kept.lower().startswith("aws:"):
        kept = f"_{kept}"
    return f"{kept[: MAX_TAG_VALUE - len(_MARK) - _HASH_LENGTH]}{_MARK}{_hash(text)}"


def client_token(purpose: str) -> str:
    """A new idempotency token for one attempt at one call: at most 64 ASCII characters.

    `purpose` is for whoever reads CloudTrail, such as `spot` or `home`. The token is random:
    store it before the call and replay it only with the identical request.
    """
    return new_id(readable(purpose)[: MAX_CLIENT_TOKEN - 1 - _HASH_LENGTH].strip("-") or "x")


def new_id(prefix: str) -> str:
    """A random id: the prefix, a dash, and 128 bits as a-z and 2-7."""
    return f"{prefix}-{_base32(secrets.token_bytes(16))}"


def lease_id() -> str:
    """The id of a new lease: valid in URLs, tags and file names."""
    return new_id("lease")


def lease_token(agent_key: str, lease_id: str) -> str:
    """The bearer token of a lease, derived from the agent's key.

    The same key gets the same token for the same lease, though nobody stores it: a repeated
    claim is answered alike. 43 characters, base64url without padding.
    """
    digest = hmac.new(_bytes(agent_key), b"lease:" + _bytes(lease_id), hashlib.sha256).digest()
    return urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _hash(text: str) -> str:
    return _base32(hashlib.sha256(_bytes(text)).digest()[:16])


def _base32(data: bytes) -> str:
    return b32encode(data).decode("ascii").rstrip("=").lower()
