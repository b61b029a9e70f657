"""Types with functions of their own are saved by these again after each wake."""

from __future__ import annotations

from pathlib import Path

from tests.unit.sleep.notebook import Notebook, entries

CELL = """
from ec2spawner import sleep
class Index:
    def __init__(self, text): self.text = text
    def __reduce__(self): raise TypeError("not this way")
class Conn:
    def __init__(self, address): self.address, self.fd = address, "open"
def save_index(value, file): file.write(value.text.encode())
def load_index(file): return Index(file.read().decode())
def save_conn(value, file): file.write(value.address.encode())
def load_conn(file): return Conn(file.read().decode())
sleep.register(Index, save_index, load_index)
sleep.register(Conn, save_conn, load_conn)
index, conn, other = Index("a"), Conn("b"), [Index("c")]
"""


def test_a_second_sleep_saves_them_by_the_same_functions(tmp_path: Path) -> None:
    with Notebook(tmp_path) as first:
        first.say(CELL)
        first.save(tmp_path / "one")
    with Notebook(tmp_path) as second:
        second.restore(tmp_path / "one")
        # A handle of this machine, which the next one does not have.
        second.say("conn.fd = 'stale'\nfresh = Index('new')")
        second.save(tmp_path / "two")
    codes = {name: each["code"] for name, each in entries(tmp_path / "two").items()}
    assert {codes[name] for name in ("index", "conn", "other", "fresh")} == {""}
    with Notebook(tmp_path) as third:
        third.restore(tmp_path / "two")
        said = third.say("print(index.text, conn.address, conn.fd, other[0].text, fresh.text)")
        assert said == "a b open c new"


def test_a_value_is_saved_although_what_saves_it_cannot_be(tmp_path: Path) -> None:
    with Notebook(tmp_path) as first:
        first.say(CELL)
        first.say(
            "class Codec:\n"
            "    log = open('/dev/null')\n"
            "    def __init__(self): self.file = open('/dev/null')\n"
            "    def save(self, value, file): file.write(value.text.encode())\n"
            "codec = Codec()\n"
            "sleep.register(Index, codec.save, load_index)"
        )
        first.save(tmp_path / "one")
    assert entries(tmp_path / "one")["index"]["code"] == ""
    with Notebook(tmp_path) as second:
        second.restore(tmp_path / "one")
        assert second.say("print(index.text)") == "a"


def test_what_was_registered_since_the_wake_counts(tmp_path: Path) -> None:
    with Notebook(tmp_path) as first:
        first.say(CELL)
        first.save(tmp_path / "one")
    with Notebook(tmp_path) as second:
        second.restore(tmp_path / "one", eager_bytes=0)
        second.say(
            "from ec2spawner import sleep\n"
            "sleep.register(Conn, lambda value, file: file.write(b'mine'), load_conn)"
        )
        second.say("conn")
        second.save(tmp_path / "two")
    with Notebook(tmp_path) as third:
        third.restore(tmp_path / "two")
        assert third.say("print(conn.address)") == "mine"
