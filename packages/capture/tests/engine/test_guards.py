"""The guard tree: how values are reached, what the checks accept, and how the first failure is named."""

import collections
import gc
import math
import signal
import sys
import types
import weakref

import pytest
from engine_under_test import Guards

ROOT = ("root",)


def at(*accessors, check=("true", 0)):
    """A tree with one check at the end of a path of accessors."""
    node = (accessors[-1], (check,), ())
    for accessor in reversed(accessors[:-1]):
        node = (accessor, (), (node,))
    return Guards((ROOT, (), (node,)))


def passes(value, check):
    return Guards((("arg", 0), (check,), ())).check(None, (value,))


captured = "in a cell"
some_global = "a global"


def function_with_closure():
    cell = captured

    def inner(a, b=2):
        return cell

    return inner


class Holder:
    attribute = "of the class"

    def __init__(self):
        self.own = "of the instance"

    def method(self):
        return "from the method"

    @property
    def broken(self):
        raise ValueError("asking goes wrong")

    @property
    def missing_inside(self):
        return self.nothing


PATHS = {
    "root": ([("attr", "__name__")], "inner"),
    "arg": ([("arg", 1)], "second"),
    "closure": ([("closure", 0)], "in a cell"),
    "global": ([("global", "some_global")], "a global"),
    "builtin": ([("global", "len"), ("attr", "__name__")], "len"),
    "class attribute": ([("arg", 0), ("attr", "attribute")], "of the class"),
    "instance dict": ([("arg", 0), ("dict",), ("key", "own")], "of the instance"),
    "class dict": ([("arg", 0), ("type",), ("dict",), ("key", "attribute")], "of the class"),
    "builtin class dict": ([("const", int), ("dict",), ("key", "__doc__")], int.__doc__),
    "item of a tuple": ([("const", (1, 2, 3)), ("item", 2)], 3),
    "item of a list": ([("const", [1, 2, 3]), ("item", 0)], 1),
    "getitem": ([("const", range(5, 10)), ("getitem", -1)], 9),
    "key": ([("const", {(1, 2): "x"}), ("key", (1, 2))], "x"),
    "type": ([("arg", 0), ("type",), ("attr", "__name__")], "Holder"),
    "call": ([("call", sys.getrecursionlimit)], sys.getrecursionlimit()),
    "method": ([("arg", 0), ("method", "method")], "from the method"),
}


@pytest.mark.parametrize("name", PATHS)
def test_paths_lead_to_values(name):
    path, value = PATHS[name]
    arguments = (function_with_closure(), (Holder(), "second"))
    assert at(*path, check=("equals", 0, value)).check(*arguments)
    assert not at(*path, check=("equals", 0, object())).check(*arguments)
    assert not at(*path, check=("absent", 0)).check(*arguments)


MISSING = {
    "arg": [("arg", 2)],
    "closure": [("closure", 1)],
    "global": [("global", "no_such_name")],
    "attr": [("arg", 0), ("attr", "nothing")],
    "attribute of a property": [("arg", 0), ("attr", "missing_inside")],
    "dict": [("const", 3), ("dict",)],
    "key": [("arg", 0), ("dict",), ("key", "nothing")],
    "item": [("const", (1, 2)), ("item", 2)],
    "getitem": [("const", {}), ("getitem", "nothing")],
    "method": [("arg", 0), ("method", "nothing")],
}


@pytest.mark.parametrize("name", MISSING)
def test_missing_values_pass_only_the_absent_check(name):
    arguments = (function_with_closure(), (Holder(), "second"))
    assert at(*MISSING[name], check=("absent", 0)).check(*arguments)
    assert not at(*MISSING[name], check=("is", 0, None)).check(*arguments)


