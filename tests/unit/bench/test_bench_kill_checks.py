"""What the kill bench counts as leaked or lost of a cluster."""

from __future__ import annotations

from dataclasses import replace

from tests.bench.kill.checks import LOST_WORKER, STUCK, cluster_problems, leaked_instances
from tests.bench.kill.killable_hub import StoredLease

SERVER = StoredLease("server", "bob", "ready", "i-0", head="", wanted=2)
WORKERS = [StoredLease(f"worker-{n}", "bob", "ready", f"i-{n}", "server", 0) for n in (1, 2, 3)]
JOINED = {"worker-1", "worker-2"}


def test_an_instance_without_a_lease_is_leaked() -> None:
    assert leaked_instances([SERVER], {"i-0"}) == []
    assert len(leaked_instances([SERVER], {"i-0", "i-9"})) == 1
    assert len(leaked_instances([replace(SERVER, state="ended")], {"i-0"})) == 1


def test_a_worker_is_leaked_once_its_server_has_ended() -> None:
    alive = {"i-0", "i-1", "i-2"}
    stopping, ended = (replace(SERVER, state=x) for x in ("ending", "ended"))
    assert leaked_instances([stopping, *WORKERS[:2]], alive) == []
    assert len(leaked_instances([ended, *WORKERS[:2]], {"i-1", "i-2"})) == 2
    assert leaked_instances([ended, *WORKERS[:2]], set()) == []


def test_a_running_server_has_the_workers_that_it_wants() -> None:
    assert cluster_problems([SERVER, *WORKERS[:2]], JOINED) == []
    assert [x.kind for x in cluster_problems([SERVER, *WORKERS], JOINED)] == [STUCK]
    assert [x.kind for x in cluster_problems([SERVER, WORKERS[0]], JOINED)] == [STUCK]
    assert cluster_problems([replace(SERVER, state="ended")], JOINED) == []


def test_a_worker_that_was_replaced_without_need_is_lost() -> None:
    ended = replace(WORKERS[1], state="ended")
    after = [SERVER, WORKERS[0], ended, WORKERS[2]]
    assert [x.kind for x in cluster_problems(after, JOINED)] == [LOST_WORKER]
    fewer = [replace(SERVER, wanted=1), WORKERS[0], ended]
    assert cluster_problems(fewer, JOINED) == [], "its user wants fewer"
