"""What a trace relied on, and nothing else, decides whether it is used again; and what its guards say."""

import types
import warnings

import pytest
import torch

import capture
from capture.entry.cache import CodeState, too_many
from capture.errors import Location
from capture.guards.guard import Failure, Guard
from capture.guards.kinds import GuardKind
from capture.guards.sources import ArgSource


class Holder:
    def __init__(self):
        self.scale = 2
        self.unused = 0
        self.items = [1, 2]


FACTOR = 3


def versions(function, *calls):
    """How many versions these calls need, each checked against plain CPython."""
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log, dynamic=False)(function)
    for call in calls:
        assert torch.equal(region(*call), function(*call))
    return 1 + sum(isinstance(record, capture.RecompileRecord) for record in log.records())


def test_types_dtypes_and_shapes(x):
    add = lambda a: a + 1
    assert versions(add, (x,), (x * 2,), (torch.ones(2, 3),)) == 1
    assert versions(add, (x,), (x.double(),)) == 2
    assert versions(add, (x,), (torch.ones(3, 3),)) == 2
    assert versions(add, (x,), (x.T.contiguous().T,)) == 2
    assert versions(add, (x,), (x.clone().requires_grad_(),)) == 2


def test_constants_by_value_and_type(x):
    add = lambda a, n: a + n
    assert versions(add, (x, 1), (x, 1)) == 1
    assert versions(add, (x, 1), (x, True), (x, 1.0), (x, 2)) == 4


def test_only_attributes_that_were_read(x):
    holder = Holder()
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(lambda a, h: a * h.scale)
    region(x, holder)
    holder.unused = 5
    holder.items.append(3)
    region(x, holder)
    assert not [record for record in log.records() if isinstance(record, capture.RecompileRecord)]
    holder.scale = 3.5
    assert torch.equal(region(x, holder), x * 3.5)


def test_globals_and_closures(x, monkeypatch):
    local = 2
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(lambda a: a * FACTOR + local)
    assert torch.equal(region(x), x * 3 + 2)
    monkeypatch.setitem(globals(), "FACTOR", 5)
    assert torch.equal(region(x), x * 5 + 2)
    local = 4
    assert torch.equal(region(x), x * 5 + 4)


def test_a_replaced_global_function(x, monkeypatch):
    region = capture.optimize("eager", strict=True)(lambda a: scaled(a))
    assert torch.equal(region(x), x * 2)
    monkeypatch.setitem(globals(), "scaled", lambda a: a * 7)
    assert torch.equal(region(x), x * 7)


def scaled(a):
    return a * 2


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, a):
        return scaled(a) * self.weight


def test_a_function_that_is_reloaded_in_place(x, monkeypatch):
    model = torch.nn.Sequential(*(Layer() for _ in range(3)))
    region = capture.optimize("eager", strict=True)(model)
    assert torch.equal(region(x), x * 8)
    assert torch.equal(region(x), x * 8)
    monkeypatch.setattr(scaled, "__code__", (lambda a: a * 3).__code__)
    assert torch.equal(region(x), x * 27)
    monkeypatch.setattr(Layer.forward, "__code__", (lambda self, a: a + self.weight).__code__)
    assert torch.equal(region(x), x + 3)


def test_a_global_that_hides_a_builtin(x, monkeypatch):
    region = capture.optimize("eager", strict=True)(lambda a: a * len([1, 2]))
    assert torch.equal(region(x), x * 2)
    monkeypatch.setitem(globals(), "len", lambda items: 9)
    assert torch.equal(region(x), x * 9)


def test_containers(x):
    total = lambda a, items, table: a + sum(items) + table["k"]
    assert versions(total, (x, [1, 2], {"k": 1}), (x, [1, 2], {"k": 1})) == 1
    assert (
        versions(total, (x, [1, 2], {"k": 1}), (x, [1], {"k": 1}), (x, (1, 2), {"k": 1}), (x, [1, 2], {"k": 1, "j": 1}))
        == 4
    )


def test_grad_mode_and_autocast(x):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(lambda a: a @ a.T)
    region(x)
    with torch.no_grad():
        assert not region(x.clone().requires_grad_()).requires_grad
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert region(x).dtype is torch.bfloat16
    assert region(x).dtype is torch.float32


