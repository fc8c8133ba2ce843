"""Everything over torch's own tensors: on a CUDA device (marked ``gpu``), and over the emulated driver on the CPU.

Most tests hold tensors in ways that make the manager branch, copy and restore, and all pool memory that is not held is
filled with 0xFF after every call: as a float that is NaN, so a read of it shows.
"""

import random
from functools import partial

import pytest
import torch

from cudagraphs import Manager, Options, Refusal, capture_on
from cudagraphs.cuda import CudaDriver
from cudagraphs.emulated import EmulatedDriver

on_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
gpu_only = pytest.mark.parametrize("driver", [pytest.param("cuda", marks=on_gpu)])

EACH_CALL_COUNTS = {"warmups": 1, "gain_samples": 0}


class Poisoned:
    """A manager whose pool is wiped after every call, but for what is lent out."""

    def __init__(self, driver):
        self.driver = driver
        self.device = driver.device
        self.manager = Manager(driver)

    def capture(self, fn, inputs, *, static=(), **options):
        chosen = Options(**{**EACH_CALL_COUNTS, **options})
        captured = capture_on(self.manager, fn, [None] * inputs, static_inputs=static, options=chosen)

        def call(*values):
            result = captured(*values)
            self.manager.poison()
            return result

        return call

    def report(self):
        return self.manager.report()

    def full(self, *shape, value=1.0):
        return torch.full(shape, value, device=self.device)


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=on_gpu)])
def driver(request):
    return request.param


@pytest.fixture
def graphs(driver):
    with torch.no_grad():
        yield Poisoned(CudaDriver(torch.cuda.current_device()) if driver == "cuda" else EmulatedDriver())


def test_a_replay_computes_with_new_values_at_new_addresses(graphs):
    increment = graphs.capture(lambda x: x + 1, 1)
    inputs = [graphs.full(8, value=n) for n in range(10)]
    assert [increment(x).tolist() for x in inputs] == [[n + 1.0] * 8 for n in range(10)]
    assert (graphs.report().recorded, graphs.report().replayed) == (1, 9)


@pytest.mark.parametrize("copy_below", [0, 1 << 20])
def test_held_outputs_survive_the_next_calls(graphs, copy_below):
    increment = graphs.capture(lambda x: (x + 1) * 2, 1, copy_below=copy_below)
    held = [increment(graphs.full(1000, value=n)) for n in range(20)]
    assert all(bool((tensor == 2 * (n + 1)).all()) for n, tensor in enumerate(held))


def test_an_output_made_by_a_replay_is_protected_by_the_recordings_that_follow(graphs):
    double = graphs.capture(lambda x: x * 2, 1, copy_below=0, branches=100)
    for n in range(10):
        previous = double(graphs.full(100_000, value=n))  # held during the next call: the memory takes turns
        assert bool((previous == 2 * n).all())
    triple = graphs.capture(lambda x: (x * 3, x * 4), 1)
    for n in range(4):
        triple(graphs.full(100_000, value=n))
        assert bool((previous == 18).all())
    assert (graphs.report().plain, graphs.report().copied_out) == (0, 0)


def test_memory_of_dropped_outputs_is_used_again(graphs):
    calls = [graphs.capture(partial(torch.mul, other=n), 1) for n in range(6)]
    for _ in range(3):
        for call in calls:
            call(graphs.full(1 << 20))
    assert len({recording.loans[0].block for recording in graphs.manager.tree.recordings}) == 1


def test_a_small_convolutional_network(graphs):
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, stride=2),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 7 * 7, 10),
    )
    network = network.to(graphs.device).eval()
    parameters = dict(network.state_dict(keep_vars=True))

    def run(x, *values):
        return torch.func.functional_call(network, dict(zip(parameters, values)), (x,))

    values = [value.detach() for value in parameters.values()]
    graphed = graphs.capture(run, 1 + len(values), static=range(1, 1 + len(values)))
    for _ in range(5):
        x = torch.randn(4, 3, 16, 16, device=graphs.device)
        torch.testing.assert_close(graphed(x, *values), network(x), rtol=1e-3, atol=1e-3)
    values[0].mul_(2)
    torch.testing.assert_close(graphed(x, *values), network(x), rtol=1e-3, atol=1e-3)
    assert graphs.report().recorded == 1


def forward(w1, w2, x):
    hidden = (x @ w1).relu()
    return [hidden @ w2, hidden]


def backward(w1, w2, x, hidden, grad):
    through = (grad @ w2.t()) * (hidden > 0)
    return [x.t() @ through, hidden.t() @ grad]


