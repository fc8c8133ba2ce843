"""Where the graph ends and the function goes on."""

import collections.abc

import numpy as np
import pytest
import scipy.fft
import torch

import capture


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def test_a_branch_on_a_tensors_value_gives_three_graphs(same):
    graphs = []

    def backend(gm, example_inputs):
        graphs.append([node.name for node in gm.graph.nodes if node.op.startswith("call")])
        return gm.forward

    region = capture.optimize(backend, strict=True)(bar)
    a, b = torch.randn(4), torch.rand(4)
    same(bar(a, b), region(a, b))
    same(bar(a, -b), region(a, -b))
    same(bar(a, b), region(a, b))
    assert [len(names) for names in graphs] == [5, 1, 2]


def test_numpy_and_scipy_in_the_middle(check, x):
    def dct(a):
        b = a + 1
        c = torch.from_numpy(scipy.fft.dct(b.numpy()))
        return c * b

    check(dct, x, graphs=2, breaks=None)


def test_numpy_arrays_pass_through(check, x):
    check(lambda a: (a + 1, np.ones(2) * 2)[0], x, graphs=1, breaks=None)


def test_reading_a_number(check, x):
    def scale(a):
        n = int((a + 1).sum().item())
        return a * n

    check(scale, x, graphs=2, breaks=1)


def callee(a):
    b = a * 2
    capture.graph_break()
    return b + 1


def test_a_break_in_a_callee_breaks_at_the_call_and_in_the_callee(check, x):
    def caller(a):
        before = a + 1
        return callee(before) * before

    check(caller, x, graphs=4, breaks=2)


def test_a_break_deep_in_calls(check, x):
    def middle(a):
        return callee(a + 1) - 1

    check(lambda a: middle(a) * 2, x, graphs=5, breaks=3)


def test_live_values_of_every_kind_cross_a_break(check, x):
    def cross(a, flag):
        items, pairs = [a, a + 1], {"k": (a, 2)}
        offset = 3

        def inner(b):
            return b + offset

        iterator = iter(items)
        next(iterator)
        capture.graph_break()
        return items, pairs, inner(a), next(iterator), flag

    check(cross, x, None, graphs=2, breaks=1)


def test_a_break_with_values_on_the_stack(check, x):
    check(lambda a: [a + 1, (a * 2).sum().numpy().item(), *range(2), a - 1], x, graphs=2, breaks=2)


def test_breaks_inside_with_try_and_loops(check, x):
    def inside(a):
        total = 0.0
        with torch.no_grad():
            b = a * 2
            capture.graph_break()
            c = b + 1
        for _ in range(3):
            total += c.sum().item()
        try:
            capture.graph_break()
            raise KeyError("k")
        except KeyError:
            return c, total, torch.is_grad_enabled()

    check(inside, x.requires_grad_(), graphs=2, breaks=2)


def test_a_break_while_an_outer_iterator_waits(check, x):
    def nested(a):
        for row in [a, a + 1]:
            for scale in (1, 2):
                a = a + row * scale
                capture.graph_break()
        return a

    check(nested, x, graphs=3, breaks=1)


def test_closures_over_variables_that_change_after_the_break(check, x):
    def late(a):
        count = 1

        def get():
            return count

        capture.graph_break()
        count = 5
        return a * get()

    check(late, x, graphs=1, breaks=1)


def test_records_name_line_reason_and_hint(check, x):
    log = check(bar, x, x, graphs=2, breaks=1)
    record = next(record for record in log.records() if isinstance(record, capture.BreakRecord))
    assert record.location.filename == __file__
    assert record.location.source == "if b.sum() < 0:"
    assert record.reason.kind == "tensor value"
    assert record.reason.hint


def test_nopython_says_it_in_five_lines(x):
    with pytest.raises(capture.Unsupported) as caught:
        capture.optimize("eager", nopython=True, strict=True)(bar)(x, x)
    lines = str(caught.value).splitlines()
    assert len(lines) <= 5
    assert "if b.sum() < 0:" in lines[2]


def test_nopython_lets_the_users_own_exceptions_through(x):
    def fail(a):
        raise ValueError(a.shape)

    options = capture.Options(nopython=True, strict=True, leave_idle=False)
    with pytest.raises(ValueError, match="Size"):
        capture.optimize("eager", options=options)(fail)(x)


def test_disabled_functions_run_outside(check, x):
    seen = []

    @capture.disable
    def outside(a):
        seen.append(capture.is_compiling())
        return a + 1

    check(lambda a: outside(a * 2) * 3, x, graphs=2, breaks=1)
    assert seen == [False, False]


def test_allowed_functions_are_one_node(x):
    @capture.allow_in_graph
    def opaque(a):
        return a.sin() if a.dim() else a

    gm, _ = capture.export(lambda a: opaque(a) + 1, strict=True)(x)
    assert next(node.target for node in gm.graph.nodes if node.op == "call_function") is opaque


def test_disallowed_functions_break(check, x):
    @capture.disallow_in_graph
    def apart(a):
        return a + 1

    check(lambda a: apart(a) * 2, x, graphs=2, breaks=1)


