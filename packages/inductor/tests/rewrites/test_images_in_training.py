"""Images between convolutions lie with their channels innermost in training too, forward and backward alike."""

import pytest
import torch
import torch.nn.functional as F
from simulated import Simulated, moved
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor.ir.program import Call, Launch
from inductor.lower import lower
from inductor.rewrites.layouts import CHANNELS_INNERMOST
from inductor.schedule import schedule

BF16 = torch.bfloat16
SIZES = {"x": (2, 8, 6, 6), "w": (16, 8, 3, 3), "v": (16, 4, 3, 3), "s": (16,), "b": (16,)}


def step(x, w, v, s, b):
    """A result, the gradients of everything, and an image that the user sees."""
    with torch.enable_grad():
        leaves = [value.detach().requires_grad_() for value in (x, w, v, s, b)]
        x, w, v, s, b = leaves
        image = F.batch_norm(F.conv2d(x, w, padding=1), None, None, s, b, training=True).relu()
        image = F.max_pool2d(image, 3, 2, 1)
        seen = F.conv2d(image, v, padding=1, groups=4)
        loss = (seen + image).flatten(1).float().square().mean()
        return loss.detach(), seen.detach(), *torch.autograd.grad(loss, leaves)


def inputs(dtype=BF16):
    torch.manual_seed(0)
    return [torch.randn(size).to(dtype) for size in SIZES.values()]


def graph_of(values, on_gpu, function=step):
    gm = make_fx(function, tracing_mode="fake", decomposition_table=inductor.decompositions())(*values)
    for node in gm.graph.nodes if on_gpu else ():
        node.args, node.kwargs = moved(node.args), moved(node.kwargs)
        node.meta["val"] = moved(node.meta.get("val"))
    inductor.lay_out_images(gm.graph)
    gm.recompile()
    return gm


def turned(gm):
    return [node for node in gm.graph.nodes if CHANNELS_INNERMOST in node.meta]


def test_convolutions_get_and_give_images_as_the_library_wants_them():
    values = inputs()
    gm = graph_of(values, on_gpu=True)
    program = schedule(lower(gm, values))
    calls = [step for step in program.steps if isinstance(step, Call)]
    assert [str(call.target) for call in calls] == ["aten.convolution.default"] * 2 + [
        "aten.convolution_backward.default"
    ] * 2
    last, first = (call.outputs[0].strides[1].as_int() for call in calls[2:])
    assert (last, first) == (1, 1)
    assert sum(isinstance(step, Launch) for step in program.steps) > 0


def test_results_and_their_strides_are_eager_s():
    values = inputs()
    graph = lower(graph_of(values, on_gpu=True), values)
    found = Simulated(schedule(graph), values, graph.constants).run()
    expected, exact = step(*values), step(*(value.double() for value in values))
    for ours, theirs, true in zip(found, expected, exact, strict=True):
        assert ours.stride() == theirs.stride()
        off, as_eager = ((value.double() - true).norm() / true.norm() for value in (ours, theirs))
        assert off < 2 * as_eager + 1e-3


def test_what_is_computed_in_single_precision_between_them_is_turned_too():
    """As a norm that evaluates is taken apart."""

    def function(x, w, v):
        with torch.enable_grad():
            leaves = [value.detach().requires_grad_() for value in (x, w, v)]
            image = (F.conv2d(leaves[0], leaves[1], padding=1).float() * 2).sigmoid().bfloat16()
            return torch.autograd.grad(F.conv2d(image, leaves[2], padding=1, groups=4).float().square().sum(), leaves)

    gm = graph_of(inputs()[:3], on_gpu=True, function=function)
    wide = [node for node in turned(gm) if node.meta["val"].dtype == torch.float32]
    assert {"mul", "sigmoid"} <= {str(node.target).split(".")[1] for node in wide}


def test_what_the_user_sees_is_not_turned():
    gm = graph_of(inputs(), on_gpu=True)
    assert turned(gm)
    assert not {*turned(gm)} & {*gm.graph.output_node().all_input_nodes}


