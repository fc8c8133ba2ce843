"""The public face: optimize in its forms, backends, explain, export, records, reset."""

import threading

import pytest
import torch

import capture


def test_forms(x):
    @capture.optimize("eager", strict=True)
    def decorated(a):
        "Adds one."
        return a + 1

    class Model:
        factor = 3

        @capture.optimize("eager", strict=True)
        def method(self, a):
            return a * self.factor

        def plain(self, a):
            return a - self.factor

    assert torch.equal(decorated(x), x + 1)
    assert (decorated.__name__, decorated.__doc__) == ("decorated", "Adds one.")
    assert torch.equal(Model().method(x), x * 3)
    assert torch.equal(capture.optimize("eager", strict=True)(Model().plain)(x), x - 3)


def test_what_a_backend_sees_and_may_return(x):
    def backend(gm, example_inputs):
        assert [tuple(value.shape) for value in example_inputs] == [(2, 3)]
        assert [node.op for node in gm.graph.nodes] == ["placeholder", "call_function", "output"]
        return lambda a: a + 5

    assert torch.equal(capture.optimize(backend, strict=True)(lambda a: a + 1)(x), x + 5)


def test_a_backend_that_fails_is_named(x):
    def backend(gm, example_inputs):
        raise ZeroDivisionError("no")

    with pytest.raises(capture.BackendError, match="ZeroDivisionError: no") as caught:
        capture.optimize(backend)(lambda a: a + 1)(x)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_unknown_backends_and_targets():
    with pytest.raises(ValueError, match="no backend is called 'nope'"):
        capture.optimize("nope")
    with pytest.raises(TypeError, match="takes a function"):
        capture.optimize("eager")(3)


def test_explain(x):
    def broken(a):
        b = a + 1
        capture.graph_break("here")
        return b * 2

    explanation = capture.explain(broken, strict=True)(x)
    assert torch.equal(explanation.result, (x + 1) * 2)
    assert [graph.operators for graph in explanation.graphs] == [("add",), ("mul",)]
    assert explanation.breaks[0].reason.explanation == "graph_break() is called: here"
    assert "2 graphs, 2 operators, 1 breaks" in str(explanation)


def test_export(x):
    gm, guards = capture.export(lambda a, n: a * n, strict=True)(x, 3)
    assert torch.equal(gm(x)[0], x * 3)
    assert any("n equals 3" in guard for guard in guards)
    with pytest.raises(capture.Unsupported):
        capture.export(lambda a: a.sum().item(), strict=True)(x)


def test_subscribers_hear_of_records(x):
    log, heard = capture.Log(), []
    stop = log.subscribe(heard.append)
    capture.optimize("eager", strict=True, log=log)(lambda a: a + 1)(x)
    stop()
    capture.optimize("eager", strict=True, log=log)(lambda a: a + 2)(x)
    assert len(heard) == 1
    assert len(log.records()) == 2


def test_reset_forgets(x):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(lambda a: a + 1)
    region(x)
    capture.reset()
    region(x)
    assert len(log.records()) == 2


def test_is_compiling(check, x):
    assert not capture.is_compiling()
    assert torch.equal(
        capture.optimize("eager", strict=True)(lambda a: a + 1 if capture.is_compiling() else a)(x), x + 1
    )


def test_programs_are_told_that_they_are_captured(x):
    f = capture.optimize()(lambda a: a + 1 if torch.compiler.is_compiling() else a - 1)
    assert torch.equal(f(x), x + 1)
    assert not torch.compiler.is_compiling()


def test_torchs_own_code_is_not_told(check, x):
    check(lambda a: a + 1 if torch.jit.is_scripting() or torch.jit.is_tracing() else a - 1, x)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    check(lambda a: layer(a), torch.randn(2, 3, 8))


def test_an_internal_error_leaves_the_frame_to_cpython(x, monkeypatch):
    def broken(*args):
        raise RuntimeError("a mistake of ours")

    def function(a):
        return a + 1

    monkeypatch.setattr("capture.entry.hook.translate", broken)
    log = capture.Log()
    region = capture.optimize("eager", log=log)(function)
    with pytest.warns(capture.CaptureWarning, match="a mistake of ours"):
        assert torch.equal(region(x), x + 1)
    assert torch.equal(region(x), x + 1), "said once: a second warning would be an error here"
    assert log.records()[0].reason.kind == "internal error"
    with pytest.raises(capture.InternalError, match="a mistake of ours"):
        capture.optimize("eager", strict=True)(function)(x)


def test_compiled_functions_call_each_other(check, x):
    inner = capture.optimize("eager", strict=True)(lambda a: a * 2)
    check(lambda a: inner(a) + 1, x)


