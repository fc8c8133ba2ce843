"""Kernels of every construct, at every vector width and for single elements, against what torch computes."""

import os

import pytest
import torch

from inductor.ir.expr import Apply, Const, IndexValue, Load, Masked, Result, apply, cast
from inductor.ir.index import Index, Symbol, loop_variable, size_symbol
from inductor.ir.kernel import Let, Reduce, Scan, Store

F32, F64, BF16, F16, I64, I32, U8, I8, BOOL = (
    torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.int8,
    torch.bool,
)  # fmt: skip


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
# Triton's interpreter rounds to bfloat16 towards zero, flushes its denormals and cannot add to it.
HALVES = [F16] if INTERPRETED else [BF16, F16]
# It also reduces element by element, in Python.
LENGTHS = [5, 40] if INTERPRETED else [1, 5, 77, 300]


def axis(name, size):
    variable = loop_variable(name, size)
    return variable, Index.of(variable)


def pointwise(kernel_of, value, dtype, n, *inputs):
    """A kernel over n elements that stores ``value(loads)``."""
    i, at = axis("i", n)
    loads = [Load(f"in{k}", at, tensor.dtype) for k, tensor in enumerate(inputs)]
    body = [Store("out0", at, value(*loads))]
    arguments = [(f"in{k}", tensor.dtype, n, "in") for k, tensor in enumerate(inputs)]
    return kernel_of([i], [([], body)], *arguments, ("out0", dtype, n, "out"))


def evaluate(run, kernel_of, value, dtype, *inputs):
    n = inputs[0].numel()
    tensors = {f"in{k}": tensor for k, tensor in enumerate(inputs)} | {"out0": torch.empty(n, dtype=dtype)}
    return run(pointwise(kernel_of, value, dtype, n, *inputs), tensors)["out0"]


@pytest.mark.parametrize("n", [1, 3, 16, 37])
def test_addition_with_tails(run, kernel_of, n):
    x, y = torch.randn(n), torch.randn(n)
    assert torch.equal(evaluate(run, kernel_of, lambda a, b: apply("add", a, b), F32, x, y), x + y)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "copysign", "fmod",
                                "atan2", "hypot", "nextafter"])  # fmt: skip
@pytest.mark.parametrize("dtype", [F32, F64])
def test_binary_float_operators(run, kernel_of, machine, op, dtype):
    special = torch.tensor([0.0, -0.0, 1.5, -2.0, float("inf"), -float("inf"), float("nan")], dtype=dtype)
    x, y = (part.reshape(-1).clone() for part in torch.meshgrid(special, special, indexing="ij"))
    expected = getattr(torch, op)(x, y)
    found = evaluate(run, kernel_of, lambda a, b: apply(op, a, b), dtype, x, y)
    flushed = 2e-38 if machine == "cuda" else 0  # GPU libraries are linked to flush denormals
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=flushed, equal_nan=True)


@pytest.mark.parametrize(("op", "rounding"), [("floordiv", "floor"), ("truncdiv", "trunc")])
@pytest.mark.parametrize("dtype", [F32, I64, I32, I8, U8])
def test_rounded_division(run, kernel_of, op, rounding, dtype):
    x = torch.tensor([7, -7, 7, -7, 0, 100, 5] * 5).to(dtype)
    y = torch.tensor([2, 2, -2, -2, 3, 7, -5] * 5).to(dtype)
    found = evaluate(run, kernel_of, lambda a, b: apply(op, a, b), dtype, x, y)
    assert torch.equal(found, torch.div(x, y, rounding_mode=rounding))


@pytest.mark.parametrize(("op", "function"), [("mod", torch.remainder), ("fmod", torch.fmod)])
@pytest.mark.parametrize("dtype", [F32, I64, I8, U8])
def test_remainders(run, kernel_of, op, function, dtype):
    x = torch.tensor([7, -7, 7, -7, 0, 100, 5] * 5).to(dtype)
    y = torch.tensor([2, 2, -2, -2, 3, 7, -5] * 5).to(dtype)
    assert torch.equal(evaluate(run, kernel_of, lambda a, b: apply(op, a, b), dtype, x, y), function(x, y))


