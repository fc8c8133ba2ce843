"""Every pass over FX graphs: a graph as text in, and as text what the pass makes or says of it."""

from written import graph_of, listed

from inductor.decompose import prepare
from inductor.lowerings import LOWERINGS
from inductor.rewrites.attention import find_attention
from inductor.rewrites.layouts import image_layouts
from inductor.rewrites.redundant import find_redundant


def test_what_is_redundant():
    gm, _ = graph_of("""
def graph(x: f32[4, 4], w: f32[4]):
    a = aten.mul.Tensor(x, w)
    b = aten.mul.Tensor(x, w)
    c = aten.exp.default(a)
    d = aten.sin.default(c)
    e = aten.mul.Tensor(x, 2)
    f = aten.mul.Tensor(x, 2.0)
    g = aten.add.Tensor(a, b)
    return g, e, f
""")
    found = find_redundant(gm.graph)
    notes = dict.fromkeys(found.dead, "dead") | {node: f"= {first}" for node, first in found.same.items()}
    assert listed(gm, notes) == """\
a = aten.mul.Tensor(x, w)
b = aten.mul.Tensor(x, w)  # = a
c = aten.exp.default(a)  # dead
d = aten.sin.default(c)  # dead
e = aten.mul.Tensor(x, 2)
f = aten.mul.Tensor(x, 2.0)
g = aten.add.Tensor(a, b)
return (g, e, f)
"""  # fmt: skip


def test_how_images_lie():
    gm, _ = graph_of("""
def graph(x: f32[2, 8, 16, 16], w: f32[8, 8, 3, 3], v: f32[8, 8, 1, 1]):
    a = aten.convolution.default(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    b = aten.relu.default(a)
    c = aten.convolution.default(b, v, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    d = aten.add.Tensor(c, b)
    e = aten.sum.default(d)
    f = aten.convolution.default(x, w, None, [1, 1], [1, 1], [1, 1], True, [0, 0], 1)
    return e, f
""")
    assert listed(gm, image_layouts(gm.graph, LOWERINGS)) == """\
a = aten.convolution.default(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)  # channels last
b = aten.relu.default(a)  # channels last
c = aten.convolution.default(b, v, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)  # channels last
d = aten.add.Tensor(c, b)  # channels last
e = aten.sum.default(d)
f = aten.convolution.default(x, w, None, [1, 1], [1, 1], [1, 1], True, [0, 0], 1)
return (e, f)
"""  # fmt: skip


def test_where_attention_is_written_out():
    gm, _ = graph_of("""
def graph(q: f32[6, 7, 16], k: f32[6, 19, 16], v: f32[6, 19, 16], keep: b8[7, 19]):
    turned = aten.transpose.int(k, 1, 2)
    scores = aten.bmm.default(q, turned)
    scaled = aten.mul.Tensor(scores, 0.25)
    masked = aten.masked_fill.Scalar(scaled, keep, -1e9)
    weights = aten._softmax.default(masked, -1, False)
    result = aten.bmm.default(weights, v)
    softer = aten._softmax.default(result, -1, False)
    other = aten.bmm.default(softer, turned)
    return result, other, softer
""")
    found = find_attention(gm.graph, find_redundant(gm.graph))
    notes = {}
    for node, attention in found.items():
        notes |= {inner: f"inside {node}" for inner in attention.inside if inner is not node}
        notes[node] = f"attention of {attention.queries}, {attention.keys}, {attention.values} by {attention.scale}"
    assert listed(gm, notes) == """\
turned = aten.transpose.int(k, 1, 2)
scores = aten.bmm.default(q, turned)  # inside result
scaled = aten.mul.Tensor(scores, 0.25)  # inside result
masked = aten.masked_fill.Scalar(scaled, keep, -1000000000.0)  # inside result
weights = aten._softmax.default(masked, -1, False)  # inside result
result = aten.bmm.default(weights, v)  # attention of q, turned, v by 0.25
softer = aten._softmax.default(result, -1, False)
other = aten.bmm.default(softer, turned)
return (result, other, softer)
"""  # fmt: skip


def test_a_graph_of_torch_functions_made_ready():
    gm, inputs = graph_of("""
def graph(x: f32[4, 4], w: f32[4, 4]):
    a = torch.nn.functional.linear(x, w)
    b = torch.nn.functional.celu(a)
    c = x.add_(b)
    d = torch.baddbmm(x[None], a[None], w[None])
    return b, d
""")
    assert listed(prepare(gm, inputs)) == """\
t = aten.t.default(arg1_1)
mm = aten.mm.default(arg0_1, t)
celu = aten.celu.default(mm)
add = aten.add.Tensor(arg0_1, celu)
unsqueeze = aten.unsqueeze.default(add, 0)
unsqueeze_1 = aten.unsqueeze.default(mm, 0)
unsqueeze_2 = aten.unsqueeze.default(arg1_1, 0)
unsqueeze_3 = aten.unsqueeze.default(add, 0)
baddbmm = aten.baddbmm.default(unsqueeze_3, unsqueeze_1, unsqueeze_2)
copy_ = aten.copy_.default(arg0_1, add)
return (celu, baddbmm)
"""  # fmt: skip


def test_a_ready_graph_passes_untouched():
    gm, inputs = graph_of("""
def graph(x: f32[4, 4]):
    a = aten.mul.Tensor(x, 2)
    return a
""")
    for node in gm.graph.nodes:
        node.meta.setdefault("val", inputs[0])
    assert prepare(gm, inputs) is gm
