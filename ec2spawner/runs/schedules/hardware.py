"""The profiles on which its user may run something, with their prices, as the hub offers them."""

from __future__ import annotations

import os

from pydantic import ValidationError

from ...agent_socket import SOCKET
from ...agent_socket.exchange import exchange, refusal
from ...wire import HardwareChoice, HardwareChoices
from ..errors import RunError


def offered_profiles() -> list[HardwareChoice]:
    """That of the server itself first, then in the order of the spawn page. Blocks, up to 20 s.

    Raises `RunError` where the hub does not answer, or refuses.
    """
    path = os.environ.get(SOCKET)
    if not path:
        raise RunError(
            "This is not a server of ec2spawner: its jobs cannot run on instances of their own."
        )
    try:
        reply = exchange(path, {"type": "hardware"})
    except OSError as error:
        raise RunError(
            "The agent of this machine does not answer, so the hardware is not known: try again."
        ) from error
    if not reply.get("ok"):
        detail = refusal(reply)
        raise RunError(
            f"The hub refused it: {detail[:1].lower()}{detail[1:]}"
            if detail
            else "The hub does not answer now, so the hardware is not known: try again in a minute."
        )
    try:
        found = HardwareChoices.model_validate(reply.get("hardware"))
    except ValidationError as error:
        raise RunError(
            "The agent of this machine has another version of ec2spawner. An admin must bake a "
            "new image."
        ) from error
    return [*([found.own] if found.own else []), *found.choices]


def description(choice: HardwareChoice) -> str:
    """`A10G, 0.4532 USD per hour (spot)`, and whether and why it is unavailable."""
    price = "price unknown"
    if choice.usd_per_hour is not None:
        market = f" ({choice.market})" if choice.market else ""
        price = f"{choice.usd_per_hour:.4f} USD per hour{market}"
    words = f"{choice.name}, {price}"
    if choice.refusal:
        return f"{words}; unavailable: {choice.refusal}"
    return words if choice.is_available else f"{words}; unavailable now"
