"""Exceptions that the program keeps after it caught them are the ones that CPython raises."""

import abc
import builtins
import collections
import contextlib
import math
import traceback

import pytest
import torch

import capture


class Plain:
    held = 1


class Child(Plain):
    def missing(self):
        return super().vlue


class Asked:
    def __getattr__(self, name):
        raise AttributeError("not here")


class Slots:
    __slots__ = ("value",)
    shown = 1

    @property
    def only(self):
        return 1


def an_unknown_name():
    return undefined_thing  # noqa: F821


def an_unbound_variable():
    if math is None:
        a = 1
    return a


def an_unknown_import():
    from math import cosinus

    return cosinus


def a_new_attribute():
    Slots().vlue = 1


def a_shown_attribute():
    Slots().shown = 2


def no_setter():
    Slots().only = 1


def no_deleter():
    del Slots().only


def no_such_attribute():
    del Plain().vlue


def one_of_the_class():
    del Plain().held


def an_empty_slot():
    del Slots().value


def raised_while_handling():
    try:
        raise KeyError("k")
    except KeyError:
        return [].missing


RAISES = [
    lambda: Plain().vlue,
    lambda: Plain.vlue,
    lambda: math.cosinus,
    lambda: "a".uper(),
    lambda: [].push(1),
    lambda: (1, 2).frst,
    lambda: len.nme,
    lambda: torch.ones(2).sinn(),
    lambda: torch.nn.ReLU().vlue,
    lambda: getattr(Plain(), "vlue"),
    lambda: object.__getattribute__(Plain(), "vlue"),
    lambda: Asked().vlue,
    lambda: Slots().value,
    lambda: Child().missing(),
    lambda: Child().missing.nme,
    lambda: {}["k"],
    lambda: [][1],
    lambda: int("x"),
    an_unknown_name,
    an_unbound_variable,
    an_unknown_import,
    a_new_attribute,
    a_shown_attribute,
    no_setter,
    no_deleter,
    no_such_attribute,
    one_of_the_class,
    an_empty_slot,
    raised_while_handling,
]


def what_it_raises(function):
    try:
        function()
    except Exception as error:  # noqa: BLE001 - the test is about it
        return error
    return None


def told(error):
    named = {name: getattr(error, name, "none") for name in ("name", "path")}
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return type(error), error.args, named, type(getattr(error, "obj", 0)), frames, type(error.__context__)


@pytest.mark.parametrize("function", RAISES, ids=lambda function: function.__name__)
def test_what_is_kept_tells_what_cpythons_tells(function, x):
    def keep(a):
        return a + 1, what_it_raises(function)

    _, actual = capture.optimize("eager", strict=True)(keep)(x)
    assert told(actual) == told(what_it_raises(function))


@pytest.mark.parametrize("function", RAISES, ids=lambda function: function.__name__)
def test_what_is_let_go_says_what_cpythons_says(function, check, x):
    def look(a):
        try:
            function()
        except Exception as error:  # noqa: BLE001 - the test is about it
            return a + 1, type(error).__name__, str(error)
        return a - 1

    check(look, x, breaks=3 if function is an_unknown_import else 0)  # within it, at its call, its text


def test_one_that_is_hung_on_an_object_has_its_traceback(x):
    def keep(a, kept):
        try:
            raise ValueError("v")
        except ValueError as error:
            kept.append(error)
        return a + 1

    kept, log = [], capture.Log()
    result = capture.optimize("eager", strict=True, log=log)(keep)(x, kept)
    assert torch.equal(result, x + 1)
    assert [frame.name for frame in traceback.extract_tb(kept[0].__traceback__)] == ["keep"]


def test_one_that_ends_within_the_function_is_no_reason_to_break(check, x):
    def search(a):
        tried = []
        for key in ("a", "b", "c"):
            try:
                {"c": 3}[key]
            except KeyError as error:
                tried.append(error)
        return a * len(tried), [str(error) for error in tried]

    check(search, x)