WRONG = {
    "property that raises": [("arg", 0), ("attr", "broken")],
    "closure of no function": [("arg", 0), ("closure", 0)],
    "global of no function": [("arg", 0), ("global", "some_global")],
    "key of no dict": [("arg", 0), ("key", "own")],
    "item of no sequence": [("arg", 0), ("item", 0)],
    "getitem of no container": [("arg", 0), ("getitem", 0)],
    "unhashable key": [("const", {}), ("key", [])],
    "call that raises": [("call", lambda: 1 // 0)],
}


@pytest.mark.parametrize("name", WRONG)
def test_where_asking_goes_wrong_not_even_absence_is_certain(name):
    for check in (("absent", 0), ("is", 0, None)):
        assert not at(*WRONG[name], check=check).check(function_with_closure(), (Holder(),))


def test_closures_and_globals_of_other_functions_than_the_called_one():
    other = function_with_closure()
    assert at(("arg", 0), ("closure", 0), check=("equals", 0, "in a cell")).check(None, (other,))
    assert at(("arg", 0), ("global", "some_global"), check=("equals", 0, "a global")).check(None, (other,))


def test_what_a_proxy_shows_and_what_a_function_makes():
    shown = types.MappingProxyType({"a": 1})
    assert at(("arg", 0), ("shown",), check=("keys", 0, ("a",))).check(None, (shown,))
    assert not at(("arg", 0), ("shown",), check=("keys", 0, ("a",))).check(None, ({"a": 1},))
    assert at(("arg", 0), ("made", len), check=("equals", 0, 2)).check(None, ("ab",))
    assert not at(("arg", 0), ("made", len), check=("equals", 0, 2)).check(None, (3,))
    function = function_with_closure()
    assert at(("cell", 0), check=("is", 0, function.__closure__[0])).check(function, ())
    assert not at(("cell", 0), check=("is", 0, function.__closure__[0])).check(len, ())


def test_an_empty_cell_is_missing():
    def outer():
        def inner():
            return later

        if inner is None:
            later = 1
        return inner

    assert at(("closure", 0), check=("absent", 0)).check(outer(), ())


nan = float("nan")
EQUAL = [
    (1, 1),
    (10**30, 10**30),
    ("text", "te" + "xt"[:2]),
    (b"bytes", bytes([98, 121, 116, 101, 115])),
    (1.5, 3.0 / 2),
    (nan, -math.inf + math.inf),
    (complex(0, nan), complex(0, nan)),
    (-0.0, -0.0),
    (None, None),
    (..., ...),
    (True, True),
    ((1, (2.0, nan), "x"), (1, (2.0, float("nan")), "x")),
    (frozenset({1, "a"}), frozenset({"a", 1})),
    (slice(1, nan, None), slice(1, float("nan"), None)),
    (range(3), range(0, 3, 1)),
    (int, int),
]
DIFFERENT = [
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    (complex(0.0, -0.0), 0j),
    (None, False),
    (1, 2),
    ("a", "b"),
    ((1, 2), (1, 2, 3)),
    ((1,), (True,)),
    ((0.0,), (-0.0,)),
    ((1,), [1]),
    (frozenset({1}), frozenset({True})),
    (frozenset({(1, 0.0)}), frozenset({(1, -0.0)})),
    (slice(0), slice(False)),
    (collections.namedtuple("P", "x")(1), (1,)),
]


@pytest.mark.parametrize(("left", "right"), EQUAL)
def test_equal_constants(left, right):
    assert passes(left, ("equals", 0, right))
    assert passes(right, ("equals", 0, left))


@pytest.mark.parametrize(("left", "right"), DIFFERENT)
def test_different_constants(left, right):
    assert not passes(left, ("equals", 0, right))
    assert not passes(right, ("equals", 0, left))


class Raises:
    def __eq__(self, other):
        raise RuntimeError("no comparison")

    __hash__ = None

    def __len__(self):
        raise RuntimeError("no length")

    def __bool__(self):
        raise RuntimeError("no truth")


CHECKS = [
    (("type", 0, int), [3], [True, 3.0, int]),
    (("type", 0, Holder), [Holder()], [type("Derived", (Holder,), {})(), Holder]),
    (("is", 0, None), [None], [0, ()]),
    (("is", 0, Holder), [Holder], [Holder(), None]),
    (("length", 0, 2), ["ab", [1, 2], {1: 1, 2: 2}, range(2)], ["a", [], 2, Raises()]),
    (("length", 0, 0), ["", ()], [None, Raises()]),
    (("true", 0), [1, "x", True], [0, "", Raises()]),
    (("false", 0), [0, "", False], [1, Raises()]),
    (("keys", 0, ("a", 1)), [{"a": 0, 1: 0}], [{1: 0, "a": 0}, {"a": 0}, {"a": 0, True: 0}, {"a": 0, 1: 0, 2: 0}, 3]),
    (("empty", 0, ("a", "b")), [{"a": {}, "b": {}}], [{"a": {}, "b": {1: 1}}, {"a": {}}, {"a": {}, "b": []}, 3]),
    (("empty", 0, ("a",)), [{"a": collections.OrderedDict()}], [{"a": collections.OrderedDict(x=1)}]),
    (("keys", 0, ("a", "b")), [collections.OrderedDict(a=0, b=0)], [collections.OrderedDict(b=0, a=0)]),
    (("python", 0, lambda value: value > 2), [3], [1, "x"]),
    (("items", 0, frozenset({1, "a"})), [{1, "a"}], [{1}, {True, "a"}, {1, "a", 2}, frozenset({1, "a"}), 3]),
    (("at", 0, id(Holder)), [Holder], [Holder(), None]),
    (
        ("refers", 0, weakref.ref(Holder)),
        [weakref.ref(Holder)],
        [weakref.ref(Raises), Holder, weakref.proxy(Holder), None],
    ),
    (("equals", 0, 1), [1], [Raises()]),
]


@pytest.mark.parametrize(("check", "accepted", "refused"), CHECKS, ids=[check[0] for check, _, _ in CHECKS])
def test_checks_accept_and_refuse(check, accepted, refused):
    assert [value for value in accepted if not passes(value, check)] == []
    assert [value for value in refused if passes(value, check)] == []


def test_keys_of_an_ordered_dict_follow_its_own_order():
    ordered = collections.OrderedDict(a=0, b=0)
    ordered.move_to_end("a")
    assert passes(ordered, ("keys", 0, ("b", "a")))
    assert not passes(ordered, ("keys", 0, ("a", "b")))


def test_a_relation_sees_the_function_and_all_argument_slots():
    guards = Guards(
        (ROOT, (), ()), (("relation", 0, (), None, lambda function, a, b, c: function is len and a + b == c),)
    )
    assert guards.check(len, (1, 2, 3))
    assert not guards.check(len, (1, 2, 4))
    assert not guards.check(len, (1, 2))
    assert not guards.check(max, (1, 2, 3))


def test_a_relation_of_many_slots():
    guards = Guards((ROOT, (), ()), (("relation", 0, (), None, lambda function, *slots: sum(slots) == 4950),))
    assert guards.check(len, tuple(range(100)))
    assert not guards.check(len, tuple(range(101)))


TREE = (
    ROOT,
    (("true", 1),),
    (
        (("arg", 0), (("type", 2, int), ("equals", 3, 5)), ()),
        (("arg", 1), (), ((("key", "a"), (("absent", 4),), ()), (("key", "b"), (("type", 5, str),), ()))),
    ),
)


@pytest.mark.parametrize(
    ("arguments", "index"),
    [
        ((5, {"b": "x"}), None),
        (("5", {"b": "x"}), 2),
        ((6, {"b": "x"}), 3),
        ((5, {"a": 1, "b": "x"}), 4),
        ((5, {}), 5),
        ((5, {"b": 1}), 5),
        ((5,), 5),
        ((), 2),
    ],
)
def test_the_first_failure_is_named_by_its_index(arguments, index):
    guards = Guards(TREE)
    for _ in range(3):  # failing reorders the tree, which must change no verdict
        assert guards.check(print, arguments) == (index is None)
    assert Guards(TREE).first_failure(print, arguments) == index


@pytest.mark.parametrize(
    ("arguments", "indices"),
    [
        ((5, {"b": "x"}), []),
        ((6, {"a": 1, "b": 1}), [3, 4, 5]),
        (("5", {}), [2, 3, 5]),
    ],
)
def test_all_failures_are_named_by_their_indices(arguments, indices):
    guards = Guards(TREE)
    for _ in range(3):
        assert sorted(guards.failures(print, arguments)) == indices
        guards.check(print, arguments)


def test_nothing_is_asked_of_another_kind_of_value():
    asked = []

    class Asked:
        @property
        def size(self):
            asked.append(1)
            return 5

    same_kind = (("arg", 0), (("type", 0, Asked),), ((("attr", "size"), (("equals", 1, 4),), ()),))
    other_kind = (("arg", 0), (("type", 0, int),), ((("attr", "size"), (("equals", 1, 4),), ()),))
    assert Guards((ROOT, (("true", 2), ("python", 3, asked.append)), (same_kind,))).failures(print, (Asked(),)) == [1]
    assert Guards((ROOT, (), (other_kind,))).failures(print, (Asked(),)) == [0]
    assert asked == [1]


def test_reordering_keeps_every_check():
    guards = Guards((ROOT, (), tuple((("arg", i), (("equals", i, i),), ()) for i in range(6))))
    for wrong in (5, 3, 0, 4, 4, 1):
        arguments = [*range(6)]
        arguments[wrong] = "wrong"
        assert not guards.check(None, tuple(arguments))
        assert guards.first_failure(None, tuple(arguments)) == wrong
        assert guards.check(None, tuple(range(6)))


def test_checks_that_walk_the_same_guards_again_skip_nothing():
    depth = []

    def again(value):
        if not depth:
            depth.append(1)
            assert not guards.check(None, (0, 0, 0, "wrong"))
        return True

    children = ((("arg", 0), (("python", 0, again),), ()), *((("arg", i), (("type", i, int),), ()) for i in (1, 2, 3)))
    guards = Guards((ROOT, (), children))
    assert not guards.check(None, (0, "wrong", 0, 0))
    assert depth == [1]


@pytest.mark.parametrize("kind", ["is", "type"])
def test_targets_are_held_weakly_and_a_dead_one_fails(kind):
    target = type("Temporary", (), {})
    guards = Guards((("arg", 0), ((kind, 0, target),), ()))
    value = target if kind == "is" else target()
    assert guards.check(None, (value,))
    alive = weakref.ref(target)
    del target, value
    gc.collect()
    assert alive() is None
    assert not guards.check(None, (None,))
    assert not guards.check(None, (3,))


@pytest.fixture
def ctrl_c():
    """Interrupts raise, also where whoever started the tests made them ignore signals."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_an_interrupt_during_a_check_is_delivered_later():
    def interrupt(value):
        raise KeyboardInterrupt

    def check_and_go_on():
        passes(1, ("python", 0, interrupt))
        return [*map(str, range(1000))]  # signals are handled between instructions

    with pytest.raises(KeyboardInterrupt):
        check_and_go_on()


MALFORMED = [
    (3, TypeError),
    ((ROOT,), TypeError),
    ((ROOT, [], ()), TypeError),
    ((("nowhere",), (), ()), ValueError),
    ((("arg",), (), ()), ValueError),
    ((("arg", -1), (), ()), ValueError),
    ((("arg", "0"), (), ()), TypeError),
    ((("attr", 3), (), ()), TypeError),
    (((), (), ()), TypeError),
    ((ROOT, (("likes", 0),), ()), ValueError),
    ((ROOT, (("true", 0, 1),), ()), ValueError),
    ((ROOT, (("equals", 0),), ()), ValueError),
    ((ROOT, (("type", 0, 3),), ()), TypeError),
    ((ROOT, (("python", 0, 3),), ()), TypeError),
    ((ROOT, (("length", 0, -1),), ()), ValueError),
    ((ROOT, (("true", "x"),), ()), TypeError),
    ((ROOT, (("tensor", 0, 3),), ()), TypeError),
    ((ROOT, (("tensor", 0, (1, 2)),), ()), TypeError),
    ((ROOT, (("tensor", 0, (int, 1, 2, 3, (1,), (1,), None)),), ()), TypeError),
    ((ROOT, (("tensor", 0, (int, 1, 2, True, (1,), (1, 2), None)),), ()), TypeError),
    ((ROOT, (("tensor", 0, (int, 1, 2, True, ("x",), (1,), None)),), ()), TypeError),
    ((ROOT, (("tensor", 0, (int, 1, 2, True, (1,), (1,), (("name",),))),), ()), TypeError),
    ((ROOT, (3,), ()), TypeError),
    ((ROOT, (), (3,)), TypeError),
]


@pytest.mark.parametrize(("spec", "error"), MALFORMED, ids=lambda item: str(item)[:40])
def test_malformed_specs_are_refused(spec, error):
    with pytest.raises(error):
        Guards(spec)


def test_a_bottomless_spec_is_a_recursion_error():
    spec = (("arg", 0), (), ())
    for _ in range(100_000):
        spec = (("attr", "x"), (), (spec,))
    with pytest.raises(RecursionError):
        Guards(spec)


@pytest.mark.parametrize("arguments", [(), (1,), (1, [2]), (1, (), 3)])
def test_check_wants_a_function_and_a_tuple(arguments):
    with pytest.raises(TypeError):
        Guards(TREE).check(*arguments)


class FakeTensor:
    """Has the attributes of a tensor: without a binding that is all the engine reads."""

    def __init__(self, dtype="float32", device="cpu", requires_grad=False, shape=(2, 3), strides=(3, 1), layout="s"):
        self.dtype, self.device, self.requires_grad, self.layout = dtype, device, requires_grad, layout
        self.shape, self.strides = shape, strides

    def stride(self):
        return self.strides


EXACT = (FakeTensor, "float32", "cpu", False, (2, 3), (3, 1), (("layout", "s"),))


@pytest.mark.parametrize(
    "other",
    [
        FakeTensor(dtype="float64"),
        FakeTensor(device="cuda"),
        FakeTensor(requires_grad=True),
        FakeTensor(shape=(2, 4)),
        FakeTensor(shape=(2,)),
        FakeTensor(shape=(2, 3, 1)),
        FakeTensor(strides=(1, 2)),
        FakeTensor(layout="other"),
        FakeTensor(shape=("s0", 3)),
        type("Subclass", (FakeTensor,), {})(),
        "no tensor",
    ],
)
def test_tensors_differ_in_any_property(other):
    assert passes(FakeTensor(), ("tensor", 0, EXACT))
    assert not passes(other, ("tensor", 0, EXACT))


def test_extras_of_tensors_are_attributes():
    spec = (FakeTensor, None, None, None, None, None, (("dtype", "float32"), ("layout", "s"), ("device", "cpu")))
    assert passes(FakeTensor(), ("tensor", 0, spec))
    assert not passes(FakeTensor(device="cuda"), ("tensor", 0, spec))
    assert not passes(FakeTensor(layout="other"), ("tensor", 0, spec))


def test_what_a_tensor_check_leaves_open_may_be_anything():
    anything = (None, None, None, None, None, None, None)
    assert passes(FakeTensor(), ("tensor", 0, anything))
    sizes_open = (FakeTensor, "float32", None, None, (None, 3), (None, 1), None)
    assert passes(FakeTensor(shape=(9, 3), strides=(5, 1)), ("tensor", 0, sizes_open))
    assert not passes(FakeTensor(shape=(9, 4)), ("tensor", 0, sizes_open))
    strides_only = (None, None, None, None, None, (3, 1), None)
    assert passes(FakeTensor(), ("tensor", 0, strides_only))
    assert not passes(FakeTensor(shape=(2, 3, 4)), ("tensor", 0, strides_only))


def test_strides_that_follow_from_another_dimension():
    contiguous = (FakeTensor, None, None, None, (None, None), ((1,), 1), None)
    assert passes(FakeTensor(shape=(2, 3), strides=(3, 1)), ("tensor", 0, contiguous))
    assert passes(FakeTensor(shape=(4, 5), strides=(5, 1)), ("tensor", 0, contiguous))
    assert not passes(FakeTensor(shape=(4, 5), strides=(6, 1)), ("tensor", 0, contiguous))
    assert not passes(FakeTensor(shape=("s0", 5), strides=("s1", 1)), ("tensor", 0, contiguous))


@pytest.mark.parametrize("stride", [(2,), (-1,), (0, 1), ("a",), ()])
def test_strides_follow_from_dimensions_that_there_are(stride):
    with pytest.raises(TypeError):
        passes(FakeTensor(), ("tensor", 0, (None, None, None, None, None, (stride, 1), None)))


class Doubling(dict):
    def __getitem__(self, key):
        return 2 * super().__getitem__(key)


def test_items_of_a_subclass_are_read_past_its_methods():
    path = [("const", Doubling(a=1)), ("key", "a")]
    assert at(*path, check=("equals", 0, 1)).check(function_with_closure(), (Holder(),))
