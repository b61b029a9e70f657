"""What a sleep and a wake keep, kind by kind: each expression is as before, or is listed."""

from __future__ import annotations

from pathlib import Path

from tests.unit.sleep.cases import case, check_all

SHARING = {
    "dict of arrays": case("w = np.zeros(3); params = {'w': w}", check="params['w'] is w"),
    "tuple of arrays": case("v = np.ones(2); pair = (v, 0)", check="pair[0] is v"),
    "nested tuples": case("deep = bytearray(b'a'); nest = ((deep,),)", check="nest[0][0] is deep"),
    "frozen set": case("seal = object(); sealed = frozenset({seal})", check="seal in sealed"),
    "dict of sentinels": case("NO = object(); marks = {'a': NO}", check="marks['a'] is NO"),
    "keys": case("KEY = object(); by_key = {KEY: 1}", check="by_key[KEY]"),
    "default of a function": case(
        "UNSET = object()\ndef get(x=UNSET): return 'unset' if x is UNSET else 'set'",
        check="get()",
    ),
    "keyword default": case(
        "UNDEF = object()\ndef gets(*, x=UNDEF): return x is UNDEF", check="gets()"
    ),
    "in a class": case(
        "EMPTY = object()\nclass Slot:\n    empty = EMPTY\n    def is_empty(self): "
        "return self.empty is EMPTY",
        check="Slot().is_empty()",
    ),
    "closure of a decorator of a library": case(
        "log = []\ndef noted(f):\n    @functools.wraps(f)\n    def call(*a):\n"
        "        log.append(a); return f(*a)\n    return call\n"
        "@noted\ndef plus(a): return a + 1\nplus(1)",
        check="(plus(2), log.pop())",
    ),
    "state of an object": case(
        "class Adam:\n    def __init__(self, p): self.groups = ({'p': p},)\n"
        "weight = np.ones(3); adam = Adam(weight)",
        check="adam.groups[0]['p'] is weight",
    ),
    "mapping proxy": case(
        "inner = np.ones(1); shown_by = types.MappingProxyType({'a': inner})",
        check="shown_by['a'] is inner",
    ),
    "long list": case(
        "shared_array = np.ones(2); longs = [(shared_array, n) for n in range(2000)]",
        check="all(each[0] is shared_array for each in longs)",
    ),
    "view of an array of objects": case(
        "boxed = ['a']; objects = np.empty(2, object); objects[0] = boxed; part_of = objects[1:]\n"
        "all_of, boxed_too = {'a': objects}, [boxed]; del objects",
        check="all_of['a'][0] is boxed_too[0]",
    ),
    "long text": case("text = 'x' * 5_000_000; texts = [text]", check="texts[0] is text"),
    "long bytes": case("raw = bytes(5_000_000); raws = {'a': raw}", check="raws['a'] is raw"),
}

