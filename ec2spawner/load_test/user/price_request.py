"""Asks the hub for the price of a profile, as the first user or as the admin."""

from __future__ import annotations

from http import HTTPStatus

from ..journal import Journal
from ..price import Price, price_of
from ..settings import Settings
from .entrance import Entrance
from .session import Session, StepFailed


def ask_price(settings: Settings, secret: str) -> Price | None:
    """None where the hub says none, as without ec2spawner. Raises `StepFailed` where even the
    login fails: the test would, too."""
    session = Session(settings.url)
    try:
        if settings.login == "token":
            session.token = secret
        else:
            name = f"{settings.prefix}-0001"
            Entrance(settings, name, secret, Journal(""), session).enter()
        session.ask("GET", "hub/api/user").require("login", HTTPStatus.OK)
        # Services have no profiles, and other spawners have no such call.
        answer = session.ask("GET", "hub/api/ec2/profiles")
        if answer.status != HTTPStatus.OK:
            return None
        try:
            return price_of(answer.json(), settings.choices.get("profile", ""))
        except StepFailed:
            return None
    finally:
        session.close()