@pytest.mark.parametrize("dtype", [I8, U8, torch.int16, I32, I64])
def test_integers_wrap(run, kernel_of, dtype):
    info = torch.iinfo(dtype)
    x = torch.tensor([info.max, info.min, 3, 100] * 9, dtype=dtype)
    found = evaluate(run, kernel_of, lambda a: apply("add", apply("mul", a, a), a), dtype, x)
    assert torch.equal(found, x * x + x)


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq", "ne"])
@pytest.mark.parametrize("dtype", [F32, F64, I64, U8, BOOL])
def test_comparisons_store_bools(run, kernel_of, op, dtype):
    x, y = torch.randint(0, 3, (41,)).to(dtype), torch.randint(0, 3, (41,)).to(dtype)
    assert torch.equal(evaluate(run, kernel_of, lambda a, b: apply(op, a, b), BOOL, x, y), getattr(torch, op)(x, y))


def test_where_mixes_widths_of_masks(run, kernel_of):
    x, y, z = torch.randn(37), torch.randn(37, dtype=F64), torch.randn(37) > 0

    def value(a, b, c):
        both = apply("and", apply("lt", a, Const(0.0, F32)), c)
        either = apply("or", both, apply("not", apply("gt", b, Const(0.5, F64))))
        return apply("where", either, cast(a, F64), b)

    assert torch.equal(
        evaluate(run, kernel_of, value, F64, x, y, z), torch.where(((x < 0) & z) | ~(y > 0.5), x.double(), y)
    )


@pytest.mark.parametrize("source", [F32, F64, I64, I32, I8, U8, BOOL, BF16, F16])
@pytest.mark.parametrize("target", [F32, F64, I64, I32, I8, U8, BOOL, BF16, F16])
def test_casts(run, kernel_of, source, target):
    x = torch.tensor([0, 1, 2, 3, 100, 7.75] * 7).to(source)
    assert torch.equal(evaluate(run, kernel_of, lambda a: cast(a, target), target, x), x.to(target))


@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_survives_widening_and_narrowing(run, kernel_of, dtype):
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    found = evaluate(run, kernel_of, lambda a: cast(a, F32), dtype, x)
    assert torch.equal(torch.isnan(found), torch.isnan(x))
    assert torch.equal(found[~torch.isnan(x)].view(torch.int16), x[~torch.isnan(x)].view(torch.int16))


@pytest.mark.parametrize("dtype", HALVES)
def test_halves_round_as_torch_rounds(run, kernel_of, dtype):
    bits = torch.arange(-(2**31), 2**31, 65537 * 8 + 1, dtype=I64).to(I32)
    x = torch.cat(
        [bits.view(F32), torch.randn(1000), 2.0 ** torch.arange(-30.0, 18.0, 0.25), torch.tensor([65519.9, 65520.0])]
    )
    found, expected = evaluate(run, kernel_of, lambda a: a, dtype, x), x.to(dtype)
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    rounded = evaluate(run, kernel_of, lambda a: Apply("rounded", (a,), F32, dtype), F32, x)
    torch.testing.assert_close(rounded, expected.float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [I64, I8])
def test_shifts_beyond_the_width(run, kernel_of, dtype):
    x = torch.tensor([1, -1, 5, -128, 127] * 9).to(dtype)
    y = torch.tensor([0, 3, 200 if dtype == I64 else 100, -1, 7] * 9).to(dtype)
    left = evaluate(run, kernel_of, lambda a, b: apply("shl", a, b), dtype, x, y)
    right = evaluate(run, kernel_of, lambda a, b: apply("shr", a, b), dtype, x, y)
    width = 8 * dtype.itemsize
    fits = (y >= 0) & (y < width)
    inside = y.clamp(0, width - 1)
    assert torch.equal(left, torch.where(fits, x << inside, 0))
    assert torch.equal(right, torch.where(fits, x >> inside, x >> (width - 1)))


def test_powers(run, kernel_of, machine):
    x, y = 1 + torch.rand(500) * 50, torch.randn(500) * 5
    found = evaluate(run, kernel_of, lambda a, b: apply("pow", a, b), F32, x, y)
    accuracy = 1e-6 if machine == "cuda" else 1.2e-7  # the GPU's library is less careful than ours
    exact = accuracy if machine == "cuda" else 0
    torch.testing.assert_close(found, x.double().pow(y.double()).float(), rtol=accuracy, atol=0)
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, float("inf"), -float("inf"), float("nan")])
    a, b = (part.reshape(-1).clone() for part in torch.meshgrid(special, special, indexing="ij"))
    torch.testing.assert_close(
        evaluate(run, kernel_of, lambda p, q: apply("pow", p, q), F32, a, b),
        a.pow(b),
        equal_nan=True,
        rtol=exact,
        atol=0,
    )
    n = torch.tensor([2, -3, 1, -1, 0, 7])
    e = torch.tensor([10, 3, -5, -3, 0, 2])
    found = evaluate(run, kernel_of, lambda p, q: apply("pow", p, q), I64, n, e)
    assert found.tolist() == [1024, -27, 1, -1, 1, 49]