def test_a_part_of_a_package_is_imported_where_the_program_does(check, x):
    def first_import(a):
        from wsgiref import util

        return a + 1, util.__name__

    check(first_import, x)


def test_a_chain_of_contexts_that_the_program_closed(check, x):
    def closes(a):
        try:
            try:
                raise ValueError(1)
            except ValueError as error:
                error.__context__ = error
                raise TypeError(2)
        except TypeError as raised:
            return a + 1, type(raised.__context__), raised.__context__.__context__ is raised.__context__

    check(closes, x)


def test_a_question_about_an_exception_of_the_evaluation_is_no_end_of_the_frame(x):
    def double(a):
        return a * 2

    def asks(a):
        try:
            math.undefined
        except AttributeError as error:
            name = error.name
        return double(a), name

    log = capture.Log()
    result, name = capture.optimize("eager", strict=True, log=log)(asks)(x)
    assert torch.equal(result, x * 2)
    assert name == "undefined"
    assert any(isinstance(record, capture.GraphRecord) for record in log.records())


@pytest.mark.parametrize("items", [[1], (1,), torch.Size([1]), collections.deque([1]), torch.ones(2).max(0)])
def test_an_item_that_is_not_there(items):
    def take(x):
        try:
            return x + items[9]
        except IndexError as error:
            return x * 2, str(error)

    assert capture.optimize()(take)(torch.ones(1)) == take(torch.ones(1))


# -- what CPython refuses, it refuses at its place, in its words -------------------------------------------------------