def behind(x, w, v):
    """Results of operators that lay them out as their image lies, and gradients through both."""
    with torch.enable_grad():
        leaves = [value.detach().requires_grad_() for value in (x, w, v)]
        image = F.conv2d(leaves[0], leaves[1], padding=1).relu()
        image = F.conv2d(image, leaves[2], padding=1, groups=4).relu()
        results = F.conv_transpose2d(image, leaves[1]), image.sort(1)[0], image.as_strided((2, 3), (100, 7), 1)
        return *(each.detach() for each in results), *torch.autograd.grad(sum(each.sum() for each in results), leaves)


def test_operators_to_which_layouts_matter_find_eager_s():
    values = [value * 0.1 for value in inputs()[:3]]
    gm = graph_of(values, on_gpu=True, function=behind)
    assert turned(gm)
    graph = lower(gm, values)
    found = Simulated(schedule(graph), values, graph.constants).run()
    expected, exact = behind(*values), behind(*(value.double() for value in values))
    for ours, theirs, true in zip(found, expected, exact, strict=True):
        assert ours.stride() == theirs.stride()
        off, as_eager = ((value.double() - true).norm() / true.norm() for value in (ours, theirs))
        assert off < 2 * as_eager + 1e-3


WEIGHTS = {
    "repeated": lambda w: w.repeat(1, 2, 1, 1),
    "side by side": lambda w: torch.cat([w, w * 2], 1),
    "rows of rows": lambda w: (w.view(16, 2, 4, 9) * 2).repeat(1, 1, 2, 1).view(16, 16, 3, 3),
    "standardised": lambda w: (w.flatten(1) - w.flatten(1).mean(1, True)).view_as(w).repeat(1, 2, 1, 1),
    "halves": lambda w: torch.stack([w, w.flip(0)], 2).view(16, 16, 3, 3),
}
IMAGES = {
    "as it is": lambda image: image,
    "shuffled": lambda image: image.view(2, 2, 8, 6, 6).transpose(1, 2).reshape(image.shape),
    "flat for a while": lambda image: image.flatten(2).softmax(-1).view_as(image),
    "in groups": lambda image: (image.view(2, 4, 4, 6, 6) * torch.arange(4).view(4, 1, 1, 1)).view_as(image),
    "rows first": lambda image: (image.flatten(2).mT * 2).mT.view_as(image),
}


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_views_of_weights_and_images_have_eager_s_gradients(weight, image):
    def function(x, w):
        with torch.enable_grad():
            leaves = [value.detach().requires_grad_() for value in (x, w)]
            between = IMAGES[image](F.conv2d(*leaves, padding=1).relu())
            y = F.conv2d(between, WEIGHTS[weight](leaves[1]), padding=1).relu()
            return y.detach(), *torch.autograd.grad(y.float().square().sum(), leaves)

    values = [value * 0.1 for value in inputs()[:2]]
    graph = lower(graph_of(values, on_gpu=True, function=function), values)
    found = Simulated(schedule(graph), values, graph.constants).run()
    for ours, theirs, true in zip(found, function(*values), function(*(v.double() for v in values)), strict=True):
        off, as_eager = ((value.double() - true).norm() / true.norm() for value in (ours, theirs))
        assert off < 2 * as_eager + 1e-3


@pytest.mark.parametrize(("dtype", "on_gpu"), [(BF16, False), (torch.float32, True)])
def test_others_lie_as_they_are(dtype, on_gpu):
    assert not turned(graph_of(inputs(dtype), on_gpu))


def test_operators_of_eager_find_what_they_know(monkeypatch):
    """Where a graph cannot be built, the other half has been, and hands over turned images."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.ops.aten.view.default, (x, [2, -1]))
    z = graph.call_function(torch.ops.aten.relu.default, (x,))
    graph.output((y, z))
    gm = torch.fx.GraphModule({}, graph)
    x.meta[CHANNELS_INNERMOST] = z.meta[CHANNELS_INNERMOST] = True
    image = torch.randn(2, 8, 6, 6)
    monkeypatch.setattr("inductor.pipeline.run", lambda *_: _cannot())
    with pytest.warns(RuntimeWarning, match="operator by operator"):
        compiled = inductor.compile(gm, [image])
    flat, positive = compiled(image.contiguous(memory_format=torch.channels_last))
    assert torch.equal(flat, image.flatten(1))
    assert positive.is_contiguous(memory_format=torch.channels_last)


def _cannot():
    raise inductor.BuildError("no compiler")
