"""Dependency chains: guards that passed before say the same of a changed object as guards that never saw it."""

import collections
import gc
import os
import subprocess
import sys
import types
import weakref

import engine_under_test as engine
import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

HOOKS = ("before", "after")


class Layer:
    """As modules are: attributes, hooks and children, all of them in dicts."""

    def __init__(self, *children):
        self.size = 4
        self.training = True
        self.before, self.after = {}, {}
        self.children = {str(i): child for i, child in enumerate(children)}


class Other(Layer):
    pass


def model(depth=2):
    return Layer(*(model(depth - 1) for _ in range(3))) if depth else Layer()


def layer_spec(accessor, layer):
    children = tuple(layer_spec(("key", name), child) for name, child in layer.children.items())
    attributes = (
        (("key", "size"), (("equals", 1, 4),), ()),
        (("key", "training"), (("is", 2, True),), ()),
        (("key", "forward"), (("absent", 3),), ()),
        (("key", "children"), (("keys", 4, tuple(layer.children)),), children),
    )
    return accessor, (("type", 0, Layer),), ((("dict",), (("empty", 5, HOOKS),), attributes),)


def guards_of(root):
    return engine.Guards((("root",), (), (layer_spec(("arg", 0), root),)))


def layers(root):
    return [root, *(below for child in root.children.values() for below in layers(child))]


def replace_dict(layer, value):
    layer.__dict__ = {**vars(layer), "size": value}


CHANGES = [
    lambda layer, value: setattr(layer, "size", value),
    lambda layer, value: setattr(layer, "unrelated", value),
    lambda layer, value: setattr(layer, "training", bool(value)),
    lambda layer, value: setattr(layer, "forward", value),
    lambda layer, value: vars(layer).pop("forward", None),
    lambda layer, value: layer.before.update({value: None}),
    lambda layer, value: layer.before.clear(),
    lambda layer, value: setattr(layer, "after", {}),
    lambda layer, value: setattr(layer, "after", dict.fromkeys(range(value))),
    lambda layer, value: setattr(layer, "__class__", Other if value else Layer),
    lambda layer, value: layer.children.update({"0": Layer()}),
    lambda layer, value: layer.children.pop("1", None),
    replace_dict,
]
STEPS = st.lists(st.tuples(st.integers(0, 12), st.sampled_from(range(len(CHANGES))), st.integers(0, 4)), max_size=12)


SETTLED = [(0, 1, 0), (0, 1, 0)]
ALWAYS_CHANGING = [(where, 1, value) for value in range(4) for where in (0, 5)]


@settings(max_examples=250, deadline=None)
@given(st.sampled_from([SETTLED, ALWAYS_CHANGING]), STEPS)
def test_guards_that_passed_before_judge_like_new_ones(before, steps):
    root = model()
    guards, spec = guards_of(root), layer_spec(("arg", 0), root)
    for where, change, value in [*before, *steps]:
        known = layers(root)
        CHANGES[change](known[where % len(known)], value)
        expected = engine.Guards((("root",), (), (spec,))).check(None, (root,))
        assert [guards.check(None, (root,)) for _ in range(3)] == [expected] * 3


def test_where_nothing_changed_nothing_is_walked():
    root = model()
    guards = guards_of(root)
    assert all(guards.check(None, (root,)) for _ in range(10))
    assert guards.followed >= 8
    root.unrelated = 1
    followed = guards.followed
    assert guards.check(None, (root,))
    assert guards.followed == followed


def test_where_one_dict_changes_in_every_call_the_rest_is_followed():
    root = model(3)
    guards = guards_of(root)
    changing = root.children["0"].children["1"]
    for count in range(20):
        changing.calls = count
        assert guards.check(None, (root,))
    followed = guards.followed
    changing.calls = 20
    assert guards.check(None, (root,))
    assert guards.followed - followed >= 4  # two beside it at the top, two beside it one below
    root.children["2"].children["2"].size = 5
    assert not guards.check(None, (root,))