_CLASSES = """
import abc, enum, collections, dataclasses, typing, functools, torch, types
import torch.nn as nn
class Abstract(abc.ABC):
    def __init__(self, w): self.w = w
    @abc.abstractmethod
    def go(self, x): ...
    @classmethod
    def make(cls, *a): return cls(*a)
    @staticmethod
    def build(): return Abstract(1)
class Half(Abstract):
    @property
    @abc.abstractmethod
    def size(self): ...
    def go(self, x): return x
class Whole(Half):
    size = 3
class OwnNew(abc.ABC):
    def __new__(cls, *a): return super().__new__(cls)
    @abc.abstractmethod
    def go(self): ...
class OwnNewArgs(object):
    def __new__(cls, *a): return super().__new__(cls, *a)
class OwnNewAndInit(object):
    def __new__(cls, *a): return object.__new__(cls, *a)
    def __init__(self, *a): pass
class InitArgs(object):
    def __init__(self, *a): super().__init__(*a)
class InitArgsKw(object):
    def __init__(self, **a): super().__init__(**a)
class NewOnly(object):
    def __new__(cls, a): return super().__new__(cls)
class Mixed(NewOnly):
    def __init__(self, a): super().__init__(a)
class Plain: pass
class Slots:
    __slots__ = ("a",)
class Slots2(Slots):
    __slots__ = ("b",)
@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int = 1
@dataclasses.dataclass
class Data:
    a: int
    b: int = 2
@dataclasses.dataclass(slots=True, frozen=True)
class FS:
    a: int = 1
@dataclasses.dataclass(kw_only=True)
class KW:
    a: int
class Color(enum.Enum):
    RED = 1
class Num(enum.IntEnum):
    ONE = 1
class Flag(enum.Flag):
    A = 1
class Named(typing.NamedTuple):
    a: int
    b: int = 3
Point = collections.namedtuple("Point", "x y")
class Proto(typing.Protocol):
    def go(self): ...
class ProtoInit(typing.Protocol):
    w: int
    def __init__(self, w): self.w = w
class Impl(Proto): pass
class ReadOnly:
    @property
    def a(self): return 1
    @functools.cached_property
    def b(self): return 2
class NoDel:
    @property
    def a(self): return 1
    @a.setter
    def a(self, v): self.v = v
class Module(nn.Module, abc.ABC):
    def __init__(self): super().__init__()
    @abc.abstractmethod
    def forward(self, x): ...
class ListA(list, abc.ABC):
    @abc.abstractmethod
    def go(self): ...
class Meta(type):
    def __call__(cls, *a): raise TypeError("no instances")
class NoInst(metaclass=Meta): pass
class Gen(typing.Generic[typing.TypeVar("T")]): pass
class TD(typing.TypedDict):
    a: int
class Req:
    def __init__(self, a, *, b): pass
class IntSub(int): pass
class Final(metaclass=abc.ABCMeta):
    @abc.abstractmethod
    def a(self): ...
    @abc.abstractmethod
    def b(self): ...
def raise_(text): raise ValueError(text)
"""
_MAKING = """
    Abstract(2.) ; Abstract.make(2) ; Abstract.build() ; Abstract() ; Half(1) ; Whole(1) ; OwnNew() ;
    OwnNew(1) ; OwnNewArgs() ; OwnNewArgs(1) ; OwnNewAndInit(1) ; OwnNewAndInit() ; InitArgs() ; InitArgs(1) ;
    InitArgsKw(a=1) ; NewOnly() ; NewOnly(1) ; Mixed(1) ; Plain(1) ; Plain(a=1) ; object.__new__(Plain, 1) ;
    object.__new__(Abstract) ; object.__new__(InitArgs, 1) ; object.__new__(1) ; object.__new__() ;
    object.__new__(list) ; object.__new__(int) ; Plain.__new__(Plain, 1) ; list.__new__(dict) ;
    Plain().__init__(1) ; object.__init__(Plain(), 1) ; InitArgs().__init__(1) ; Slots().b ; Slots().a ;
    setattr(Slots(), 'b', 1) ; setattr(Slots2(), 'c', 1) ; delattr(Slots(), 'a') ; Slots(1) ; vars(Slots()) ;
    setattr(Frozen(), 'a', 2) ; setattr(Frozen(), 'q', 2) ; delattr(Frozen(), 'a') ; setattr(FS(), 'a', 2) ;
    setattr(FS(), 'q', 2) ; Frozen(1, 2) ; Frozen(b=1) ; Data() ; Data(1, 2, 3) ; Data(1, a=2) ; KW(1) ; KW() ;
    Color(2) ; Color('RED') ; Color() ; Color['X'] ; Num(2) ; Flag(8) ; Color.RED.value.x ;
    setattr(Color, 'RED', 2) ; setattr(Color.RED, 'value', 2) ; setattr(Color.RED,'name',2) ;
    delattr(Color, 'RED') ; Color(1, 2) ; Named() ; Named(1, 2, 3) ; Named(c=1) ; Point(1) ; Point(1, 2, 3) ;
    Point(1, y=2, z=3) ; Point(1, 2)._replace(q=1) ; Point._make([1]) ; setattr(Point(1, 2), 'x', 1) ;
    setattr(Point(1,2), 'q', 1) ; Named(1).c ; Proto() ; ProtoInit(1) ; Impl() ; setattr(ReadOnly(), 'a', 1) ;
    delattr(ReadOnly(), 'a') ; delattr(ReadOnly(), 'b') ; delattr(NoDel(), 'a') ; ReadOnly().c ; ReadOnly(1) ;
    Module() ; ListA() ; ListA(1) ; NoInst() ; NoInst(1) ; Gen(1) ; Gen() ; TD(1) ; Req() ; Req(1) ; Req(1, 2) ;
    Req(1, b=2, c=3) ; super(Plain, 1) ; None.x ; None() ; None[0] ; IntSub('x') ; IntSub(1).q ; Final() ;
    BaseException.__new__(int) ; ValueError(a=1) ; StopIteration(1).x ; KeyError().args[0] ;
    ExceptionGroup('a', []) ; ExceptionGroup('a') ; ExceptionGroup(1, [ValueError()]) ; int.__new__(str)
"""
_BUILTINS = """
    object(1) ; range() ; range(1.5) ; range(1, 2, 0) ; slice() ; slice(1, 2, 3, 4) ; complex('x') ;
    bool(1, 2) ; str(1, 2) ; str(b'', 'x') ; tuple(1) ; tuple([1], 2) ; list(1) ; dict(1) ; dict([1]) ;
    dict([(1, 2, 3)]) ; set(1) ; frozenset(1) ; set([[]]) ; {[]: 1} ; {}[[]] ; type(1, 2) ; type() ;
    enumerate() ; enumerate(1) ; zip(1) ; zip([1], [1, 2], strict=True) ; list(zip([1], [1, 2], strict=True)) ;
    map() ; map(1) ; list(map(1, [1])) ; filter(1) ; reversed(1) ; reversed({1}) ; iter(1) ; iter(1, 2) ;
    next(1) ; len(1) ; len() ; abs('x') ; sum(1) ; sum(['a']) ; sum(['a'], '') ; min() ; min([]) ; max(1) ;
    max([], key=1) ; sorted(1) ; sorted([1, 'a']) ; sorted([1], 2) ; isinstance(1, 1) ; issubclass(1, int) ;
    hash([]) ; ord('ab') ; ord(1) ; chr(-1) ; divmod(1, 0) ; round('x') ; pow(0, -1) ; 1 // 0 ; 1 % 0 ;
    1.0 / 0 ; 'a' + 1 ; 1 + 'a' ; [] + () ; [1] * 'a' ; '%d' % 'a' ; '%d %d' % 1 ; '{}'.format() ;
    '{a}'.format(1) ; '{:d}'.format('a') ; f'{1:q}' ; [1][2] ; [1]['a'] ; (1,)[5] ; 'a'[3] ; {}['a'] ;
    [1].index(2) ; [1].remove(2) ; [].pop() ; [1].pop(5) ; {}.pop('a') ; {}.popitem() ; set().pop() ;
    {1}.remove(2) ; [].insert('a', 1) ; [1].pop('a') ; ''.join([1]) ; 'a'.index('b') ; 'a,b'.split('') ;
    'a'.encode('nope') ; getattr(1, 'x') ; getattr(1, 2) ; setattr(1, 'x', 2) ; delattr(1, 'x') ; (1).x ; 1() ;
    'a'() ; []() ; 1[0] ; (lambda a: a)() ; (lambda a: a)(1, 2) ; (lambda: 1)(a=1) ; (lambda a, /: a)(a=1) ;
    (lambda *, a: a)() ; (lambda a: a)(1, a=2) ; (lambda a: a)(**{'a': 1, 'b': 2}) ;
    dict(**{'a': 1}, **{'a': 2}) ; print(**{'q': 1}) ; functools.partial() ; functools.partial(1) ;
    functools.reduce(max, []) ; collections.deque(1) ; collections.deque([1], -1) ;
    collections.deque([1], 'a') ; collections.deque([]).pop() ; collections.deque([]).popleft() ;
    collections.deque([1]).remove(3) ; collections.deque([1])[4] ; collections.OrderedDict().popitem() ;
    collections.OrderedDict(a=1).move_to_end('b') ; collections.Counter(1) ; collections.defaultdict(1) ;
    collections.defaultdict()[1] ; collections.ChainMap()['a'] ; collections.UserDict()['a'] ;
    types.SimpleNamespace(1) ; types.SimpleNamespace().a ; types.MappingProxyType(1) ;
    types.MappingProxyType({}).x ; setattr(object(), 'a', 1) ; setattr(list, 'a', 1) ;
    setattr(torch.float32, 'a', 1) ; setattr(torch.nn.Linear(1, 1), 'weight', 3) ; raise_('x') ;
    int.from_bytes(1) ; (1).to_bytes(-1) ; list.append(1, 2) ; list.append([]) ; [].append() ; [].append(1, 2) ;
    [].sort(1) ; [].extend(1) ; {}.update(1) ; {}.get() ; str.join('a') ; dict.fromkeys(1) ;
    dict.fromkeys([[]]) ; x['a'] ; x[5] ; x + 'a' ; x @ 1 ; len(x.sum()) ; bool(x) ; x(1) ; a, b, c = x ;
    a, b = 1 ; a, b = [1] ; a, b = [1, 2, 3] ; a, *b, c = [1] ; assert False ; assert 0, 'text' ;
    raise ValueError ; raise 1 ; raise None ; raise ValueError('a') from 1 ; del nope ; nope ; with 1: pass ;
    for i in 1: pass ; match_ = {**1} ; [*1] ; f = [*[1], *2] ; print(*1)
"""
_PROGRAM = """
def play(x, told):
    y = x + 1
    try:
        told.append("before")
        {}
    except Exception as error:
        told += [type(error), str(error), type(error.__cause__)]
    else:
        told.append("nothing")
    return y * 2
"""