def test_the_dtype_of_autocast(x):
    region = capture.optimize("eager", strict=True)(lambda a: (a @ a.T).dtype)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            assert region(x) is dtype


def test_default_dtype_is_guarded_where_it_matters():
    region = capture.optimize("eager", strict=True)(lambda n: torch.zeros(n, dtype=torch.get_default_dtype()))
    assert region(2).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert region(2).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_failure_is_a_sentence(x):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(lambda a, n: a + len(n))
    region(x, "ab")
    region(x, "abc")
    record = next(record for record in log.records() if isinstance(record, capture.RecompileRecord))
    assert "n equals 'ab', but it is 'abc'" in record.failed
    assert "region = capture.optimize" in record.failed


def test_too_many_versions_are_left_to_cpython_and_said_once(x):
    region = capture.optimize("eager", strict=True, recompile_limit=3)(lambda a, s: a + len(s))
    for n in range(3):
        region(x, "s" * n)
    with pytest.warns(capture.CaptureWarning, match="3 versions exist already"):
        region(x, "sss")
    for n in range(8):
        assert torch.equal(region(x, "s" * n), x + n), "said once: a second warning would be an error here"


def test_identical_inputs_never_recompile(x):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(lambda a, b, *c, k=None, **d: a + b + sum(c) + d["z"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            region(x, x.clone(), 1, 2, z=3)
    assert len(log.records()) == 1


def multiplied(factor, addend=1):
    return lambda y, z=addend: y * factor + z


def graphs_over(function, calls):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(function)
    for args in calls:
        expected, found = function(*args), region(*args)
        assert torch.equal(expected, found) if isinstance(expected, torch.Tensor) else expected is found
    return sum(isinstance(record, capture.GraphRecord) for record in log.records())


def test_functions_made_for_each_call_share_a_version():
    x = torch.ones(3)
    assert graphs_over(lambda x, f: f(x), [(x, lambda y: y * 2) for _ in range(9)]) == 1
    assert graphs_over(lambda x, f: f(x), [(x, multiplied(3.0)) for _ in range(9)]) == 1
    assert graphs_over(lambda x, fs: fs["a"](x), [(x, {"a": multiplied(3.0)}) for _ in range(9)]) == 1


def test_functions_of_one_code_are_told_apart_by_what_they_hold():
    x = torch.ones(3)
    assert graphs_over(lambda x, f: f(x), [(x, multiplied(k)) for k in (2, True, 3.0)]) == 3
    assert graphs_over(lambda x, f: f(x), [(x, multiplied(torch.full((3,), k))) for k in (2.0, 3.0, 4.0)]) == 1


def test_functions_of_one_code_are_told_apart_where_it_matters_which_they_are():
    x, first, second = torch.ones(3), multiplied(2.0), multiplied(2.0)
    pairs = [(x, first, first), (x, first, second), (x, second, second), (x, second, first)]
    assert graphs_over(lambda x, f, g: x + 1 if f is g else x - 1, pairs) >= 2
    assert graphs_over(lambda x, f, g: x + 1 if f in {g: 1} else x - 1, pairs) >= 2
    assert graphs_over(lambda x, f, g: (x + 1, f)[1], pairs) >= 0


def test_the_same_code_over_other_globals():
    x = torch.ones(3)

    def scale():
        return lambda y: y * TIMES

    elsewhere = types.FunctionType(scale().__code__, {"TIMES": 5.0})
    elsewhere.__qualname__ = scale().__qualname__
    assert graphs_over(lambda x, f: f(x), [(x, scale()), (x, elsewhere), (x, scale())]) == 2


TIMES = 2.0


def test_a_descriptor_that_classes_see_otherwise_is_no_reason_to_capture_anew():
    function = lambda logits: torch.distributions.Categorical(logits=logits, validate_args=False).probs
    assert graphs_over(function, [(torch.randn(3),) for _ in range(3)]) == 1


def changed(a, b):
    a.add_(1)
    return b * 2


def same_memory(kind):
    """Two tensors that share memory, or not."""
    x = torch.zeros(9)
    return {"apart": (x[:6], torch.zeros(6)), "equal": (x[:6], x[:6]), "shifted": (x[1:7], x[:6])}[kind]


@pytest.mark.parametrize("first", ["apart", "equal", "shifted"])
def test_what_shares_memory_with_what_is_changed(first):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log, dynamic=False)(changed)
    for kind in (first, "apart", "equal", "shifted", "apart", "shifted"):
        assert torch.equal(region(*same_memory(kind)), changed(*same_memory(kind)))
    assert sum(isinstance(record, capture.RecompileRecord) for record in log.records()) == 2


class Held(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.zeros(6))
        self.register_buffer("b", torch.zeros(6))

    def forward(self):
        return changed(self.a, self.b)


@pytest.mark.parametrize("tie", ["one object", "one memory"])
def test_what_a_module_holds_begins_to_share_memory(tie):
    log = capture.Log()
    plain, compiled = Held(), Held()
    region = capture.optimize("eager", strict=True, log=log)(compiled)
    assert torch.equal(region(), plain())
    for held in (plain, compiled):
        if tie == "one object":
            held.a = held.b
        else:
            held.a.data = held.b.data
    assert torch.equal(region(), plain())
    assert sum(isinstance(record, capture.RecompileRecord) for record in log.records()) == 1


def test_memory_matters_only_where_something_is_changed(x):
    add = lambda a, b: a + b
    assert versions(add, (x, x.clone()), (x, x.view_as(x))) == 1


def test_asking_what_varied_runs_no_code_of_a_class_that_was_not_expected(x):
    asked = []

    class Noting:
        def __get__(self, obj, owner):
            asked.append(owner)
            return lambda a: a

    class Plain:
        def step(self, a, by=1):
            return a + by

    class Other:
        step = Noting()

    def call(a, cls):
        return cls().step(a)

    step = capture.optimize("eager", strict=True)(call)
    step(x, Plain)
    step(x, Other)
    assert asked == [Other]


def test_the_gradient_of_what_is_no_leaf_any_more_is_not_read():
    def program(w):
        w.backward()

    region, w = capture.optimize("eager", strict=True)(program), torch.tensor(1.0, requires_grad=True)
    region(w)
    region(w)  # the gradient is there, which differs first
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        region(w * 1)
    assert w.grad == 3


# -- what guards say, in explanations and where they fail -------------------------------------------------------------


def test_a_dict_keyed_by_tensors_is_said_without_their_numbers():
    keys = tuple(torch.full((2,), 12345.0) for _ in range(5))
    sentence = Guard(ArgSource(0, "state"), GuardKind.KEYS, (keys,)).sentence()
    assert sentence.startswith("state has the keys (float32 tensor of shape (2) on cpu, ")
    assert "12345" not in sentence


def made(name):
    return type(name, (), {"held": 1})


def a_function():
    return eval("lambda x: x + 1")


def reads(it, x):
    return x + it.held


def calls(it, x):
    return it(x)


def asks(it, x):
    return x + (it is len)


@pytest.mark.parametrize(
    ("make", "use", "said"),
    [
        (lambda: made("Foo")(), reads, "it is a Foo, but it is of another class of the same name"),
        (lambda: made("Foo"), reads, "it is the same object: Foo, but it is another class of the same name"),
        (a_function, calls, "it.__code__ is the same object: a code, but it is that of `<lambda>`, made at line 1"),
        (
            a_function,
            asks,
            "it is the same object: <lambda>, but it is another function of the same name, made at line 1",
        ),
        (object, asks, "it is the same object: a object, but it is another object of class `object`"),
    ],
)
@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_what_the_same_words_describe_is_told_apart_and_once(make, use, said):
    log, x = capture.Log(), torch.ones(2)
    captured = capture.optimize("eager", log=log, recompile_limit=3)(use)
    kept = [make() for _ in range(6)]
    for it in kept:
        captured(it, x)
    (left,) = [record for record in log.records() if isinstance(record, capture.FallbackRecord)]
    assert left.reason.explanation.count("expected that") == 1
    assert f"expected that {said} (assumed at " in left.reason.explanation


def test_a_reason_is_listed_once_wherever_it_was_assumed():
    state = CodeState(failures=[Failure("expected that a is a B", Location("f.py", line, "f")) for line in (1, 2)])
    assert too_many(Location("f.py", 1, "f"), state, 8).reason.explanation.count("expected that") == 1