DEFINITIONS = {
    "class shown last": case(
        "class Disc:\n    def __init__(self, r): self.r = r",
        "d = Disc(2)",
        "Disc",
        check="(d.r, type(d) is Disc)",
    ),
    "function shown last": case(
        "def scale(x): return 2 * x",
        "half = [scale]",
        "scale",
        check="half[0] is scale and half[0](2)",
    ),
    "lambda shown last": case("lambda x: x + 1", "plus_one = [_]", check="plus_one[0](1)"),
    "class shown before": case(
        "class Cone: pass", "Cone", "cone = Cone()", "1", "2", "3", check="type(cone) is Cone"
    ),
    "class in Out": case(
        "class Cube: pass", "Cube", "cube = Out[len(In) - 2]()", "4", check="type(cube) is Cube"
    ),
    "only in _": case(
        "class Gone:\n    a = 1", "Gone", "gone = _(); del Gone", "5", check="gone.a"
    ),
    "singledispatch": case(
        "@functools.singledispatch\ndef show(x): return 'any'\n\n"
        "@show.register\ndef _(x: int): return 'int'\n",
        check="(show(1), show('a'))",
    ),
    "slots": case(
        "class S:\n    __slots__ = ('time', 'channel', 'amplitude')\n"
        "    def row(self): return [getattr(self, n) for n in self.__slots__]",
        "s = S(); s.time, s.channel, s.amplitude = 10, 'A', 0.5",
        check="(s.row(), S.__slots__)",
    ),
    "slots as a list": case("class SL:\n    __slots__ = ['z', 'a']", check="SL.__slots__"),
    "slots as a dict": case(
        "class SD:\n    __slots__ = {'z': 'last', 'a': 'first'}",
        check="(SD.__slots__, SD.z.__doc__)",
    ),
    "slots as text": case("class ST:\n    __slots__ = 'only'", check="ST.__slots__"),
    "private slots": case(
        "class SP:\n    __slots__ = ('__b', 'a')\n    def __init__(self): self.__b = 3\n"
        "    def get(self): return self.__b",
        "sp = SP()",
        check="(sp.get(), SP.__slots__)",
    ),
    "slots with a dict": case(
        "class SX:\n    __slots__ = ('__dict__', 'b', '__weakref__', 'a')",
        "sx = SX(); sx.b, sx.c = 1, 2",
        check="(SX.__slots__, sx.b, sx.c)",
    ),
    "slots of a dataclass": case(
        "@dataclasses.dataclass(slots=True)\nclass SC:\n    z: int = 0\n    a: int = 1",
        check="(SC.__slots__, repr(SC()))",
    ),
    "attrs with a factory": case(
        "@attrs.define\nclass B:\n    m: dict = attrs.field(factory=dict)\n",
        "b = B()",
        check="(repr(b), repr(B()))",
    ),
    "attrs, frozen": case(
        "@attrs.frozen\nclass BF:\n    n: int = 3\n    l: list = attrs.Factory(list)",
        "bf = BF()",
        check="(repr(bf), bf == BF(), hash(BF(1, 2)) == hash(BF(1, 2)))",
    ),
    "attrs with a converter": case(
        "@attrs.define\nclass BC:\n    n: int = attrs.field(converter=int, validator="
        "attrs.validators.ge(0))",
        check="repr(BC('4'))",
    ),
    "exec with globals": case(
        "space = {'n': 0}\nexec('def count():\\n    global n\\n    n += 1\\n    return n\\n"
        "def last(): return n', space)\ncount_up, last_count = space['count'], space['last']",
        "count_up()",
        check="(count_up(), last_count(), space['n'])[1:]",
        said="space",
    ),
    "exec without the dict": case(
        "def made():\n    own = {'step': 2}\n    exec('def add():\\n    global step\\n"
        "    step += 1\\n    return step\\ndef show(): return step', own)\n"
        "    return own['add'], own['show']\nadd_step, show_step = made()",
        "add_step()",
        check="(add_step(), show_step())[1] - show_step()",
    ),
    "FunctionType": case(
        "def based(): return base\nrebased = types.FunctionType(based.__code__, {'base': [7]})",
        check="rebased()",
    ),
    "named tuple with a method": case(
        "class Point(typing.NamedTuple):\n    x: int\n    y: int = 2\n"
        "    def sum(self): return self.x + self.y",
        "point = Point(1)",
        check="(point.sum(), Point._field_defaults, type(point) is Point)",
    ),
    "registry by __init_subclass__": case(
        "class Reader:\n    known = {}\n    def __init_subclass__(cls, *, suffix, **k):\n"
        "        super().__init_subclass__(**k); Reader.known[suffix] = cls\n",
        "class Csv(Reader, suffix='csv'):\n    def read(self): return 'rows'\n",
        "r = Csv()",
        check="(Reader.known['csv'] is Csv, len(Reader.known), r.read())",
    ),
    "__init_subclass__ that counts": case(
        "class Counted:\n    made = []\n    def __init_subclass__(cls): "
        "Counted.made.append(cls.__name__)",
        "class One(Counted): pass\nclass Two(One): pass",
        "two = Two()",
        check="Counted.made",
    ),
    "__init_subclass__ that reads the body": case(
        "class Named:\n    def __init_subclass__(cls): cls.upper = cls.label.upper()",
        "class Low(Named):\n    label = 'low'",
        "low = Low(); low.upper",
        check="low.upper",
    ),
    "__init_subclass__ of a function's class": case(
        "def family():\n    class Parent:\n        def __init_subclass__(cls, age): cls.age = age\n"
        "    class Child(Parent, age=3): pass\n    return Child\nchild = family()()",
        check="child.age",
    ),
    "__set_name__": case(
        "class Field:\n    def __set_name__(self, owner, name): self.name = name\n"
        "    def __get__(self, one, kind): return self.name",
        "class Form:\n    first = Field()\nform = Form()",
        check="form.first",
    ),
    "metaclass with a keyword": case(
        "class Meta2(type):\n    def __new__(m, n, b, s, *, tag): return super().__new__(m, n, b, "
        "{**s, 'tag': tag})\n    def __init__(c, n, b, s, *, tag): super().__init__(n, b, s)",
        "class Tagged(metaclass=Meta2, tag='t'): pass",
        "tagged = Tagged()",
        check="(tagged.tag, type(Tagged).__name__)",
    ),
}

