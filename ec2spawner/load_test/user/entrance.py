"""Login and logout of a user: with the hub's form, or by a token that an admin's token makes."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlsplit

from ..journal import Event, Journal
from ..settings import Settings
from .session import Session, StepFailed

TOKEN_SECONDS: Final = 86_400
"""After which the hub forgets a user's token that was not deleted."""

NOTE: Final = "ec2spawner load-test"
"""Of the tokens, on the hub's page about them."""


class Entrance:
    """How a user gets in, and out again."""

    def __init__(
        self, settings: Settings, name: str, secret: str, journal: Journal, session: Session
    ) -> None:
        self._settings = settings
        self._name = name
        self._secret = secret
        self._journal = journal
        self._session = session
        self._path = f"hub/api/users/{quote(name, safe='')}"
        self._token_id = ""
        self.is_new = False
        """Whether this test has created the user, and so may delete it."""

    def enter(self) -> None:
        """Log in. Raises `StepFailed`."""
        if self._settings.login == "token":
            self._with_token()
        else:
            self._with_password()

    def leave(self, *, has_server: bool) -> None:
        """Log out. A user that was created is deleted, unless there is a server to stop first."""
        if self._settings.login == "password":
            self._session.ask("GET", "hub/logout")
            return
        if not self._token_id:
            return
        admin = self._as_admin()
        try:
            admin.ask("DELETE", f"{self._path}/tokens/{quote(self._token_id, safe='')}")
            if self.is_new and not has_server:
                gone = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_FOUND)
                admin.ask("DELETE", self._path).require("deleting the user", *gone)
                self._journal.write(self._name, Event.USER_GONE)
        finally:
            admin.close()

    def _with_password(self) -> None:
        """As a browser: the page, its form, and the home page."""
        page = self._session.ask("GET", "hub/login")
        page.require("login page", HTTPStatus.OK)
        xsrf = self._session.xsrf(self._session.place("hub/login"))
        home = f"{urlsplit(self._settings.url).path}hub/home"
        form = {"username": self._name, "password": self._secret, "_xsrf": xsrf}
        answer = self._session.ask("POST", f"hub/login?next={quote(home)}", form=form)
        if not answer.is_redirect:
            answer.require("login")
        self._session.ask("GET", answer.location, follow=True).require("home page", HTTPStatus.OK)

    def _with_token(self) -> None:
        """The user is created if need be; what is created is noted first."""
        admin = self._as_admin()
        try:
            found = admin.ask("GET", self._path)
            found.require("user", HTTPStatus.OK, HTTPStatus.NOT_FOUND)
            if found.status == HTTPStatus.NOT_FOUND:
                self._journal.write(self._name, Event.USER_CREATED)
                admin.ask("POST", self._path).require("creating the user", HTTPStatus.CREATED)
                self.is_new = True
            body = {"note": NOTE, "expires_in": TOKEN_SECONDS}
            made = admin.ask("POST", f"{self._path}/tokens", body=body)
            answer = made.require("creating a token", HTTPStatus.OK, HTTPStatus.CREATED).json()
        finally:
            admin.close()
        token = answer.get("token")
        if not isinstance(token, str):
            raise StepFailed("the hub answers no token")
        self._session.token = token
        self._token_id = str(answer.get("id", ""))

    def _as_admin(self) -> Session:
        admin = Session(self._settings.url)
        admin.token = self._secret
        return admin