def losses(device, run_forward, run_backward, steps=20):
    generator = torch.Generator().manual_seed(0)
    w1, w2 = (0.1 * torch.randn(32, 32, generator=generator) for _ in range(2))
    w1, w2, seen = w1.to(device), w2.to(device), []
    for _ in range(steps):
        x = torch.randn(16, 32, generator=generator).to(device)
        y, hidden = run_forward(w1, w2, x)
        for weight, grad in zip((w1, w2), run_backward(w1, w2, x, hidden, 2 * (y - x) / y.numel())):
            weight.sub_(grad)
        seen.append(((y - x) ** 2).mean().item())
    return seen


def test_training_gives_the_losses_that_it_gives_without_graphs(graphs):
    graphed = graphs.capture(forward, 3, static=[0, 1]), graphs.capture(backward, 5, static=[0, 1])
    assert losses(graphs.device, *graphed) == pytest.approx(losses(graphs.device, forward, backward), rel=1e-5)
    assert graphs.report().replayed >= 35  # the last step's results are held during the next, which is learned once


def test_the_backward_reads_what_the_forward_saved_where_it_lies(graphs):
    losses(
        graphs.device, graphs.capture(forward, 3, static=[0, 1]), graphs.capture(backward, 5, static=[0, 1]), steps=4
    )
    first, second = graphs.manager.tree.recordings[:2]
    assert second.parent is first
    assert 3 in second.inputs.in_place


def test_random_numbers_advance_and_repeat_with_the_seed(graphs):
    drop = graphs.capture(lambda x: torch.nn.functional.dropout(x, 0.5), 1)
    for _ in range(2):
        drop(graphs.full(4096))

    def three():
        torch.manual_seed(7)
        return [drop(graphs.full(4096)).clone() for _ in range(3)]

    first, again = three(), three()
    assert not torch.equal(first[0], first[1])
    assert all(torch.equal(a, b) for a, b in zip(first, again))


def test_a_change_to_an_input_reaches_the_caller(graphs):
    bump = graphs.capture(lambda x: [x.add_(10), x * 2], 1)
    for n in range(5):
        x = graphs.full(8, value=n)
        same, doubled = bump(x)
        assert (x[0].item(), doubled[0].item()) == (n + 10, 2 * (n + 10))
        assert same is x or same.data_ptr() == x.data_ptr()


def test_indices_that_are_another_tensor_at_every_call(graphs):
    """A kernel that checks them must find none but the caller's, while it is recorded too."""
    increment = graphs.capture(lambda x: x + 1, 1)
    for _ in range(3):
        increment(graphs.full(64))  # leaves poisoned memory in the pool
    table = torch.arange(30.0, device=graphs.device).view(10, 3)
    look_up = graphs.capture(lambda table, rows: torch.nn.functional.embedding(rows, table), 2)
    for n in range(6):
        rows = torch.tensor([n, 9 - n], device=graphs.device)
        assert torch.equal(look_up(table, rows), table[[n, 9 - n]])
    assert (graphs.report().recorded, graphs.report().plain) == (2, 0)


def test_strided_and_expanded_inputs_and_views_of_them(graphs):
    call = graphs.capture(lambda x, y: [x.t(), x + y], 2)
    for n in range(4):
        x, y = torch.arange(12.0, device=graphs.device).view(3, 4)[:, ::2] + n, graphs.full(3, 1, value=n).expand(3, 2)
        turned, total = call(x, y)
        assert torch.equal(turned, x.t())
        assert turned.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert torch.equal(total, x + y)


@gpu_only
def test_after_a_recording_that_cuda_breaks_off_everything_else_goes_on(graphs):
    peeking = graphs.capture(lambda x: x * x.sum().item(), 1)
    assert [peeking(graphs.full(2, value=n)).tolist() for n in range(4)] == [[2.0 * n * n] * 2 for n in range(4)]
    (refusal,) = graphs.report().refusals
    assert (refusal.reason, "test_gpu.py" in refusal.where) == (Refusal.UNSAFE_OPERATOR, True)
    assert torch.rand(3, device=graphs.device).shape == (3,)
    increment = graphs.capture(lambda x: x + 1, 1)
    assert [increment(graphs.full(2, value=n)).tolist() for n in range(4)] == [[n + 1.0] * 2 for n in range(4)]
    # Where torch does not let go of the pool, nothing more is recorded, and that is said.
    later = [refusal.reason for refusal in graphs.report().refusals[1:]]
    assert graphs.report().recorded == 1 or later


@gpu_only
def test_a_cpu_tensor_is_refused_and_a_cpu_number_is_compared(graphs):
    scale = graphs.capture(lambda x, k: x * k, 2)
    for k in (2.0, 3.0) * 3:
        assert scale(graphs.full(2), torch.tensor(k)).tolist() == [k, k]
    assert graphs.report().recorded == 2
    gather = graphs.capture(lambda x, k: x + k.cuda(), 2)
    assert gather(graphs.full(2), torch.ones(2)).tolist() == [2.0, 2.0]
    assert graphs.report().refusals[-1].reason is Refusal.CPU_INPUT


