"""From an FX graph as text to nests and calls as text, before anything is fused or ordered."""

from written import graph_of

from inductor.ir.show import graph_text
from inductor.lower import lower


def lowered(text):
    gm, inputs = graph_of(text)
    _, *lines = graph_text(lower(gm, inputs)).replace(" on cpu", "").splitlines(keepends=True)
    return "".join(lines)


def test_views_and_cheap_values_need_no_memory():
    assert lowered("""
def graph(x: f32[4, 8], w: f32[4]):
    a = aten.permute.default(x, [1, 0])
    b = aten.mul.Tensor(a, w)
    c = aten.slice.Tensor(b, 0, 2, 8)
    d = aten.relu.default(c)
    return d
""") == """\
    nest b0 (i0 in 4, i1 in 6)
        b0 = maximum(0.0, x[8 * i0 + i1 + 2] * w[i0])
        b0[6 * i0 + i1] = b0
    return [b0]
"""  # fmt: skip


def test_what_a_reduction_makes_and_what_costs_much_has_memory():
    assert lowered("""
def graph(x: bf16[4, 8]):
    a = aten.exp.default(x)
    b = aten.sum.dim_IntList(a, [1], True)
    c = aten.div.Tensor(a, b)
    d = aten.sub.Tensor(a, c)
    return d
""") == """\
    nest b0 (i0 in 4, i1 in 8)
        b0 = rounded(exp(cast(x[8 * i0 + i1], float32)), bfloat16)
        b0[8 * i0 + i1] = b0
    nest b2 (i0 in 4)
        for i1 in reduce(8):
            t1 = sum(cast(b0[8 * i0 + i1], float32), float32)
        b2 = t1
        b2[i0] = b2
    nest b3 (i0 in 4, i1 in 8)
        b3 = cast(b0[8 * i0 + i1], float32) - cast(b0[8 * i0 + i1], float32) / cast(b2[i0], float32)
        b3[8 * i0 + i1] = b3
    return [b3]
"""  # fmt: skip


def test_libraries_are_called():
    assert lowered("""
def graph(x: f32[4, 8], w: f32[8, 3], b: f32[3]):
    a = aten.addmm.default(b, x, w)
    c = aten.relu.default(a)
    d = aten.sort.default(c, 1)
    e = aten.mul.Tensor(d[0], 2)
    return e
""") == """\
    b0: float32[4, 3] by [3, 1] = call aten.mm.default(x, w)
    nest b1 (i0 in 4, i1 in 3)
        b1 = maximum(0.0, b0[3 * i0 + i1] + b[i1])
        b1[3 * i0 + i1] = b1
    b2: float32[4, 3] by [3, 1], b3: int64[4, 3] by [3, 1] = call aten.sort.default(b1, 1)  # no lowering
    nest b4 (i0 in 4, i1 in 3)
        b4 = b2[3 * i0 + i1] * 2.0
        b4[3 * i0 + i1] = b4
    return [b4]
"""  # fmt: skip


def test_places_read_from_tensors():
    assert lowered("""
def graph(x: f32[9, 8], k: i64[5]):
    a = aten.index.Tensor(x, [k])
    b = aten.index_put.default(x, [k], a, True)
    return a, b
""") == """\
    nest b0 (i0 in 5, i1 in 8)
        b0 = x[i1 + 8 * p0, p0(9, wrapped(k[i0], 9))]
        b0[8 * i0 + i1] = b0
    nest b1 (i0 in 9, i1 in 8)
        b1 = x[8 * i0 + i1]
        b1[8 * i0 + i1] = b1
    nest b1 (i0 in 5, i1 in 8)
        b1[i1 + 8 * p0, p0(9, wrapped(k[i0], 9))] += b0[8 * i0 + i1]
    return [b0, b1]
"""  # fmt: skip


def test_a_norm_goes_into_the_convolution_before_it():
    assert lowered("""
def graph(x: f32[2, 8, 16, 16], w: f32[8, 8, 3, 3], g: f32[8], m: f32[8], v: f32[8]):
    a = aten.convolution.default(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    b = aten._native_batch_norm_legit_no_training.default(a, g, g, m, v, 0.1, 0.5)
    c = aten.relu.default(b[0])
    d = aten.amax.default(c, [2, 3])
    return d
""") == """\
    nest b0 (i0 in 2, i1 in 8, i2 in 16, i3 in 16)
        b0 = x[2048 * i0 + 256 * i1 + 16 * i2 + i3]
        b0[2048 * i0 + i1 + 128 * i2 + 8 * i3] = b0
    nest b2 (i0 in 8)
        b2 = rsqrt(v[i0] + 0.5) * g[i0]
        b2[i0] = b2
    nest b3 (i0 in 8)
        b3 = g[i0] - m[i0] * b2[i0]
        b3[i0] = b3
    nest b4 (i0 in 8, i1 in 8, i2 in 3, i3 in 3)
        b4 = w[72 * i0 + 9 * i1 + 3 * i2 + i3] * b2[i0]
        b4[72 * i0 + i1 + 24 * i2 + 8 * i3] = b4
    b1: float32[2, 8, 16, 16] by [2048, 1, 128, 8] = call mkldnn._convolution_pointwise.default(b0, b4, b3, [1, 1], [1, 1], [1, 1], 1, none, [], )
    nest b6 (i0 in 2, i1 in 8)
        for i2, i3 in reduce(16, 16):
            t5 = max(maximum(0.0, b1[2048 * i0 + i1 + 128 * i2 + 8 * i3]), float32)
        b6 = t5
        b6[8 * i0 + i1] = b6
    return [b6]
"""  # fmt: skip  # noqa: E501
