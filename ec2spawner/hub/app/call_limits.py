"""How often, and how many at a time, one user and one instance may call the hub.

What a user does by page, by program and by their servers counts together, under the user's account.
Each program and each server is a `Share` of it, since others may have its token.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ...core.concurrency_limit import ConcurrencyLimit
from ...core.rate_limit import Rate, RateLimit
from .event_loop.user_turns import UserTurns

LEASE_CALLS: Final = Rate(burst=100, per_second=10.0)
"""Calls about one lease. An agent sends 4 heartbeats a second at most, under a policy of seconds
(`agent.hub.heartbeat.MIN_GAP_SECONDS`), and little else; one that floods the hub slows down all
pages."""

USER_REPORTS: Final = Rate(burst=500, per_second=100.0)
"""Heartbeats, steps of starts and reports of runs, of all leases of one user: a thousand leases
send 20 a second, and each takes the event loop 1 ms."""

USER_CALLS: Final = Rate(burst=400, per_second=10.0)
"""Tokens of what one user asks for. A call takes one, or as many as its handler says: those that
take the hub tens of milliseconds take ten."""

DEAR_CALL: Final = 10
"""Tokens of a call that lists or prices much."""

SERVER_CALLS: Final = Rate(burst=20, per_second=0.5)
"""Calls that start or stop a server of one user, also those that change nothing: each takes
JupyterHub 10 to 25 ms of the event loop. Stops of running servers do not count."""

USER_STARTS: Final = Rate(burst=30, per_second=1 / 60)
"""Starts of servers by one user, and their moves to other hardware: each leaves a record of some KB
in the ledger."""

CLUSTER_CHANGES: Final = Rate(burst=20, per_second=1 / 60)
"""Starts and changes of size of one user's clusters: each worker leaves such a record, too."""

RUN_DOCUMENTS: Final = Rate(burst=10, per_second=0.5)
"""What the instance of one run begins with, and results that it reports: each is a read or write of
up to some megabytes."""

RUN_RESULTS: Final = Rate(burst=40, per_second=4.0)
"""Results that one user reads, of which one program or server may read half. One of 4 MiB, the
largest, holds up the event loop for 11 ms; through REST it is sent unpacked, in pieces. Most have
some kilobytes and take none. One server reads those of an array of 1000, the largest, in 8 minutes.
"""

RUN_RESULTS_AT_ONCE: Final = 2
"""Results that one user reads at a time through REST: the hub holds each, of 7 MiB at most, until
the client has read it."""

RUN_RESULTS_IN_ALL: Final = 16
"""Results that all users together read at a time."""

RUN_SUBMISSIONS: Final = Rate(burst=40, per_second=0.2)
"""Submissions of one user, of which one program or server may send half."""

DOCUMENTS_AT_ONCE: Final = 8
"""Users who send a document at the same time, and who get one: one each, of some megabytes."""

UNPACKED_AT_ONCE: Final = 2
"""Documents that are unpacked at the same time, to see that they can be: 64 MiB take 0.2 s of
another thread."""

MAX_WAITING: Final = 50
"""Calls of one user that wait for their turn."""


@dataclass(slots=True)
class CallLimits:
    """Those of one hub process."""

    lease_calls: RateLimit = field(default_factory=lambda: RateLimit(LEASE_CALLS))
    """By lease id."""
    run_documents: RateLimit = field(default_factory=lambda: RateLimit(RUN_DOCUMENTS))
    """By lease id. All others by user."""
    user_reports: RateLimit = field(default_factory=lambda: RateLimit(USER_REPORTS))
    user_calls: RateLimit = field(default_factory=lambda: RateLimit(USER_CALLS))
    server_calls: RateLimit = field(default_factory=lambda: RateLimit(SERVER_CALLS))
    user_starts: RateLimit = field(default_factory=lambda: RateLimit(USER_STARTS))
    cluster_changes: RateLimit = field(default_factory=lambda: RateLimit(CLUSTER_CHANGES))
    run_results: RateLimit = field(default_factory=lambda: RateLimit(RUN_RESULTS))
    run_submissions: RateLimit = field(default_factory=lambda: RateLimit(RUN_SUBMISSIONS))
    run_results_at_once: ConcurrencyLimit = field(
        default_factory=lambda: ConcurrencyLimit(RUN_RESULTS_AT_ONCE, RUN_RESULTS_IN_ALL)
    )
    documents_in: UserTurns = field(
        default_factory=lambda: UserTurns(DOCUMENTS_AT_ONCE, MAX_WAITING)
    )
    """From the first byte of a body of some megabytes until its request is answered."""
    documents_out: UserTurns = field(
        default_factory=lambda: UserTurns(DOCUMENTS_AT_ONCE, MAX_WAITING)
    )
    """Until the agent has read the answer."""
    unpacking: UserTurns = field(default_factory=lambda: UserTurns(UNPACKED_AT_ONCE, MAX_WAITING))
    lists: UserTurns = field(default_factory=lambda: UserTurns(1, MAX_WAITING))
    """One for each long list of runs: to write a thousand takes 40 ms of another thread, which the
    event loop feels."""