def test_a_program_sees_nothing_of_it():
    root = model()
    guards, attributes, contents = guards_of(root), vars(root), list(vars(root).items())
    during = [(name, guards.check(None, (root,))) for name in attributes]
    assert during == [(name, True) for name, _ in contents]
    assert vars(root) is attributes
    assert list(attributes.items()) == contents
    root.last = 1
    assert list(attributes) == [*(name for name, _ in contents), "last"]


WITHOUT_WATCHERS = """
import ctypes, test_dependency_chains
watch = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.py_object] * 3)(lambda *event: 0)
add = getattr(ctypes.pythonapi, "PyDict_AddWatcher", None)
while add is not None:
    try:
        add(watch)
    except RuntimeError:
        break
root = test_dependency_chains.model()
guards = test_dependency_chains.guards_of(root)
assert all(guards.check(None, (root,)) for _ in range(5))
root.size = 5
assert not guards.check(None, (root,))
"""


def test_somebody_else_may_have_taken_all_watchers_of_dicts():
    folder = os.path.dirname(__file__)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])}
    program = f"import conftest\n{WITHOUT_WATCHERS}"
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, cwd=folder)


def test_another_object_is_looked_at_anew():
    root = model()
    guards, wrong = guards_of(root), model()
    wrong.children["2"].size = 5
    for _ in range(3):
        assert guards.check(None, (root,))
        assert guards.check(None, (model(),))
        assert not guards.check(None, (wrong,))


def test_what_a_check_of_its_own_changes_is_noticed():
    root, calls = model(), []

    def spoil(layer):
        calls.append(layer)
        if len(calls) == 5:
            root.children["0"].children["0"].size = 7
        return True

    accessor, checks, below = layer_spec(("arg", 0), root)
    guards = engine.Guards((("root",), (), ((accessor, (*checks, ("python", 9, spoil)), below),)))
    verdicts = [guards.check(None, (root,)) for _ in range(8)]
    assert verdicts[:4] == [True] * 4
    assert verdicts[5:] == [False] * 3
    assert len(calls) >= 6


def test_nothing_is_kept_alive():
    root = model()
    guards = guards_of(root)
    for _ in range(4):
        assert guards.check(None, (root,))
    gone = weakref.ref(root)
    del root
    gc.collect()
    assert gone() is None
    assert guards.check(None, (model(),))


def test_guards_are_checked_while_they_are_checked():
    root = model()
    guards = None

    def again(layer):
        return again.running or nested(layer)

    def nested(layer):
        again.running = True
        root.unrelated = object()
        verdict = guards.check(None, (root,))
        again.running = False
        return verdict

    again.running = False
    accessor, checks, below = layer_spec(("arg", 0), root)
    guards = engine.Guards((("root",), (), ((accessor, (*checks, ("python", 9, again)), below),)))
    assert [guards.check(None, (root,)) for _ in range(6)] == [True] * 6


DICT_CHANGES = {
    "item": lambda d: d.__setitem__("size", 5),
    "new item": lambda d: d.__setitem__("forward", 5),
    "delitem": lambda d: d.__delitem__("size"),
    "pop": lambda d: d.pop("size"),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
    "update": lambda d: d.update(size=5),
    "setdefault": lambda d: d.setdefault("forward", 5),
    "or": lambda d: d.__ior__({"size": 5}),
    "init": lambda d: d.__init__(size=5),
    "same but equal": lambda d: d.__setitem__("size", 4.0),
    "taken away and put back": lambda d: (d.pop("children"), d.__setitem__("children", {"0": None})),
}


@pytest.mark.parametrize("change", DICT_CHANGES)
@pytest.mark.parametrize("where", [0, 1, 6])
def test_every_way_to_change_a_dict_is_noticed(change, where):
    root = model()
    guards = guards_of(root)
    assert all(guards.check(None, (root,)) for _ in range(4))
    DICT_CHANGES[change](vars(layers(root)[where]))
    assert not guards.check(None, (root,))


def test_attributes_written_by_specialised_instructions_are_noticed():
    """The interpreter writes attributes in ways of its own once a line of code has run often."""

    def write(layer, value):
        layer.size = value

    root = model()
    guards = guards_of(root)
    for layer in layers(root):
        for _ in range(100):
            write(layer, 4)
        assert all(guards.check(None, (root,)) for _ in range(3))
        write(layer, 5)
        assert not guards.check(None, (root,))
        write(layer, 4)


