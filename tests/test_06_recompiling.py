"""A graph is used again exactly as long as what it relied on still holds."""

import torch

import compile_api


def test_the_second_call_compiles_nothing(recording):
    f = compile_api.compile(lambda x: x + 1, backend=recording)
    f(torch.ones(3))
    f(torch.zeros(3))
    assert len(recording.graphs) == 1


def test_another_dtype_is_another_graph(recording):
    f = compile_api.compile(lambda x: x * 2, backend=recording)
    assert f(torch.ones(3)).dtype == torch.float32
    assert f(torch.ones(3, dtype=torch.int64)).dtype == torch.int64
    assert len(recording.graphs) == 2


SCALE = 2


def test_a_changed_global_is_seen(recording):
    global SCALE
    f = compile_api.compile(lambda x: x * SCALE, backend=recording)
    assert f(torch.ones(1)) == 2
    SCALE = 5
    try:
        assert f(torch.ones(1)) == 5
    finally:
        SCALE = 2
    assert len(recording.graphs) == 2


def test_a_changed_closure_is_seen(recording):
    shift = 1

    def f(x):
        return x + shift

    compiled = compile_api.compile(f, backend=recording)
    assert compiled(torch.zeros(1)) == 1
    shift = 7
    assert compiled(torch.zeros(1)) == 7
    assert len(recording.graphs) == 2


def test_grad_mode_is_part_of_what_a_graph_relies_on():
    f = compile_api.compile(lambda x: x * 2, backend="inductor", fullgraph=True)
    x = torch.ones(2, requires_grad=True)
    assert f(x).requires_grad
    with torch.no_grad():
        assert not f(x).requires_grad
    assert f(x).requires_grad


def test_many_lengths_compile_twice(recording):
    f = compile_api.compile(lambda x: (x * 2).sum(0), backend=recording)
    for length in range(2, 32):
        x = torch.randn(length, 3)
        assert torch.equal(f(x), (x * 2).sum(0))
    assert len(recording.graphs) == 2


def test_reset_forgets(recording):
    f = compile_api.compile(lambda x: x + 1, backend=recording)
    f(torch.ones(3))
    compile_api.reset()
    f(torch.ones(3))
    assert len(recording.graphs) == 2


def test_an_integer_that_varies_alone_is_a_number_of_the_graph():
    f = compile_api.compile(lambda x, n: x * n)
    for n in (2, 3, 4, 5):
        assert f(torch.ones(1), n) == n
    assert len(compile_api.report(f).captured) == 2


def test_a_counter_on_a_module_counts():
    class Counting(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    module = Counting()
    compiled = compile_api.compile(module, fullgraph=True)
    assert [compiled(torch.ones(1)).item() for _ in range(5)] == [1, 2, 3, 4, 5]
    assert module.calls == 5


def test_tensors_that_come_to_share_memory_get_a_version_of_their_own():
    """A graph that changes one argument while another lay elsewhere must not serve a call where both are one memory."""

    def step(a, b):
        kept = b * 3
        a.add_(1)
        return b * 2 + kept.sin()

    compiled = compile_api.compile(step, fullgraph=True)
    for _ in range(2):
        for start in (9, 0, 1, 3):
            x, y = torch.arange(20.0), torch.arange(20.0)
            assert torch.equal(compiled(x[start : start + 6], x[:6]), step(y[start : start + 6], y[:6]))
            assert torch.equal(x, y)


def test_pieces_of_tensors_whose_lengths_vary():
    """The last step of each of many sequences: only a stride varies.  A warning would tell of a graph thrown away."""
    f = compile_api.compile(lambda x: (x.sin() + 1).softmax(-1), fullgraph=True)
    for length in (4, 5, 7, 9):
        x = torch.randn(2, length, 8)[:, -1]
        torch.testing.assert_close(f(x), (x.sin() + 1).softmax(-1))


def test_the_same_sizes_in_another_order_of_memory():
    f = compile_api.compile(lambda x: x * 2 if x.is_contiguous() else x * 3, fullgraph=True)
    for rows in (4, 6, 7):
        assert f(torch.ones(rows, 5)).eq(2).all()
        assert f(torch.ones(5, rows).t()).eq(3).all()
