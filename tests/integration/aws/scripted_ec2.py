"""An EC2 endpoint that answers what a test has scripted, and records its requests.

For what no emulator does on demand: half-filled fleets, pages, a dying connection.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

JSON = "application/x-amz-json-1.1"
NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


@dataclass(frozen=True)
class Reply:
    body: str
    status: int = 200
    content_type: str = "text/xml"


class Hang:
    """No answer until the server is closed."""


class Cut:
    """The connection ends before any answer."""


HANG, CUT = Hang(), Cut()


def ok(inner: str = "") -> Reply:
    return Reply(f'<R xmlns="{NAMESPACE}"><requestId>req</requestId>{inner}</R>')


def error(code: str, message: str = "", status: int = 400) -> Reply:
    return Reply(
        f"<Response><Errors><Error><Code>{code}</Code><Message>{escape(message)}</Message>"
        "</Error></Errors><RequestID>req</RequestID></Response>",
        status,
    )


def json_ok(answer: object) -> Reply:
    """Of the Price List API and its like."""
    return Reply(json.dumps(answer), content_type=JSON)


def json_error(code: str, message: str = "") -> Reply:
    return Reply(json.dumps({"__type": code, "message": message}), 400, JSON)


def html(status: int) -> Reply:
    return Reply("<!doctype html><h1>Internal Server Error</h1>", status, "text/html")


Call = dict[str, str]
"""A form's fields; of a JSON service `Action`, `Body` and the `Region` that it was signed for."""


class ScriptedEC2:
    """`answers[action]` is used up in order; the last one repeats indefinitely."""

    def __init__(self) -> None:
        self.answers: defaultdict[str, deque[Reply | Hang | Cut]] = defaultdict(deque)
        self.deciders: dict[str, Callable[[Call], Reply]] = {}
        self.calls: list[Call] = []
        self.called = threading.Event()
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self.url = ""

    def will(self, action: str, *answers: Reply | Hang | Cut) -> None:
        self.answers[action] = deque(answers)

    def answer_by(self, action: str, decide: Callable[[Call], Reply]) -> None:
        """Answers that depend on what is asked."""
        self.deciders[action] = decide

    def made(self, action: str) -> list[Call]:
        """The parameters of every call of this action, oldest first."""
        return [call for call in self.calls if call["Action"] == action]

    @property
    def actions(self) -> list[str]:
        return [call["Action"] for call in self.calls]

    def take(self, call: Call) -> Reply | Hang | Cut:
        with self._lock:
            self.calls.append(call)
            self.called.set()
            if decide := self.deciders.get(call["Action"]):
                return decide(call)
            answers = self.answers[call["Action"]]
            if not answers:
                return error("UnscriptedCall", call["Action"])
            return answers.popleft() if len(answers) > 1 else answers[0]


@contextmanager
def scripted_ec2() -> Iterator[ScriptedEC2]:
    script = ScriptedEC2()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet to an answer, or each waits 40 ms for an acknowledgement

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            answer = script.take(self.asked(body))
            if isinstance(answer, Hang):
                script.closing.wait(60)
            if not isinstance(answer, Reply):
                self.close_connection = True
                return
            content = answer.body.encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

        def asked(self, body: str) -> Call:
            target = self.headers.get("X-Amz-Target", "")
            if not target:
                return dict(parse_qsl(body, keep_blank_values=True))
            scope = self.headers["Authorization"].partition("Credential=")[2].split("/")
            return {"Action": target.rpartition(".")[2], "Body": body, "Region": scope[2]}

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield script
    finally:
        script.closing.set()
        server.shutdown()
        server.server_close()
        thread.join(5)