def multiples_of_sine(a):
    b = a.sin()
    return (i * b for i in range(2))


def test_nopython_refuses_results_that_cannot_be_rebuilt(x):
    with pytest.raises(capture.Unsupported, match="cannot be rebuilt"):
        capture.optimize("eager", nopython=True, strict=True)(begun)(x)


def begun(a):
    generator = multiples_of_sine(a)
    return next(generator), generator


def test_a_generator_that_leaves_under_way_is_cpythons(x):
    log = capture.Log()
    first, generator = capture.optimize("eager", strict=True, log=log)(begun)(x)
    assert torch.equal(first + sum(generator), x.sin())
    assert {record.reason.kind for record in log.records() if isinstance(record, capture.BreakRecord)} >= {"rebuild"}


def test_a_generator_that_leaves_before_its_start_is_made_by_the_call(x):
    log = capture.Log()
    generator = capture.optimize("eager", strict=True, log=log)(multiples_of_sine)(x)
    assert torch.equal(sum(generator), x.sin())
    (graph,) = log.records()
    assert graph.operators == ("sin",)


def test_backward_inside_the_function(same):
    def step(weight, x):
        loss = (x * weight).sum()
        loss.backward()
        return weight.grad * 2

    weights = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    x = torch.arange(3.0)
    same(step(weights[0], x), capture.optimize("eager", strict=True)(step)(weights[1], x))


def test_every_frame_of_a_traceback_has_a_line(x):
    def fail(a):
        b = a + 1
        capture.graph_break()
        raise ValueError(b)

    with pytest.raises(ValueError, match="tensor") as caught:
        capture.optimize("eager", strict=True)(fail)(x)
    traceback = caught.value.__traceback__
    while traceback is not None:
        assert traceback.tb_lineno is not None
        traceback = traceback.tb_next


def test_a_break_in_the_middle_of_an_instruction_does_nothing_twice(check, x):
    class Plain:
        """Turned into text by ``object`` itself, which is left to CPython."""

    def f(a):
        items = [0]
        values = iter([1, 2, Plain(), 3])
        items.extend(map(str, values))
        return len(items), list(values), a + 1

    check(f, x, breaks=1)


def test_a_new_object_whose_attribute_was_deleted_crosses_a_break(check, x):
    class Settings:
        layers = 1

    def f(a):
        made = Settings()
        made.layers, made.size = 3, 4
        del made.layers
        capture.graph_break()
        return a * made.layers, vars(made)

    check(f, x, graphs=1, breaks=1)


def test_a_generator_left_open_that_does_nothing_at_its_end(check, x):
    class Numbers(collections.abc.Sequence):
        def __len__(self):
            return 9

        def __getitem__(self, index):
            return index

    check(lambda a: [a * n for _, n in zip("ab", Numbers())], x)


class Base:
    @property
    def scaled(self):
        capture.graph_break()
        return lambda a: a * 2


class Derived(Base):
    def play(self, a):
        return super().scaled(a + 1), super().scaled, super(Derived, self).scaled(a)  # noqa: UP008


def test_a_break_where_super_finds_a_method(check, x):
    check(lambda a: Derived().play(a * 3)[0] + 1, x, graphs=4, breaks=3)


def test_something_else_is_called_super(check, x):
    def play(a, super):
        return super().scaled, super("any", "arguments").scaled, a + 1

    class Other:
        def __init__(self, *args):
            self.scaled = args

    check(lambda a: play(a, Other), x)


def test_what_was_expected_to_raise_and_did_not_is_on_record(x):
    def handles(x):
        try:
            return x @ torch.ones(7, 7)
        except RuntimeError:
            return x

    def f(x):
        return handles(x) + 1

    found = capture.explain(f)(x)
    torch.testing.assert_close(found.result, f(x))
    assert [broken.reason.kind for broken in found.breaks] == ["error in an operation"]
    with pytest.raises(capture.Unsupported, match="matmul"):
        capture.optimize("eager", nopython=True)(f)(x)


def test_a_condition_on_a_number_that_varies_is_decided_and_guarded():
    def f(x, rate):
        return x * rate if rate > 0.5 else x - rate

    log = capture.Log()
    compiled = capture.optimize("eager", strict=True, log=log)(f)
    for rate in (0.1, 0.2, 0.3, 0.9, 0.8, 0.4, 0.7):
        torch.testing.assert_close(compiled(torch.ones(3), rate), f(torch.ones(3), rate))
    kinds = [type(record) for record in log.records()]
    assert capture.BreakRecord not in kinds
    assert kinds.count(capture.GraphRecord) == 3


def test_requires_grad_as_it_is_already(check):
    check(lambda x: x.requires_grad_(False) * 2, torch.ones(3))


def test_equal_texts_stay_two_objects(check, x):
    def play(a):
        first = "xyzpdq"
        second = first[:3] + first[3:]
        third = second
        capture.graph_break()
        return a + 1, first is second, second is third, first == third

    check(play, x, breaks=1)