PARTS = {
    "cache": case(
        "calls = []\n@functools.lru_cache\ndef ask(q):\n    calls.append(q); return q.upper()",
        "ask('a')",
        check="(ask('a'), calls)",
        said="ask",
    ),
    "cache of a method": case(
        "seen = []\nclass Asker:\n    @functools.cache\n    def ask(self):\n"
        "        seen.append(1)\n"
        "        return 1",
        "asker = Asker(); asker.ask()",
        check="(asker.ask(), seen)",
        said="Asker",
    ),
    "empty cache": case(
        "@functools.lru_cache(maxsize=5)\ndef idle_cache(n): return n",
        check="(idle_cache.cache_info().maxsize, idle_cache(2))",
    ),
    "cached property": case(
        "class Lazy:\n    @functools.cached_property\n    def n(self): return [1]",
        "lazy = Lazy(); lazy.n.append(2)",
        check="lazy.n",
    ),
    "enum with __new__": case(
        "class Color(enum.Enum):\n    RED = (1, 'r')\n    def __new__(cls, code, letter):\n"
        "        m = object.__new__(cls); m._value_ = code; m.letter = letter; return m",
        "c = Color.RED",
        check="(c is Color.RED, c.letter, Color(1) is c, c.value)",
    ),
    "enum with __init__": case(
        "class Planet(enum.Enum):\n    EARTH = (5.9, 6.3)\n    def __init__(self, mass, radius):\n"
        "        self.mass, self.radius = mass, radius",
        "home = Planet.EARTH",
        check="(home is Planet.EARTH, home.mass, home.value)",
    ),
    "enum of text with __new__": case(
        "class Unit(str, enum.Enum):\n    METRE = ('m', 1.0)\n    def __new__(cls, sign, factor):\n"
        "        u = str.__new__(cls, sign); u._value_ = sign; u.factor = factor; return u",
        "unit = Unit.METRE",
        check="(unit is Unit.METRE, unit.factor, unit == 'm', Unit('m') is unit)",
    ),
    "enum whose member got an attribute": case(
        "class Level(enum.IntEnum):\n    LOW = 1\n    HIGH = 2\n    LEAST = 1",
        "Level.LOW.hits = [3]",
        check="(Level.LOW.hits, Level.LEAST is Level.LOW, list(Level), Level.HIGH > Level.LOW)",
    ),
    "enum with automatic values": case(
        "class Auto(enum.StrEnum):\n    @staticmethod\n    def _generate_next_value_(n, *_): "
        "return n[::-1]\n    ABC = enum.auto()",
        check="(Auto.ABC.value, Auto('CBA') is Auto.ABC)",
    ),
    "flag": case(
        "class Perm(enum.Flag):\n    R = 1\n    W = 2\n    RW = R | W\nboth = Perm.R | Perm.W",
        check="(both is Perm.RW, both == Perm.RW, Perm.R in both, ~Perm.R == Perm.W)",
    ),
    "enum with methods": case(
        "class Op(enum.Enum):\n    ADD = '+'\n    def apply(self, a, b): return a + b\n"
        "    @property\n    def sign(self): return self.value\n    @classmethod\n"
        "    def first(cls): return cls.ADD",
        check="(Op.ADD.apply(1, 2), Op.ADD.sign, Op.first() is Op.ADD)",
    ),
    "enum that refers to its members": case(
        "class Turn(enum.Enum):\n    LEFT = 1\n    RIGHT = 2\n"
        "Turn.opposite = {Turn.LEFT: Turn.RIGHT}",
        check="Turn.opposite[Turn.LEFT] is Turn.RIGHT",
    ),
    "abstract class with registrations": case(
        "class Shape(abc.ABC):\n    pass\nclass Blob: pass\nShape.register(Blob); "
        "Shape.register(int)",
        "blob = Blob()",
        check="(isinstance(blob, Shape), isinstance(1, Shape), isinstance('', Shape))",
    ),
    "abstract methods": case(
        "class Must(abc.ABC):\n    @abc.abstractmethod\n    def act(self): ...\n"
        "def try_it(k):\n    try: return k()\n    except TypeError: return 'abstract'",
        check="(try_it(Must), sorted(Must.__abstractmethods__))",
    ),
    "weak reference with a callback": case(
        "died = []\nclass Alive: pass\nalive = Alive(); "
        "watch = weakref.ref(alive, lambda _: died.append(1))",
        check="(watch() is alive, watch.__callback__ is not None)",
    ),
    "weak value dictionary": case(
        "class Held: pass\nheld = Held(); by_name = weakref.WeakValueDictionary(a=held)",
        check="by_name['a'] is held",
        said="by_name",
    ),
    "weak key dictionary": case(
        "class HeldKey: pass\nheld_key = HeldKey(); weak_keys = weakref.WeakKeyDictionary()\n"
        "weak_keys[held_key] = 4",
        check="weak_keys[held_key]",
        said="weak_keys",
    ),
    "weak set": case(
        "class Member: pass\nmember = Member(); members_of = weakref.WeakSet([member])",
        check="member in members_of",
        said="members_of",
    ),
    "finalizer": case(
        "class Ends: pass\nends = Ends(); at_end = weakref.finalize(ends, print, 'end')",
        check="at_end.alive",
        said="at_end",
    ),
    "held lock": case(
        "held_lock = threading.Lock(); held_lock.acquire()",
        check="held_lock.acquire(blocking=False)",
        said="held_lock",
    ),
    "lock of a lost holder": case(
        "class Guard:\n    def __init__(self): self.lock = threading.RLock()",
        "guard = Guard(); guard.lock.acquire()",
        check="guard.lock.acquire(blocking=False)",
    ),
    "condition": case(
        "turn = threading.Condition(); turn_lock = turn._lock",
        check="turn_lock is turn._lock and turn.acquire(timeout=1)",
    ),
    "hard mask": case(
        "hard = np.ma.array([1, 2], mask=[True, False], hard_mask=True)",
        check="(hard.hardmask, hard.tolist())",
    ),
    "fill value": case(
        "filled = np.ma.array([1, 2], mask=[True, False], fill_value=77)",
        check="(filled.fill_value, filled.hardmask, filled.sharedmask)",
        said="filled",
    ),
    "bound method": case(
        "class Meter:\n    def __init__(self): self.n = 0\n    def up(self): self.n += 1; return "
        "self.n",
        "meter = Meter(); up = meter.up",
        check="up.__self__ is meter",
    ),
    "function attributes": case(
        "def tagged_one(): return tagged_one.tags\ntagged_one.tags = ['a']", check="tagged_one()"
    ),
    "order of a dict": case(
        "ordering = {'z': 1, 'a': 2}; ordering['m'] = 0; del ordering['z']; ordering['z'] = 1",
        check="list(ordering)",
    ),
    "partial of a partial": case(
        "part = functools.partial(functools.partial(max, 3), key=lambda x: -x)",
        check="(part(5), part.args)",
    ),
}

