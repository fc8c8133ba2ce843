"""Tensor subclasses through `__torch_dispatch__`: the tensors within are the graph's inputs and outputs."""

import pytest
import torch
from torch.utils import _pytree as pytree

import aotgrad


class Two(torch.Tensor):
    """Two tensors of one shape, on each of which every operator runs."""

    @staticmethod
    def __new__(cls, a, b, label=""):
        options = {"dtype": a.dtype, "device": a.device, "strides": a.stride(), "storage_offset": a.storage_offset()}
        return torch.Tensor._make_wrapper_subclass(cls, a.size(), **options)

    def __init__(self, a, b, label=""):
        self.a, self.b, self.label = a, b, label

    def __repr__(self):
        return f"Two({self.a}, {self.b})"

    def __tensor_flatten__(self):
        return ["a", "b"], self.label

    @staticmethod
    def __tensor_unflatten__(inner, label, size, stride):
        return Two(inner["a"], inner["b"], label)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def run(part):
            return func(*pytree.tree_map_only(Two, part, args), **pytree.tree_map_only(Two, part, kwargs or {}))

        a, b = run(lambda two: two.a), run(lambda two: two.b)
        if func._schema.is_mutable:
            return args[0]
        return pytree.tree_map(lambda x, y: Two(x, y) if isinstance(x, torch.Tensor) else x, a, b)


def two(*shape, requires_grad=False):
    return Two(torch.randn(shape), torch.randn(shape)).requires_grad_(requires_grad)


def copied(args):
    def copy(value):
        return Two(value.a.clone(), value.b.clone()).requires_grad_(value.requires_grad)

    plain = lambda t: copy(t) if isinstance(t, Two) else t.detach().clone().requires_grad_(t.requires_grad)
    return pytree.tree_map_only(torch.Tensor, plain, args)


def opened(values):
    return [(v.a, v.b) if isinstance(v, Two) else v for v in pytree.tree_leaves(values)]


def run(fn, args):
    """Everything a caller sees: outputs, gradients, and what the arguments hold afterwards."""
    args = copied(args)
    outputs = fn(*args)
    followed = [o for o in pytree.tree_leaves(outputs) if isinstance(o, torch.Tensor) and o.requires_grad]
    leaves = [x for x in args if isinstance(x, torch.Tensor) and x.requires_grad]
    weights = [torch.linspace(0.5, 1.5, o.numel()).view(o.shape) for o in followed]
    weights = [Two(w, w * 2) if isinstance(o, Two) else w for o, w in zip(followed, weights, strict=True)]
    grads = torch.autograd.grad(followed, leaves, weights, allow_unused=True) if followed else ()
    kinds = [f"{type(v).__name__} {v.requires_grad}" for v in pytree.tree_leaves(outputs)]
    return opened(outputs), opened(grads), opened([a.detach() for a in args]), kinds


def same(fn, *args):
    compiled = aotgrad.function(fn, forward=aotgrad.run_eagerly)
    for _ in range(2):
        (*ours, kinds), (*theirs, expected) = run(compiled, args), run(fn, args)
        torch.testing.assert_close(ours, theirs)
        assert kinds == expected


PROGRAMS = {
    "pointwise": lambda x, w: (x * w).sin() + 1,
    "matrix product": lambda x, w: torch.relu(x @ w.t()).sum(),
    "several outputs": lambda x, w: (x.exp(), w * 2, (x * w).sum()),
    "views inside": lambda x, w: (x.view(-1)[2:].unsqueeze(0) * w.reshape(-1)[2:]).t(),
    "mutation inside": lambda x, w: (x * 2).add_(w).mul_(3),
    "softmax": lambda x, w: torch.nn.functional.layer_norm(x.softmax(-1) @ w.t(), (3,)),
    "no_grad inside": lambda x, w: x * w.detach() + w,
}


@pytest.mark.parametrize("grads", [(True, True), (False, True), (False, False)], ids=str)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_programs(program, grads):
    same(program, *(two(3, 4, requires_grad=grad) for grad in grads))