class Slots:
    __slots__ = ("__weakref__", "size")

    def __init__(self):
        self.size = 4


def test_slots_below_a_chain_are_read_each_time():
    root = model()
    root.slots = Slots()
    accessor, checks, ((below, empty, attributes),) = layer_spec(("arg", 0), root)
    slots = (("key", "slots"), (("type", 8, Slots),), ((("attr", "size"), (("equals", 9, 4),), ()),))
    guards = engine.Guards((("root",), (), ((accessor, checks, ((below, empty, (*attributes, slots)),)),)))
    assert all(guards.check(None, (root,)) for _ in range(4))
    root.slots.size = 5
    assert not guards.check(None, (root,))


def test_lists_ordered_dicts_and_modules_below_a_chain():
    root = model()
    root.items, root.order, root.module = [1, 2], collections.OrderedDict(a=1, b=2), types.ModuleType("some")
    accessor, checks, ((below, empty, attributes),) = layer_spec(("arg", 0), root)
    more = (
        (("key", "items"), (("length", 8, 2),), ((("item", 0), (("equals", 9, 1),), ()),)),
        (("key", "order"), (("keys", 10, ("a", "b")),), ()),
        (("key", "module"), (("type", 11, types.ModuleType),), ()),
    )
    guards = engine.Guards((("root",), (), ((accessor, checks, ((below, empty, (*attributes, *more)),)),)))

    def broken_by(change, mend):
        assert all(guards.check(None, (root,)) for _ in range(4))
        change()
        assert not guards.check(None, (root,))
        mend()

    broken_by(lambda: root.items.append(3), root.items.pop)
    broken_by(lambda: root.items.__setitem__(0, 2), lambda: root.items.__setitem__(0, 1))
    broken_by(lambda: root.order.move_to_end("a"), lambda: root.order.move_to_end("b"))
    another = type("Another", (types.ModuleType,), {})
    broken_by(
        lambda: setattr(root.module, "__class__", another),
        lambda: setattr(root.module, "__class__", types.ModuleType),
    )


def test_objects_at_the_addresses_of_dead_ones_are_strangers():
    class Flat:
        def __init__(self, last):
            self.__dict__.update(dict.fromkeys("abcdefgh", 0), h=last)

    keys = tuple((("key", name), (("equals", 0, 0),), ()) for name in "abcdefgh")
    guards = engine.Guards((("arg", 0), (("type", 1, Flat),), ((("dict",), (), keys),)))
    addresses = set()
    for _ in range(20):
        right = Flat(0)
        addresses.add(id(right))
        verdicts = [guards.check(None, (right,)) for _ in range(3)]
        del right
        wrong = Flat(1)
        addresses.add(id(wrong))
        verdicts.append(guards.check(None, (wrong,)))
        del wrong
        assert verdicts == [True, True, True, False]
    assert len(addresses) < 20 or "PYTHONMALLOC" in os.environ  # sanitizers do not use memory again


def test_keys_that_run_code_are_asked_each_time():
    asked = []

    class Key:
        def __hash__(self):
            return hash("size")

        def __eq__(self, other):
            asked.append(other)
            return False

    root = model()
    vars(root)[Key()] = vars(root).pop("size")
    root.size = 4
    guards = guards_of(root)
    for _ in range(4):
        asked.clear()
        assert guards.check(None, (root,))
        assert "size" in asked


def test_a_class_that_died_is_not_mistaken_for_one_at_its_address():
    def new_class():
        return type("Layer", (Layer,), {})

    first = new_class()
    root = first()
    root.children = model().children
    address, namespace = id(first), vars(root)
    guards = engine.Guards((("root",), (), ((("arg", 0), (("type", 0, first),), layer_spec(("arg", 0), root)[2]),)))
    assert all(guards.check(None, (root,)) for _ in range(4))
    root.__class__ = Other
    del first
    gc.collect()
    others = []
    for _ in range(1000):
        others.append(new_class())
        if id(others[-1]) == address:
            break
    root.__class__ = others[-1]
    assert vars(root) is namespace
    assert not guards.check(None, (root,))