def _refused(statement, around):
    with contextlib.suppress(SyntaxError):
        statement = "told.append(type({}))".format(compile(statement, "", "eval") and statement)
    names = {}
    exec(_CLASSES + _PROGRAM.format(statement), names)
    play, seen = around(names["play"]), []
    for _ in range(2):
        told = []
        play(torch.ones(2), told)
        seen.append([getattr(each, "__qualname__", each) for each in told])
    return seen


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("statements", [_MAKING, _BUILTINS], ids=["making", "builtins"])
def test_what_is_refused_is_refused_where_it_stands(statements):
    statements = [each.strip() for each in statements.split(" ;")]
    both = {
        each: [_refused(each, around) for around in (lambda f: f, capture.optimize("eager"))] for each in statements
    }
    assert {each: pair for each, pair in both.items() if pair[0] != pair[1]} == {}


def test_a_class_that_becomes_abstract():
    class Loss(abc.ABC):
        def __init__(self, scale):
            self.scale = scale

    def play(x):
        try:
            return Loss(2.0).scale * x
        except TypeError:
            return "abstract"

    captured = capture.optimize("eager", strict=True, nopython=True)(play)
    assert captured(torch.ones(1)).item() == 2
    Loss.__abstractmethods__ = frozenset({"forward"})
    assert captured(torch.ones(1)) == "abstract"
    Loss.__abstractmethods__ = frozenset()
    assert captured(torch.ones(1)).item() == 2


