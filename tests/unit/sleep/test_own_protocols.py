"""Classes of the notebook whose own methods restore something else, or nothing: it is said.

Each case either comes back as it was, or its name is listed before the machine is gone.
"""

from __future__ import annotations

from pathlib import Path

from tests.unit.sleep.cases import case, check_all

NEW = {
    "__new__ with an argument": case(
        "class Unit:\n    def __new__(cls, name):\n        u = super().__new__(cls)\n"
        "        u.name = name; return u\nunit = Unit('m')",
        check="unit.name",
        said="unit",
    ),
    "__new__ of a float": case(
        "class Metre(float):\n    def __new__(cls, text): return float.__new__(cls, text[:-1])\n"
        "metre = Metre('2m')",
        check="(metre, type(metre).__name__)",
        said="metre",
    ),
    "__new__ of a tuple": case(
        "class Pair(tuple):\n    def __new__(cls, a, b): return super().__new__(cls, (a, b))\n"
        "pair = Pair(1, 2)",
        check="(pair, type(pair) is Pair)",
        said="pair",
    ),
    "__new__ of a named tuple": case(
        "class Box(collections.namedtuple('Box', 'a b')):\n"
        "    def __new__(cls, both): return super().__new__(cls, both, both)\nbox = Box(3)",
        check="(box.a, box.b, type(box) is Box)",
        said="box",
    ),
    "__new__ that keeps one": case(
        "class Only:\n    one = None\n    def __new__(cls):\n"
        "        if cls.one is None: cls.one = super().__new__(cls); cls.one.n = 0\n"
        "        return cls.one\nonly = Only(); only.n = 7",
        check="(Only() is only, only.n)",
        said="only",
    ),
    "__new__ that gives another class": case(
        "class Choice:\n    def __new__(cls, n=0): return object.__new__(Big if n else cls)\n"
        "class Big(Choice): pass\nchoice = Choice(1)",
        check="type(choice) is Big",
        said="choice",
    ),
}

EXCEPTIONS = {
    "two arguments": case(
        "class Refused(Exception):\n    def __init__(self, code, why):\n"
        "        super().__init__(f'{code}: {why}'); self.code = code\nrefused = Refused(4, 'no')",
        check="(str(refused), refused.code, refused.args)",
        said="refused",
    ),
    "a keyword": case(
        "class Late(Exception):\n    def __init__(self, *, by):\n"
        "        super().__init__(by); self.by = by\n"
        "late = Late(by=2)",
        check="(late.by, late.args)",
        said="late",
    ),
    "an attribute": case(
        "failed = ValueError('x'); failed.at = [1]", check="(failed.at, str(failed))", said="failed"
    ),
    "a note and a cause": case(
        "try:\n    try: 1 / 0\n    except ZeroDivisionError as e: raise KeyError('k') from e\n"
        "except KeyError as e: caught = e\ncaught.add_note('seen')",
        check="(caught.__notes__, type(caught.__cause__).__name__, caught.args)",
    ),
    "a traceback": case(
        "try: 1 / 0\nexcept ZeroDivisionError as e: divided = e",
        check="divided.__traceback__ is not None",
        said="divided",
    ),
    "a cause of a class of one's own": case(
        "class Broken(OSError):\n    def __init__(self, path, *, by):\n"
        "        super().__init__(2, path); self.by = by\n"
        "broken = Broken('a', by=[1]); broken.__context__ = KeyError('k')",
        check="(broken.errno, broken.by, repr(broken.__context__), broken.__suppress_context__)",
    ),
    "a group": case(
        "group = ExceptionGroup('all', [ValueError(1), KeyError('k')])",
        check="(group.message, [repr(e) for e in group.exceptions])",
        said="group",
    ),
    "from __new__": case(
        "class Wrapped(Exception):\n    def __new__(cls, e): return super().__new__(cls, str(e))\n"
        "    def __init__(self, e): self.inner = e\nwrapped = Wrapped(OSError(2, 'gone'))",
        check="(repr(wrapped.inner), wrapped.args)",
        said="wrapped",
    ),
}

CONTAINERS = {
    "append that uses an attribute": case(
        "class Log(list):\n    def __init__(self, n): super().__init__(); self.n = n\n"
        "    def append(self, x): super().append(x * self.n)\n    def extend(self, xs):\n"
        "        for x in xs: self.append(x)\nlog = Log(2); log.append(1); log.append(3)",
        check="(list(log), log.n)",
        said="log",
    ),
    "item that uses an attribute": case(
        "class Lower(dict):\n    def __init__(self, f): super().__init__(); self.f = f\n"
        "    def __setitem__(self, k, v): super().__setitem__(self.f(k), v)\n"
        "lower = Lower(str.lower); lower['A'] = 1",
        check="(dict(lower), lower.f('B'))",
        said="lower",
    ),
    "items that count": case(
        "class Counting(dict):\n    sets = 0\n    def __setitem__(self, k, v):\n"
        "        Counting.sets += 1; super().__setitem__(k, v)\ncounting = Counting(); "
        "counting['a'] = 1",
        check="(Counting.sets, dict(counting))",
        said="counting",
    ),
    "a set with add": case(
        "class Even(set):\n    def add(self, x): super().add(2 * x)\neven = Even(); even.add(1)",
        check="sorted(even)",
        said="even",
    ),
    "a deque with a limit": case(
        "class Last(collections.deque):\n    def __init__(self, n): super().__init__(maxlen=n)\n"
        "last = Last(2); last.extend('abc')",
        check="(list(last), last.maxlen)",
        said="last",
    ),
    "a default of its own": case(
        "class Tree(collections.defaultdict):\n    def __init__(self): super().__init__(Tree)\n"
        "tree = Tree(); tree['a']['b']",
        check="(list(tree), list(tree['a']), tree.default_factory is Tree)",
        said="tree",
    ),
    "a UserDict": case(
        "class Upper(collections.UserDict):\n"
        "    def __setitem__(self, k, v): self.data[k.upper()] = v\n"
        "upper = Upper(); upper['a'] = 1",
        check="upper.data",
        said="upper",
    ),
    "a Counter": case(
        "class Tally(collections.Counter):\n    def __missing__(self, k): return -1\n"
        "tally = Tally('abb'); tally.unit = 'n'",
        check="(tally['b'], tally['z'], tally.unit)",
        said="tally",
    ),
    "a string": case(
        "class Tagged(str):\n    def __new__(cls, s, tag):\n"
        "        t = super().__new__(cls, s); t.tag = tag; return t\ntagged = Tagged('a', tag='x')",
        check="(tagged, tagged.tag)",
        said="tagged",
    ),
}