NAMES = {
    "__version__": case(
        "__version__ = '1.2'\ndef version(): return __version__", check="version()"
    ),
    "__all__": case("__all__ = ['a']", check="__all__"),
    "__author__": case("__author__ = 'me'", check="__author__"),
    "underscore": case("_private = 3", check="_private"),
    "dunder of a library": case(
        "__threshold__ = 4\ndef over(n): return n > __threshold__", check="over(5)"
    ),
}

MODULES = {
    "import a.b": case("import xml.sax.saxutils", check="xml.sax.saxutils.escape('<')"),
    "import a.b, a is there": case(
        "import email", "import email.mime.text", check="email.mime.text.MIMEText.__name__"
    ),
    "from a.b import c, used by a": case(
        "import concurrent\nfrom concurrent.futures import wait as waits",
        check="concurrent.futures.wait is waits",
    ),
    "import a.b as c": case(
        "import importlib.resources.abc as resources_abc", check="resources_abc.__name__"
    ),
    "by a function": case(
        "import logging\ndef load():\n    import logging.handlers\nload()",
        check="logging.handlers.__name__",
    ),
    "in a package of one's own": case("import lab.steps.clean", check="lab.steps.clean.run(3)"),
    "renamed package": case(
        "import lab.steps as steps\nimport lab.steps.score", check="steps.score.run(3)"
    ),
}

FILES = {
    "lab/__init__.py": "",
    "lab/steps/__init__.py": "",
    "lab/steps/clean.py": "def run(x): return x + 1\n",
    "lab/steps/score.py": "def run(x): return x + 2\n",
}

ALL = {**SHARING, **DEFINITIONS, **PARTS, **NAMES, **MODULES}


def test_each_expression_is_as_before_or_its_name_is_listed(tmp_path: Path) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    check_all(ALL, tmp_path)