def test_a_call_that_autograd_would_record_runs_plainly(graphs):
    square = graphs.capture(lambda x: x * x, 1)
    for n in range(3):
        square(graphs.full(1, value=n))
    x = graphs.full(1, value=3.0).requires_grad_()
    with torch.enable_grad():
        square(x).backward()
    assert x.grad.item() == 6.0


@gpu_only
def test_released_outputs_raise(graphs):
    increment = graphs.capture(lambda x: x + 1, 1)
    held = []
    for n in range(4):
        graphs.manager.step_begin(release=True)
        held.append(increment(graphs.full(8, value=n)))
    assert held[-1].tolist() == [4.0] * 8
    with pytest.raises(RuntimeError, match="earlier step"):
        held[-2].tolist()


@gpu_only
def test_calls_on_different_streams_follow_one_another(graphs):
    increment = graphs.capture(lambda x: x + 1, 1)
    x = graphs.full(1 << 20)
    for n in range(6):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            x = increment(x).clone()
        torch.cuda.current_stream().wait_stream(stream)
    assert x[0].item() == 7.0


@gpu_only
@pytest.mark.parametrize("count", [1, 3, 4, 5, 9])
def test_inputs_that_change_are_copied_within_the_graph_or_before_it(graphs, count):
    total = graphs.capture(lambda *values: torch.stack(values).sum(0), count)
    held = []
    for n in range(8):
        inputs = [torch.full((3, 5), float(n * i), device="cuda").t() for i in range(count)]
        held.append((inputs, total(*inputs)))
        assert held[-1][1][0, 0].item() == n * count * (count - 1) / 2
    assert graphs.report().plain == 0


@gpu_only
def test_a_source_may_lie_anywhere(graphs):
    """Views into larger memory, and what another graph returned."""
    increment = graphs.capture(lambda x: x + 1, 1)
    for n in range(3):
        increment(graphs.full(4, value=n))
    table = torch.arange(400.0, device="cuda").view(100, 4)
    for row in (3, 99, 0):
        assert torch.equal(increment(table[row]), table[row] + 1)
    assert torch.equal(increment(increment(table[7])), table[7] + 2)


@gpu_only
def test_pinned_memory_that_lies_still_is_read_at_every_replay(graphs):
    upload = graphs.capture(lambda x: x.to("cuda", non_blocking=True) * 2, 1)
    staging = torch.zeros(1 << 16).pin_memory()
    for n in range(6):
        staging.fill_(n)
        assert upload(staging)[-1].item() == 2 * n
    assert (graphs.report().recorded, graphs.report().plain) == (1, 0)


FUNCTIONS = [
    lambda x: x + 1,
    lambda x: (x * 2, (x * 3)[1:]),
    lambda x: (lambda y: (y, y.view(-1)[4:]))(0.1 * x @ x),
    lambda x: [x, x.t(), x.sigmoid()],
]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("copy_below", [0, 4096])
def test_random_programs(graphs, seed, copy_below):
    chance = random.Random(seed)
    functions = [(fn, graphs.capture(fn, 1, copy_below=copy_below, branches=2)) for fn in FUNCTIONS]
    held = []
    for step in range(60):
        plain, graphed = chance.choice(functions)
        square = [pair for pair in held if pair[0].dim() == 2 and pair[0].shape[0] == pair[0].shape[1]]
        size = chance.choice([4, 8])
        fresh = torch.full((size, size), step / 100, device=graphs.device)
        ours, theirs = chance.choice([*square, (fresh, fresh.clone())])
        ours, theirs = graphed(ours), plain(theirs)
        held += zip(ours, theirs) if isinstance(ours, list | tuple) else [(ours, theirs)]
        del ours, theirs, square
        held = [pair for pair in held if chance.random() < 0.7]
        for ours, theirs in held:
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
        ours = theirs = None
    assert graphs.report().replayed > 10


@gpu_only
def test_a_weight_that_autocast_casts_is_read_anew_at_every_replay(graphs):
    layer = torch.nn.Linear(16, 16, device="cuda")
    state = [layer.weight, layer.bias]
    apply = graphs.capture(torch.nn.functional.linear, 3, static=[1, 2])
    for n in range(5):
        x = graphs.full(4, 16, value=float(n))
        with torch.autocast("cuda", torch.bfloat16):
            ours, theirs = apply(x, *state), layer(x)
        torch.testing.assert_close(ours, theirs)
        layer.weight.mul_(0.5)
    report = graphs.report()
    assert report.replayed >= 3
    assert report.plain == 0