CYCLES = {
    "a hash in its own set": case(
        "class Node:\n    def __init__(self, n): self.n = n; self.near = {self}\n"
        "    def __hash__(self): return hash(self.n)\nnode = Node(1)",
        check="(node in node.near, len(node.near))",
        said="node",
    ),
    "a hash in each other's set": case(
        "class Peer:\n    def __init__(self, n): self.n = n; self.peers = set()\n"
        "    def __hash__(self): return hash(self.n)\n"
        "    def __eq__(self, o): return o.n == self.n\n"
        "one, two = Peer(1), Peer(2); one.peers.add(two); two.peers.add(one)",
        check="(two in one.peers, one in two.peers)",
        said="one two",
    ),
    "a key of its own dict": case(
        "class Key:\n    def __init__(self, n): self.n = n; self.seen = {self: n}\n"
        "    def __hash__(self): return hash(self.n)\nkey = Key(3)",
        check="key.seen[key]",
        said="key",
    ),
    "a hash of contents": case(
        "class Folder:\n    def __init__(self): self.parts = ['a']; self.all = {}\n"
        "    def __hash__(self): return hash(tuple(self.parts))\n"
        "folder = Folder(); folder.all[folder] = 1",
        check="folder.all[folder]",
        said="folder",
    ),
    "a frozen dataclass": case(
        "@dataclasses.dataclass(frozen=True)\nclass Edge:\n    a: int\n    known: list = "
        "dataclasses.field(default_factory=list, hash=False)\n"
        "edge = Edge(1); edge.known.append({edge})",
        check="edge in edge.known[0]",
        said="edge",
    ),
    "a list in itself": case("loop = [1]; loop.append(loop)", check="loop[1] is loop"),
}

ATTRIBUTES = {
    "__setattr__ that refuses": case(
        "class Sealed:\n    def __init__(self): self.__dict__['n'] = 1\n"
        "    def __setattr__(self, k, v): raise AttributeError(k)\nsealed = Sealed()",
        check="sealed.n",
        said="sealed",
    ),
    "__setattr__ that refuses slots": case(
        "class Closed:\n    __slots__ = ('n',)\n    def __init__(self): "
        "object.__setattr__(self, 'n', 1)\n"
        "    def __setattr__(self, k, v): raise AttributeError(k)\nclosed = Closed()",
        check="closed.n",
        said="closed",
    ),
    "__setattr__ that counts": case(
        "class Noted:\n    def __init__(self): self.__dict__['log'] = []\n"
        "    def __setattr__(self, k, v): self.log.append(k); self.__dict__[k] = v\n"
        "noted = Noted(); noted.a = 1",
        check="(noted.log, noted.a)",
        said="noted",
    ),
    "__getattr__ that needs its state": case(
        "class Proxy:\n    def __init__(self, to): self.to = to\n"
        "    def __getattr__(self, name): return getattr(self.to, name)\nproxy = Proxy([3])",
        check="(proxy.count(3), proxy.to)",
        said="proxy",
    ),
    "__getattribute__ that hides": case(
        "class Hidden:\n    def __init__(self): self.n = 1\n    def __getattribute__(self, name):\n"
        "        if name == '__dict__': return {}\n        return super().__getattribute__(name)\n"
        "hidden = Hidden()",
        check="hidden.n",
        said="hidden",
    ),
    "a property over a slot": case(
        "class Checked:\n    __slots__ = ('_n',)\n    n = property(lambda s: s._n, "
        "lambda s, v: setattr(s, '_n', abs(v)))\nchecked = Checked(); checked._n = -3",
        check="checked.n",
        said="checked",
    ),
    "half a state": case(
        "class Half:\n    def __init__(self): self.a, self.b = 1, 2\n"
        "    def __getstate__(self): return {'a': self.a}\nhalf = Half()",
        check="(half.a, half.b)",
        said="half",
    ),
}

ALL = {**NEW, **EXCEPTIONS, **CONTAINERS, **CYCLES, **ATTRIBUTES}


def test_what_its_class_restores_is_as_before_or_its_name_is_listed(tmp_path: Path) -> None:
    check_all(ALL, tmp_path)
