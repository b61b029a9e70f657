"""How AWS words that IAM denies a call."""

from __future__ import annotations

import base64
import json
import zlib

from .policy import Access, Decision


def reason(principal: str, access: Access, decision: Decision) -> str:
    """The sentence that names the caller, the action, the resource and why it is denied."""
    where = f" on resource: {access.resource}" if access.resource != "*" else ""
    why = (
        "with an explicit deny in an identity-based policy"
        if decision.statement is not None
        else f"because no identity-based policy allows the {access.action} action"
    )
    return f"User: {principal} is not authorized to perform: {access.action}{where} {why}"


def in_words_of_ec2(principal: str, access: Access, decision: Decision) -> str:
    """EC2's message, with an encoded one where the action is authorized on a resource.

    AWS encrypts what it encodes, and `sts:DecodeAuthorizationMessage` reads it. Here it is JSON,
    deflated, in base64.
    """
    said = (
        f"You are not authorized to perform this operation. {reason(principal, access, decision)}"
    )
    if access.resource == "*":
        return said
    asked = {
        "allowed": False,
        "explicitDeny": decision.statement is not None,
        "context": {
            "principal": {"arn": principal},
            "action": access.action,
            "resource": access.resource,
            "conditions": {key: list(values) for key, values in access.context.items()},
        },
    }
    encoded = base64.urlsafe_b64encode(zlib.compress(json.dumps(asked).encode())).decode()
    return f"{said}. Encoded authorization failure message: {encoded}"