def test_plain_tensors_beside():
    x, y, w = two(3, 4), torch.randn(3), two(3, 4, requires_grad=True)
    same(lambda x, y, w: (x * w + y.sum(), y * 2), x, y, w)
    same(lambda x, y, w: (x * w, y.exp()), x, y.requires_grad_(), w)
    with pytest.raises(aotgrad.Unsupported, match="the gradient of a plain tensor is a tensor subclass"):
        aotgrad.function(lambda x, y: x * y.sum(), forward=aotgrad.run_eagerly)(x, y)


def test_mutation_of_an_argument():
    same(lambda x, w: (x.add_(w), w * 2)[1], two(3), two(3))
    with torch.no_grad():
        same(lambda x, w: x.sub_(w * 0.1), two(3, requires_grad=True), two(3))


def test_views_of_an_argument():
    x = two(3, 4)
    view = aotgrad.function(lambda x: x.t(), forward=aotgrad.run_eagerly)(x)
    x.a.zero_()
    assert not view.a.any()
    assert view.b.any()


def test_an_argument_returned_is_the_callers_object():
    x = two(3)
    assert aotgrad.function(lambda x: x, forward=aotgrad.run_eagerly)(x) is x


def test_the_graph_knows_the_tensors_within(graphs_of):
    seen = []

    def compiler(gm, example_inputs):
        seen.append([type(value).__name__ for value in example_inputs])
        return aotgrad.run_eagerly(gm, example_inputs)

    w = two(3, requires_grad=True)
    aotgrad.function(lambda x: x.exp().sum(), forward=compiler)(w).sum().backward()
    assert seen == [["FakeTensor"] * 2, ["FakeTensor"] * 4]
    assert isinstance(w.grad, Two)


def test_objects_within_objects():
    inner = lambda: two(2, 3)
    program = lambda x: (x * 2).sin()
    x = Two(inner(), inner())
    ours, theirs = aotgrad.function(program, forward=aotgrad.run_eagerly)(x), program(x)
    torch.testing.assert_close(opened([ours.a, ours.b]), opened([theirs.a, theirs.b]))


def test_another_context_is_another_graph():
    graphs = []

    def compiler(gm, example_inputs):
        graphs.append(gm)
        return aotgrad.run_eagerly(gm, example_inputs)

    fn = aotgrad.function(lambda x: x + 1, forward=compiler)
    for label in ("first", "second", "first"):
        fn(Two(torch.ones(2), torch.ones(2), label))
    assert len(graphs) == 2


def test_a_change_under_autograd_is_refused():
    with pytest.raises(aotgrad.Unsupported, match="changed in place under autograd"):
        aotgrad.function(lambda x, w: x.add_(w), forward=aotgrad.run_eagerly)(two(3), two(3, requires_grad=True))


def test_training_follows_eager():
    def losses(wrap):
        torch.manual_seed(0)
        w = two(4, 2, requires_grad=True)
        step, curve = wrap(lambda x, w: (x @ w).square().mean()), []
        for _ in range(5):
            loss = step(Two(torch.ones(3, 4), torch.ones(3, 4) * 2), w)
            loss.backward(Two(torch.ones(()), torch.ones(())))
            with torch.no_grad():
                w.sub_(w.grad, alpha=0.1)
            w.grad = None
            curve.append((loss.a.detach(), loss.b.detach()))
        return curve

    ours = losses(lambda fn: aotgrad.function(fn, forward=aotgrad.run_eagerly))
    torch.testing.assert_close(ours, losses(lambda fn: fn))


@pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch is built without torch.distributed")
@pytest.mark.filterwarnings("ignore")
def test_distributed_tensors():
    from torch import distributed
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        x = distribute_tensor(torch.randn(3, 4), mesh, [Replicate()])
        program = lambda x, w: torch.nn.functional.layer_norm((x @ w.t()).relu(), (4,)).square().sum()
        found = []
        for fn in (aotgrad.function(program, forward=aotgrad.run_eagerly), program):
            w = distribute_tensor(torch.ones(4, 4).cumsum(0), mesh, [Shard(0)]).requires_grad_()
            loss = fn(x, w)
            loss.backward()
            found.append((loss.full_tensor(), w.grad.full_tensor(), w.grad.placements))
        torch.testing.assert_close(found[0][:2], found[1][:2])
        assert found[0][2] == found[1][2]
    finally:
        distributed.destroy_process_group()