def test_positions_as_values(run, kernel_of):
    i, at = axis("i", 37)
    body = [
        Store("out0", at, apply("add", IndexValue(at * 3 + 1, F32), Const(0.5, F32))),
        Store("out1", at, IndexValue((at * 5) % 7, I64)),
        Store("out2", at, IndexValue((at - 20) // 6, I32)),
    ]
    kernel = kernel_of([i], [([], body)], ("out0", F32, 37, "out"), ("out1", I64, 37, "out"), ("out2", I32, 37, "out"))
    found = run(
        kernel, {"out0": torch.empty(37), "out1": torch.empty(37, dtype=I64), "out2": torch.empty(37, dtype=I32)}
    )
    n = torch.arange(37)
    assert torch.equal(found["out0"], n * 3 + 1 + 0.5)
    assert torch.equal(found["out1"], n * 5 % 7)
    assert torch.equal(found["out2"], ((n - 20) // 6).to(I32))


def test_transposed_and_broadcast_reads(run, kernel_of):
    x, y = torch.randn(19, 21), torch.randn(19)
    (i, row), (j, column) = axis("i", 21), axis("j", 19)
    value = apply("add", Load("x", column * 21 + row, F32), Load("y", column, F32))
    value = apply("mul", value, Load("z", row, F32))
    kernel = kernel_of([i, j], [([], [Store("out", row * 19 + column, value)])],
                       ("x", F32, 399, "in"), ("y", F32, 19, "in"), ("z", F32, 21, "in"),
                       ("out", F32, 399, "out"))  # fmt: skip
    z = torch.randn(21)
    found = run(kernel, {"x": x, "y": y, "z": z, "out": torch.empty(21, 19)})["out"]
    assert torch.equal(found, (x.t() + y) * z[:, None])


@pytest.mark.parametrize("dtype", [F32, F64, BF16, I64, U8])
@pytest.mark.parametrize(("rows", "columns"), [(141, 75), (128, 64), (65, 70)])
def test_crossing_reads_are_done_in_bands(run, kernel_of, dtype, rows, columns):
    x, y = (torch.randint(0, 100, (3, *sizes)).to(dtype) for sizes in ((columns, rows), (rows, columns)))
    (b, batch), (i, row), (j, column), n = axis("b", 3), axis("i", rows), axis("j", columns), rows * columns
    values = [Load("x", batch * n + column * rows + row, dtype), Load("y", batch * n + row * columns + column, dtype)]
    total = apply("maximum", *(cast(value, F32) if dtype in HALVES else value for value in values))
    kernel = kernel_of([b, i, j], [([], [Store("out", batch * n + row * columns + column, total)])],
                       *((name, dtype, 3 * n, "in") for name in "xy"), ("out", dtype, 3 * n, "out"))  # fmt: skip
    found = run(kernel, {"x": x, "y": y, "out": torch.empty_like(y)})["out"]
    assert torch.equal(found, torch.maximum(x.transpose(1, 2), y))


@pytest.mark.parametrize("op", ["eq", "lt", "ge"])
@pytest.mark.parametrize("number", [-(2**40), -1, 7, 2**31, 2**40])
def test_positions_are_compared_with_any_number(run, kernel_of, op, number):
    i = loop_variable("i", 40)
    value = apply(op, IndexValue(Index.of(i), I64), Load("x", Index.of(0), I64))
    body = (Store("y", Index.of(i), apply("where", value, Const(1.0, F32), Const(0.0, F32))),)
    kernel = kernel_of((i,), [((), body)], ("x", I64, 1, "in"), ("y", F32, 40, "out"))
    x = torch.tensor([number])
    found = run(kernel, {"x": x, "y": torch.empty(40)})["y"]
    assert torch.equal(found, getattr(torch, op)(torch.arange(40), x).float())


@pytest.mark.parametrize("dtype", [F32, F64, BF16, I64, U8])
def test_every_second_element_is_read(run, kernel_of, dtype):
    i, n = loop_variable("i", 45), 89  # the last element read is the last there is
    x = torch.randint(0, 100, (n,)).to(dtype)
    body = (Store("y", Index.of(i), Load("x", Index.of(i) * 2, dtype)),)
    kernel = kernel_of((i,), [((), body)], ("x", dtype, n, "in"), ("y", dtype, 45, "out"))
    found = run(kernel, {"x": x, "y": torch.zeros(45, dtype=dtype)})["y"]
    assert torch.equal(found, x[::2])


def test_a_mask_keeps_every_second_load_inside(run, kernel_of):
    i = loop_variable("i", 48)
    inside = apply("ge", IndexValue(Index.of(i) * 2 - 1, I64), Const(0, I64))
    value = Masked(inside, Load("x", Index.of(i) * 2 - 1, F32), Const(-1.0, F32), F32)
    kernel = kernel_of((i,), [((), (Store("y", Index.of(i), value),))], ("x", F32, 94, "in"), ("y", F32, 48, "out"))
    x = torch.randn(94)
    found = run(kernel, {"x": x, "y": torch.zeros(48)})["y"]
    assert torch.equal(found, torch.cat([torch.tensor([-1.0]), x[1::2]]))


def test_a_mask_keeps_loads_inside(run, kernel_of):
    """Padding: the middle of 50 elements is read from 37."""
    i, at = axis("i", 50)
    inside = apply(
        "and", apply("ge", IndexValue(at, I64), Const(5, I64)), apply("lt", IndexValue(at, I64), Const(42, I64))
    )
    body = apply("exp", Load("x", at - 5, F32))
    kernel = kernel_of([i], [([], [Store("out", at, Masked(inside, body, Const(-1.0, F32), F32))])],
                       ("x", F32, 37, "in"), ("out", F32, 50, "out"))  # fmt: skip
    x = torch.randn(37)
    found = run(kernel, {"x": x, "out": torch.empty(50)})["out"]
    torch.testing.assert_close(found, torch.nn.functional.pad(x.exp(), (5, 8), value=-1.0))


def test_gathers_read_where_a_tensor_says(run, kernel_of):
    """Rows of a table by index, and single elements by index."""
    (i, row), (j, column) = axis("i", 9), axis("j", 21)
    at = Symbol("at")
    index = apply("where", apply("lt", Load("index", row, I64), Const(0, I64)),
                  apply("add", Load("index", row, I64), Const(30, I64)), Load("index", row, I64))  # fmt: skip
    rows = Load("table", Index.of(at) * 21 + column, F32, ((at, index),))
    pick = Symbol("pick")
    element = Load("table", Index.of(pick) * 21 + row, F32, ((pick, Load("picks", column, I64)),))
    kernel = kernel_of([i, j], [([], [Store("out", row * 21 + column, apply("add", rows, element))])],
                       ("table", F32, 630, "in"), ("index", I64, 9, "in"), ("picks", I64, 21, "in"),
                       ("out", F32, 189, "out"))  # fmt: skip
    table, chosen, picks = torch.randn(30, 21), torch.randint(-30, 30, (9,)), torch.randint(0, 30, (21,))
    found = run(kernel, {"table": table, "index": chosen, "picks": picks, "out": torch.empty(9, 21)})["out"]
    assert torch.equal(found, table[chosen] + table[picks][:, :9].t())


@pytest.mark.parametrize("dtype", [F32, I64, *HALVES])
def test_scattered_addition(run, kernel_of, dtype):
    (i, at), place = axis("i", 100), Symbol("place")
    value = Load("x", at, dtype)
    store = Store("out", Index.of(place), value, "add", ((place, Load("index", at, I64)),))
    kernel = kernel_of(
        [i], [([], [store])], ("x", dtype, 100, "in"), ("index", I64, 100, "in"), ("out", dtype, 7, "inout")
    )
    x, index = torch.randint(-3, 4, (100,)).to(dtype), torch.randint(0, 7, (100,))
    found = run(kernel, {"x": x, "index": index, "out": torch.ones(7, dtype=dtype)})["out"]
    assert torch.equal(found, torch.ones(7, dtype=dtype).index_add(0, index, x))


SCANS = {"sum": torch.cumsum, "prod": torch.cumprod, "max": lambda x, dim: x.cummax(dim)[0],
         "min": lambda x, dim: x.cummin(dim)[0]}  # fmt: skip


def scanned(run, kernel_of, kind, x, along):
    """``x`` scanned along its rows or its columns, through a kernel."""
    rows, columns = x.shape
    (i, i_at), (r, r_at) = axis("i", x.shape[1 - along]), axis("r", x.shape[along])
    at = i_at * columns + r_at if along else r_at * columns + i_at
    body = [Scan("v", kind, Load("x", at, x.dtype), x.dtype), Store("out", at, Result("v", x.dtype))]
    size = rows * columns
    kernel = kernel_of([i], [([r], body)], ("x", x.dtype, size, "in"), ("out", x.dtype, size, "out"))
    return run(kernel, {"x": x, "out": torch.empty_like(x)})["out"]


@pytest.mark.parametrize("kind", SCANS)
@pytest.mark.parametrize("dtype", [F32, F64, I64])
@pytest.mark.parametrize("along", [0, 1])
def test_scans(run, kernel_of, kind, dtype, along):
    x = torch.randn(19, 37).to(dtype) + (kind == "prod")
    torch.testing.assert_close(scanned(run, kernel_of, kind, x, along), SCANS[kind](x, dim=along), rtol=2e-5, atol=1e-5)


def test_a_scan_of_a_row_longer_than_a_block(run, kernel_of):
    x = torch.randint(-3, 4, (2, 9001))
    assert torch.equal(scanned(run, kernel_of, "sum", x, 1), x.cumsum(1))


MODES = ["max", "min"] if INTERPRETED or torch.cuda.is_available() else ["max", "min", "mul"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [F32, I64])
def test_scattered_combinations(run, kernel_of, dtype, mode):
    (i, at), place = axis("i", 100), Symbol("place")
    store = Store("out", Index.of(place), Load("x", at, dtype), mode, ((place, Load("index", at, I64)),))
    kernel = kernel_of(
        [i], [([], [store])], ("x", dtype, 100, "in"), ("index", I64, 100, "in"), ("out", dtype, 7, "inout")
    )
    x, index = torch.randint(-3, 4, (100,)).to(dtype), torch.randint(0, 7, (100,))
    found = run(kernel, {"x": x, "index": index, "out": torch.ones(7, dtype=dtype)})["out"]
    reduce = {"max": "amax", "min": "amin", "mul": "prod"}[mode]
    assert torch.equal(found, torch.ones(7, dtype=dtype).scatter_reduce(0, index, x, reduce))


@pytest.mark.skipif(INTERPRETED or torch.cuda.is_available(), reason="on GPUs any of several values may stay")
def test_the_last_of_several_values_stays(run, kernel_of):
    (i, i_at), (j, j_at), place = axis("i", 500), axis("j", 90), Symbol("place")
    at = i_at * 90 + j_at
    store = Store("out", Index.of(place), Load("x", at, F32), "set", ((place, Load("index", at, I64)),))
    kernel = kernel_of(
        [i, j], [([], [store])], ("x", F32, 45000, "in"), ("index", I64, 45000, "in"), ("out", F32, 7, "inout")
    )
    x, index = torch.randn(45000), torch.randint(0, 7, (45000,))
    found = run(kernel, {"x": x, "index": index, "out": torch.ones(7)})["out"]
    assert found.tolist() == [x[index == k][-1].item() for k in range(7)]


def test_a_masked_store_leaves_the_rest(run, kernel_of):
    i, at = axis("i", 37)
    x = Load("x", at, F32)
    kernel = kernel_of([i], [([], [Store("out", at, x, mask=apply("gt", x, Const(0.0, F32)))])],
                       ("x", F32, 37, "in"), ("out", F32, 37, "inout"))  # fmt: skip
    x = torch.randn(37)
    assert torch.equal(run(kernel, {"x": x, "out": torch.zeros(37)})["out"], x.relu())


# -- reductions -------------------------------------------------------------------------------------------------------

REDUCTIONS = {
    "sum": lambda x: x.sum(-1), "prod": lambda x: x.prod(-1), "max": lambda x: x.amax(-1), "min": lambda x: x.amin(-1),
    "argmax": lambda x: x.argmax(-1), "argmin": lambda x: x.argmin(-1),
}  # fmt: skip


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize("dtype", [F32, I64] if INTERPRETED else [F32, F64, I64])
@pytest.mark.parametrize("columns", LENGTHS)
@pytest.mark.parametrize("along", ["rows", "columns"])
def test_reductions(run, kernel_of, kind, dtype, columns, along):
    """Over the contiguous axis, and over the other one."""
    rows = 7 if INTERPRETED else 37
    x = (
        torch.randint(-4, 5, (rows, columns)).to(dtype)
        if kind != "prod"
        else torch.randint(1, 3, (rows, columns)).to(dtype)
    )
    (i, row), (r, column) = axis("i", rows), axis("r", columns)
    at = row * columns + column if along == "rows" else column * rows + row
    result = I64 if kind.startswith("arg") else dtype
    loops = [
        ([r], [Reduce("total", kind, Load("x", at, dtype), result)]),
        ([], [Store("out", row, Result("total", result))]),
    ]
    kernel = kernel_of([i], loops, ("x", dtype, rows * columns, "in"), ("out", result, rows, "out"))
    memory = x if along == "rows" else x.t().contiguous()
    assert torch.equal(run(kernel, {"x": memory, "out": torch.empty(rows, dtype=result)})["out"], REDUCTIONS[kind](x))


@pytest.mark.parametrize("kind", ["any", "all"])
def test_truth_reductions(run, kernel_of, kind):
    x = torch.rand(30, 50) > (0.98 if kind == "any" else 0.02)
    (i, row), (r, column) = axis("i", 30), axis("r", 50)
    loops = [
        ([r], [Reduce("t", kind, Load("x", row * 50 + column, BOOL), BOOL)]),
        ([], [Store("out", row, Result("t", BOOL))]),
    ]
    kernel = kernel_of([i], loops, ("x", BOOL, 1500, "in"), ("out", BOOL, 30, "out"))
    assert torch.equal(run(kernel, {"x": x, "out": torch.empty(30, dtype=BOOL)})["out"], getattr(x, kind)(-1))


@pytest.mark.parametrize("kind", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("columns", [5, 40] if INTERPRETED else [5, 150])
def test_nan_wins(run, kernel_of, kind, columns):
    x = torch.randn(20, columns)
    x[3, 2] = x[3, 4] = x[7, columns - 1] = x[9, 0] = float("nan")
    x[11] = -float("inf")
    x[12] = float("inf")
    (i, row), (r, column) = axis("i", 20), axis("r", columns)
    result = I64 if kind.startswith("arg") else F32
    loops = [
        ([r], [Reduce("t", kind, Load("x", row * columns + column, F32), result)]),
        ([], [Store("out", row, Result("t", result))]),
    ]
    kernel = kernel_of([i], loops, ("x", F32, 20 * columns, "in"), ("out", result, 20, "out"))
    found = run(kernel, {"x": x, "out": torch.empty(20, dtype=result)})["out"]
    torch.testing.assert_close(found, REDUCTIONS[kind](x), equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("columns", LENGTHS)
@pytest.mark.parametrize("along", ["rows", "columns"])
def test_welford_is_stable(run, kernel_of, columns, along):
    rows = 37
    x = torch.randn(rows, columns) + 1000
    (i, row), (r, column) = axis("i", rows), axis("r", columns)
    at = row * columns + column if along == "rows" else column * rows + row
    variance = apply("div", Result("w", F32, "m2"), Result("w", F32, "weight"))
    loops = [
        ([r], [Reduce("w", "welford", Load("x", at, F32), F32)]),
        ([], [Store("mean", row, Result("w", F32, "mean")), Store("var", row, variance)]),
    ]
    kernel = kernel_of(
        [i], loops, ("x", F32, rows * columns, "in"), ("mean", F32, rows, "out"), ("var", F32, rows, "out")
    )
    memory = x if along == "rows" else x.t().contiguous()
    found = run(kernel, {"x": memory, "mean": torch.empty(rows), "var": torch.empty(rows)})
    torch.testing.assert_close(found["mean"], x.double().mean(-1).float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(found["var"], x.double().var(-1, correction=0).float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("columns", [3, 64, 333])
def test_softmax_in_one_kernel(run, kernel_of, columns):
    (i, row), (r, column) = axis("i", 50), axis("r", columns)
    x = Load("x", row * columns + column, F32)
    shifted = apply("exp", apply("sub", x, Result("m", F32)))
    loops = [
        ([r], [Reduce("m", "max", x, F32)]),
        ([r], [Let("e", shifted), Reduce("s", "sum", Result("e", F32), F32)]),
        ([], [Let("scale", apply("reciprocal", Result("s", F32)))]),
        ([r], [Store("out", row * columns + column, apply("mul", shifted, Result("scale", F32)))]),
    ]
    kernel = kernel_of([i], loops, ("x", F32, 50 * columns, "in"), ("out", F32, 50 * columns, "out"))
    x = torch.randn(50, columns)
    torch.testing.assert_close(run(kernel, {"x": x, "out": torch.empty(50, columns)})["out"], x.softmax(-1))


def test_reduction_over_two_axes(run, kernel_of):
    """Channels of a batch of images."""
    (c, channel), (n, image), (p, pixel) = axis("c", 5), axis("n", 4), axis("p", 99)
    x = Load("x", image * 495 + channel * 99 + pixel, F32)
    loops = [([n, p], [Reduce("s", "sum", x, F32), Reduce("a", "argmax", x, I64)]),
             ([], [Store("sum", channel, Result("s", F32)), Store("at", channel, Result("a", I64))])]  # fmt: skip
    kernel = kernel_of([c], loops, ("x", F32, 1980, "in"), ("sum", F32, 5, "out"), ("at", I64, 5, "out"))
    x = torch.randn(4, 5, 99)
    found = run(kernel, {"x": x, "sum": torch.empty(5), "at": torch.empty(5, dtype=I64)})
    torch.testing.assert_close(found["sum"], x.sum((0, 2)), rtol=1e-5, atol=1e-5)
    assert torch.equal(found["at"], x.permute(1, 0, 2).reshape(5, -1).argmax(1))


@pytest.mark.parametrize("n", [100, 9000] if INTERPRETED else [100, 70000, 1000003])
def test_full_reductions_share_the_work(run, kernel_of, n):
    r, at = axis("r", n)
    x = Load("x", at, F32)
    loops = [([r], [Reduce("s", "sum", x, F32), Reduce("m", "argmax", x, I64), Reduce("w", "welford", x, F32)]),
             ([], [Store("sum", Index.of(0), Result("s", F32)), Store("at", Index.of(0), Result("m", I64)),
                   Store("m2", Index.of(0), Result("w", F32, "m2"))])]  # fmt: skip
    kernel = kernel_of(
        [], loops, ("x", F32, n, "in"), ("sum", F32, 1, "out"), ("at", I64, 1, "out"), ("m2", F32, 1, "out")
    )
    x = torch.rand(n)
    found = run(kernel, {"x": x, "sum": torch.empty(1), "at": torch.empty(1, dtype=I64), "m2": torch.empty(1)})
    torch.testing.assert_close(found["sum"], x.double().sum().float().reshape(1), rtol=2e-6, atol=0)
    torch.testing.assert_close(found["m2"], x.double().var(correction=0).float().reshape(1) * n, rtol=1e-5, atol=0)
    assert found["at"].item() == x.argmax().item()


# -- operands laid out differently ------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("sizes", [(3, 17, 40), (20, 33, 18)])
def test_operands_of_any_layout(run, kernel_of, order, sizes):
    axes = [axis(f"i{dim}", size) for dim, size in enumerate(sizes)]
    x, y = torch.randn(sizes), torch.randn([sizes[dim] for dim in order])
    y = y.permute([order.index(dim) for dim in range(3)])
    places = [sum((at * step for (_, at), step in zip(axes, t.stride(), strict=True)), Index.of(0)) for t in (x, y)]
    value = apply("sub", Load("x", places[0], F32), Load("y", places[1], F32))
    arguments = [(name, F32, x.numel(), role) for name, role in (("x", "in"), ("y", "in"), ("out", "out"))]
    kernel = kernel_of([symbol for symbol, _ in axes], [([], [Store("out", places[0], value)])], *arguments)
    memory = y.permute(order).contiguous()
    assert torch.equal(run(kernel, {"x": x, "y": memory, "out": torch.empty(sizes)})["out"], x - y)


def test_three_layouts_at_once(run, kernel_of):
    (i, a), (j, b), (k, c) = axis("i", 18), axis("j", 20), axis("k", 33)
    n = 18 * 20 * 33
    x, y, z = torch.randn(18, 20, 33), torch.randn(18, 33, 20), torch.randn(20, 33, 18)
    loads = [Load("x", a * 660 + b * 33 + c, F32), Load("y", a * 660 + c * 20 + b, F32),
             Load("z", b * 594 + c * 18 + a, F32)]  # fmt: skip
    value = apply("sub", apply("mul", loads[0], loads[1]), loads[2])
    kernel = kernel_of([i, j, k], [([], [Store("out", a * 660 + b * 33 + c, value)])],
                       *((name, F32, n, "in") for name in "xyz"), ("out", F32, n, "out"))  # fmt: skip
    found = run(kernel, {"x": x, "y": y, "z": z, "out": torch.empty(18, 20, 33)})["out"]
    assert torch.equal(found, x * y.transpose(1, 2) - z.permute(2, 0, 1))


def test_reduction_of_operands_of_two_layouts(run, kernel_of):
    (i, a), (j, b), (k, c) = axis("i", 20), axis("j", 18), axis("k", 30)
    total = apply("add", Load("x", c * 360 + a * 18 + b, F32), Load("y", c * 360 + b * 20 + a, F32))
    loops = [([k], [Reduce("t", "sum", total, F32)]), ([], [Store("out", a * 18 + b, Result("t", F32))])]
    kernel = kernel_of([i, j], loops, ("x", F32, 10800, "in"), ("y", F32, 10800, "in"), ("out", F32, 360, "out"))
    x, y = torch.randn(30, 20, 18), torch.randn(30, 18, 20)
    found = run(kernel, {"x": x, "y": y, "out": torch.empty(20, 18)})["out"]
    torch.testing.assert_close(found, (x + y.transpose(1, 2)).sum(0), rtol=1e-5, atol=1e-5)


def test_one_element_of_another_tensor(run, kernel_of):
    (i, row), (r, column) = axis("i", 30), axis("r", 50)
    value = apply("mul", Load("x", row * 50 + column, F32), Load("w", Index.of(0), F32))
    loops = [([r], [Reduce("t", "sum", value, F32)]), ([], [Store("out", row, Result("t", F32))])]
    kernel = kernel_of([i], loops, ("x", F32, 1500, "in"), ("w", F32, 1, "in"), ("out", F32, 30, "out"))
    x, w = torch.randn(30, 50), torch.randn(1)
    found = run(kernel, {"x": x, "w": w, "out": torch.empty(30)})["out"]
    torch.testing.assert_close(found, (x * w).sum(-1), rtol=1e-5, atol=1e-5)


# -- sizes and threads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 17, 1000])
def test_sizes_known_only_at_run_time(run, kernel_of, n):
    s = size_symbol("s0")
    (i, row), (r, column) = axis("i", Index.of(s)), axis("r", Index.of(s))
    x = Load("x", row * Index.of(s) + column, F32)
    loops = [
        ([r], [Reduce("t", "sum", x, F32)]),
        ([r], [Store("out", row * Index.of(s) + column, apply("sub", x, Result("t", F32)))]),
    ]
    kernel = kernel_of(
        [i],
        loops,
        ("x", F32, Index.of(s) * Index.of(s), "in"),
        ("out", F32, Index.of(s) * Index.of(s), "out"),
        sizes=[s],
    )
    x = torch.randn(n, n)
    found = run(kernel, {"x": x, "out": torch.empty(n, n)}, [n])["out"]
    torch.testing.assert_close(found, x - x.sum(-1, keepdim=True), rtol=1e-4, atol=1e-4)


def test_columns_of_run_time_size(run, kernel_of):
    s = size_symbol("s0")
    i, at = axis("i", Index.of(s) * 3)
    kernel = kernel_of([i], [([], [Store("out", at, apply("neg", Load("x", at, F32)))])],
                       ("x", F32, Index.of(s) * 3, "in"), ("out", F32, Index.of(s) * 3, "out"), sizes=[s])  # fmt: skip
    x = torch.randn(51)
    assert torch.equal(run(kernel, {"x": x, "out": torch.empty(51)}, [17])["out"], -x)


def test_nothing_to_do(run, kernel_of):
    i, at = axis("i", 0)
    kernel = kernel_of([i], [([], [Store("out", at, Const(1.0, F32))])], ("out", F32, 0, "out"))
    run(kernel, {"out": torch.empty(0)})