_KINDS = [kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, Exception)]
_GIVEN = [(), ("hi",), (2, "no"), (2, "no", "file"), ("utf8", b"abc", 0, 2, "why"), ("m", ("f", 1, 2, "text"))]


def _shown(error):
    numbers = (getattr(error, name, None) for name in ("errno", "filename", "reason", "msg", "lineno", "name"))
    return type(error), str(error), repr(error), error.args, *numbers


@pytest.mark.parametrize("given", _GIVEN, ids=str)
def test_classes_that_take_their_arguments_apart(given):
    """The class of an ``OSError`` is told by its number, syntax errors keep a position, others refuse what they get."""

    def play(x, kind):
        y = x + 1
        try:
            raise kind(*given)
        except FileNotFoundError as error:
            return "not found", error, y
        except Exception as error:  # noqa: BLE001  whichever it is
            return "other", error, y

    for kind in _KINDS:
        eager, ours = (f(torch.ones(1), kind) for f in (play, capture.optimize("eager", strict=True)(play)))
        assert (ours[0], _shown(ours[1]), ours[2]) == (eager[0], _shown(eager[1]), eager[2]), kind


def test_the_text_of_an_error_of_memory():
    def play(x):
        try:
            raise MemoryError("batch of 8")
        except MemoryError as error:
            return x + 1, str(error), repr(error)

    assert capture.optimize("eager", strict=True, nopython=True)(play)(torch.ones(1))[1:] == play(torch.ones(1))[1:]


MADE = []


class First(Exception):
    def __init__(self):
        MADE.append("exception")


class Second(Exception):
    def __init__(self):
        MADE.append("cause")


@pytest.mark.parametrize("raised", [First, First(), 3])
def test_an_exception_is_made_ahead_of_its_cause(raised):
    def play(x):
        MADE.clear()
        try:
            raise raised from Second
        except (First, TypeError) as error:
            return x + 1, [*MADE], str(error), type(error.__cause__)

    captured = capture.optimize("eager", strict=True, nopython=True)(play)
    assert captured(torch.ones(1))[1:] == play(torch.ones(1))[1:]