def test_threads(x):
    region = capture.optimize("eager", strict=True)(lambda a, n: a * n + n)
    failures = []

    def work(offset):
        numbers = range(offset, offset + 20)
        failures.extend(n for n in numbers if not torch.equal(region(x, n), x * n + n))

    threads = [threading.Thread(target=work, args=(10 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.fixture
def stance():
    yield capture.set_stance
    capture.set_stance("default")


def test_force_eager_runs_nothing_that_was_captured(stance):
    ran = []

    def backend(gm, example_inputs):
        return lambda *inputs: ran.append(1) or gm.forward(*inputs)

    f = capture.optimize(backend)(lambda x: x + 1)
    f(torch.ones(2))
    assert stance("force_eager") == "default"
    assert torch.equal(f(torch.ones(2)), torch.full((2,), 2.0))
    assert len(ran) == 1
    stance("default")
    f(torch.ones(2))
    assert len(ran) == 2


def test_eager_on_recompile_uses_what_there_is(stance):
    graphs = []
    f = capture.optimize(lambda gm, example_inputs: graphs.append(gm) or gm.forward)(lambda x: x + 1)
    f(torch.ones(2))
    stance("eager_on_recompile")
    assert torch.equal(f(torch.ones(2, 2)), torch.full((2, 2), 2.0))
    assert len(graphs) == 1
    stance("default")
    f(torch.ones(2, 2))
    assert len(graphs) == 2


def test_fail_on_recompile_says_what_would_be_captured_and_why(stance):
    f = capture.optimize()(lambda x: x + 1)
    f(torch.ones(2))
    stance("fail_on_recompile")
    f(torch.ones(2))
    with pytest.raises(capture.RecompileRefused, match=r"test_00_api.py.*fail_on_recompile.*x"):
        f(torch.ones(2, dtype=torch.float64))
    with pytest.raises(ValueError, match="stances are default"):
        stance("lazy")


def test_a_captured_function_is_explained_as_it_was_written():
    region = capture.optimize()(lambda a: a + 1)
    region(torch.ones(2))
    assert len(capture.explain(region)(torch.ones(2)).graphs) == 1
    assert capture.as_written(region)(1) == 2


def test_functions_of_equal_code_are_known_apart():
    from capture.entry.cache import Cache

    codes = [compile("def f(a): return a", "<text>", "exec").co_consts[0] for _ in range(2)]
    cache = Cache()
    assert codes[0] == codes[1]
    assert cache.state(codes[0]) is not cache.state(codes[1])
    assert cache.state(codes[0]) is cache.state(codes[0])
    del codes[0]
    assert len(cache.codes()) == 1


def test_recursion_reaches_as_deep_as_without_capture(x):
    import sys

    def deepest(depth, how):
        try:
            return how(depth + 1, how)
        except RecursionError:
            return depth

    def helper(value):
        return value

    def other(depth, how):  # without defaults: 3.13.0 loses count of the calls that need them
        try:
            return helper(other(depth + 1, how))
        except RecursionError:
            return depth

    for function in (deepest, other):
        plain = function(0, function)
        for _ in range(2):
            assert capture.optimize("eager", strict=True)(function)(0, function) >= plain - 5
    assert sys.getrecursionlimit() > 500


def test_run_captures_nothing_more(same, x):
    log = capture.Log()
    region = capture.optimize("eager", strict=True, log=log)(lambda a, n: a * n)
    same(x * 2, region(x, 2))
    same(x * 3, capture.run(region)(x, 3))
    same(x * 2, capture.run(region)(x, 2))
    assert len([record for record in log.records() if isinstance(record, capture.GraphRecord)]) == 1
    region(x, 3)
    assert len([record for record in log.records() if isinstance(record, capture.GraphRecord)]) == 2


def test_a_backend_leaves_the_modes_as_they_are(x):
    def backend(gm, example_inputs):
        torch.set_grad_enabled(False)
        return gm.forward

    assert not capture.optimize(backend, strict=True)(lambda a: a * 2)(x).requires_grad
    assert torch.is_grad_enabled()


def test_a_backend_is_told_what_comes_with_the_call():
    """Not what an operator of the graph makes of it in place."""
    given = []

    def f(y, w):
        y.mul_(w)
        w.detach_()

    tensors = torch.ones(3), torch.ones(3, requires_grad=True)
    told = [(tensor.stride(), tensor.requires_grad, tensor.is_leaf) for tensor in tensors]
    capture.optimize(lambda gm, example_inputs: given.extend(example_inputs) or gm.forward)(f)(*tensors)
    assert [(fake.stride(), fake.requires_grad, fake.is_leaf) for fake in given] == told
