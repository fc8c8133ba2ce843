"""Writes through views: every view operator, every way of writing, tensors that own their memory and windows on a
larger one.  Afterwards the whole memory is eager's, and so are results, their layouts, and what shares memory.

VIEW_WRITES says how many programs are drawn (0 for all); the number tried is printed.
"""

import itertools
import os
import random

import pytest
import torch

import compile_api

BASES = {
    "whole": lambda memory: memory[:24].view(4, 6),
    "offset": lambda memory: memory[7:31].view(4, 6),
    "rows": lambda memory: memory.view(10, 6)[::2][:4],
    "columns": lambda memory: memory.view(5, 12)[:4, 3:9],
    "transposed": lambda memory: memory[2:26].view(6, 4).t(),
    "strided": lambda memory: memory[1:49].view(4, 12)[:, ::2],
}
"""A tensor of four rows and six columns, somewhere in a memory of sixty numbers."""

VIEWS = """
x
x[:]
x[1]
x[1:3]
x[::2]
x[:, 1:4]
x[:, ::3]
x[1, 2]
x[-1, -2:]
x[None]
x[..., 0]
x.t()
x.T
x.mT
x.transpose(0, 1)
x.permute(1, 0)
x.movedim(0, 1)
x.swapaxes(0, 1)
x.unsqueeze(1)
x[None].squeeze(0)
x[:1].squeeze()
x.select(1, 2)
x.narrow(1, 2, 3)
x.diagonal()
x.diagonal(1)
x.diagonal(-2)
x.unfold(1, 3, 3)
x.unfold(1, 2, 4)
x.unfold(0, 1, 3)
x.unfold(0, 2, 2)
x.unfold(1, 2, 1)
x.chunk(2)[1]
x.chunk(4, 1)[-1]
x.split(3, 1)[0]
x.split([1, 2, 1])[1]
x.tensor_split(3, 1)[2]
x.unbind(0)[3]
x.unbind(1)[0]
x.hsplit(2)[1]
x.vsplit(2)[0]
x.view(x.shape)
x.view_as(x)
x.unflatten(1, (2, 3))
x.unflatten(1, (2, 3))[:, 1]
x.unflatten(0, (2, 2)).transpose(1, 2)
x.expand(4, 6)
x[:1].expand(1, 6)
x.detach()
x.detach()[1:]
x.data
x.data[:, 1]
x.real
x.view(torch.int32)
x.alias() if hasattr(x, 'alias') else x
x.as_strided((2, 3), (6, 1))
x.as_strided((2, 2), (1, 2))
x.as_strided((3,), (2,), x.storage_offset() + 1)
x.as_strided((2, 2), (3, 1), 0)
x.as_strided((4,), (1,), 45)
x.as_strided((2, 4), (10, 1), 5)
x.as_strided((20,), (3,), 0)
x[1:].as_strided((3,), (4,))
x[1:].as_strided((2, 3), (8, 2), 1)
x.t()[1:3].as_strided((2, 2), (7, 1))
x.as_strided((4, 3), (0, 1))[0]
torch.as_strided(x, (2, 2), (5, 1))
x[1:][:2][:, 2:].t()
x[:, 1:].diagonal()
x[::2].unfold(1, 2, 2)[..., 1]
torch.view_as_complex(x.unflatten(1, (3, 2)))
torch.view_as_complex(x.unflatten(1, (3, 2))).real
torch.view_as_complex(x.unflatten(1, (3, 2))).imag
torch.view_as_real(torch.view_as_complex(x.unflatten(1, (3, 2))))[..., 0]
torch.atleast_3d(x)
torch.broadcast_to(x, (4, 6))
torch.flatten(x[1])
x[1].reshape(2, 3)
x.ravel()[:6] if x.is_contiguous() else x[1]
""".strip().splitlines()

WRITES = """
v.add_(10)
v.mul_(2)
v += 1
v.zero_()
v.fill_(7)
v.neg_()
v.copy_(torch.ones_like(v) * 5)
v.copy_(torch.full(v.shape[-1:], 3).to(v.dtype))
v[...] = 9
v[...] = v * 2
v.masked_fill_(torch.ones(v.shape, dtype=torch.bool), 4)
v.add_(v)
v.add_(v.clone(), alpha=2)
v.sub_(torch.ones(v.shape).to(v.dtype))
v.set_(v) if False else v.mul_(3)
v[v == v] = 6
torch.add(v, 1, out=v)
v.index_put_((torch.tensor(0),), torch.tensor(8).to(v.dtype)) if v.dim() else v.fill_(8)
v.index_fill_(0, torch.tensor([0]), 2) if v.dim() else v.fill_(2)
v.scatter_(0, torch.zeros((1,) * v.dim(), dtype=torch.int64), 5) if v.dim() else v.fill_(5)
v.index_add_(0, torch.tensor([0]), v[:1].clone()) if v.dim() else v.add_(1)
v.clamp_(max=3) if not v.is_complex() else v.add_(1)
v.addcmul_(v, v)
v.lerp_(v * 2, 0.5) if v.is_floating_point() else v.add_(1)
v.exponential_() if False else v.div_(2) if v.is_floating_point() else v.mul_(2)
v.abs_() if not v.is_complex() else v.neg_()
v.t_().add_(1) if v.dim() == 2 else v.add_(1)
v.squeeze_().add_(1)
v.unsqueeze_(0).add_(1)
v.add_(1); x.mul_(2); v.sub_(3)
x.add_(1); v.mul_(2)
y = v * 2; v.add_(y); x.sub_(1)
""".strip().splitlines()

BODY = """
def program({inputs}):
    {base}
    v = {view}
    {write}
    return {results}
"""
RESULTS = ("x", "v", "(x, v)", "x.sum()", "(v + 1, x)", "None", "v.storage_offset(), v.stride(), v.is_contiguous(), v")


def program(view, write, results, base):
    """``x`` is an argument, or is made within from the memory that is one."""
    given = {"inputs": "x", "base": "pass"} if base is None else {"inputs": "memory", "base": "x = base(memory)"}
    namespace = {"torch": torch, "base": BASES.get(base)}
    text = BODY.format(view=view, write=write, results=results, **given)
    exec(compile(text, "<program>", "exec"), namespace)
    return namespace["program"]


REFUSALS = (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError)


def outcome(function, base, inside):
    memory = torch.arange(60.0) - 20
    given = memory if inside else BASES[base](memory)
    try:
        results = function(given)
    except REFUSALS as error:
        return type(error), None
    tensors = [given, *(part for part in (results if isinstance(results, tuple) else (results,)))]
    seen = [
        (
            part.tolist() if part.dtype != torch.complex64 else torch.view_as_real(part).tolist(),
            part.dtype,
            layout(part),
            memory_of(part) == memory_of(memory),
        )
        if isinstance(part, torch.Tensor)
        else part
        for part in tensors
    ]
    return memory.tolist(), seen


def layout(tensor):
    return tensor.stride(), tensor.storage_offset()


def memory_of(tensor):
    return tensor.untyped_storage().data_ptr()


def difference(view, write, results, base, inside, backend):
    plain = program(view, write, results, base if inside else None)
    expected = outcome(plain, base, inside)
    if expected[1] is None:
        return None
    compile_api.reset()
    compiled = compile_api.compile(plain, backend=backend)
    found = outcome(compiled, base, inside)
    if not compile_api.report(compiled).captured:
        return f"v = {view}; {write}; return {results}, {base} has no graph"
    if repr(found) == repr(expected):
        return None
    return f"v = {view}; {write}; return {results}, {base} {'inside' if inside else ''}\n    {found}\n    {expected}"


def every():
    return itertools.product(VIEWS, WRITES, RESULTS, BASES, (False, True))


def drawn(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        yield tuple(map(draw.choice, (VIEWS, WRITES, RESULTS, list(BASES), (False, True))))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_memory_is_eagers_after_writes_through_views(backend, capsys):
    count = int(os.environ.get("VIEW_WRITES", "20" if backend == "inductor" else "60"))
    seed = int(os.environ.get("VIEW_SEED", random.randrange(10**6)))
    cases = list(drawn(count, seed) if count else every())
    wrong = [why for case in cases if (why := difference(*case, backend))]
    with capsys.disabled():
        print(f" {len(cases)} writes through views, seed {seed}, {len(wrong)} wrong", end="")
    assert not wrong, "\n".join(wrong)


SPREAD = {
    "to its size": lambda x: x.expand(3).fill_(1),
    "to a size that is left as it is": lambda x: x.expand(-1).mul_(0.5),
    "with dimensions": lambda x: x.expand(1, 1, 3)[0, 0, 1:].fill_(1),
    "as another": lambda x: x.expand_as(x + 1).zero_(),
    "broadcast": lambda x: torch.broadcast_to(x, (1, 3)).fill_(2),
    "beside others": lambda x: torch.broadcast_tensors(x, torch.ones(1))[0].sub_(1),
}
"""Writes through tensors that are spread over no larger size, which eager takes."""


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", SPREAD)
def test_what_is_spread_over_no_larger_size_is_written(name, backend):
    def write(x):
        SPREAD[name](x)
        return x + 0

    expected, given = (torch.tensor([1e9, float("inf"), 3e38]) for _ in range(2))
    write(expected)
    found = compile_api.compile(write, backend=backend, fullgraph=True)(given)
    assert torch.equal(given, expected)
    assert torch.equal(found, expected + 0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_what_torch_refuses_to_trace_is_run_by_operators(backend):
    """Its message begins as a remark of fx's does, which is no sign of another thread's exception."""

    def program(x):
        windows = x.unfold(1, 2, 1)
        windows.mul_(2)
        return x.sum()

    given = torch.arange(36.0).view(6, 6)
    compiled = compile_api.compile(program, backend=backend, fullgraph=True)
    assert compiled(given.clone()) == program(given.clone())


def unrecorded(x):
    before = x.sin()
    with torch.no_grad():
        x.mul_(3.0)
    return before


def unrecorded_and_caught(x):
    try:
        return unrecorded(x)
    except Exception:  # noqa: BLE001
        return x + 1


def unrecorded_in_turns(x):
    total = x * 0
    for _ in range(2):
        total = total + x.sin()
        torch.set_grad_enabled(False)
        x.mul_(2)
        torch.set_grad_enabled(True)
    return {"total": total}["total"]


WINDOWS = (lambda x: x[:, ::2], lambda x: x[1:3], lambda x: x.t(), lambda x: x.view(-1), lambda x: x * 1)


@pytest.mark.filterwarnings("ignore:graph_")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", [unrecorded, unrecorded_and_caught, unrecorded_in_turns])
def test_what_was_computed_before_a_write_that_nobody_records(program, backend):
    """Backward is an error of eager's, of which the first calls need not know."""
    compiled = compile_api.compile(program, backend=backend)
    for window in WINDOWS:
        given, own = (torch.linspace(0, 1, 24).view(4, 6).requires_grad_() * 1 for _ in range(2))
        torch.testing.assert_close(compiled(window(given)), program(window(own)))
        torch.testing.assert_close(given, own)
    assert len(compile_api.report(compiled).captured) == len(WINDOWS)


CHANGED = {
    "scaled": lambda x: (x.mul_(0.5), x.sin())[1],
    "in part": lambda x: (x[0].mul_(2), x.exp())[1],
    "used before": lambda x: (x * 2, x.mul_(3), x.sin())[::2],
}
APART = (lambda x: x[:, ::2], lambda x: x[:, 1], lambda x: x[1:3, 2:6])


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("change", CHANGED)
def test_gradients_where_an_argument_with_gaps_is_written(change, dynamic):
    """Backward computes again from a copy of what the argument was, which has no gaps."""
    compiled = compile_api.compile(CHANGED[change], dynamic=dynamic)
    for window in APART:
        found = []
        for program in (compiled, CHANGED[change]):
            leaf = torch.linspace(0, 1, 32).view(4, 8).requires_grad_()
            results = program(window(leaf * 1))
            sum(result.sum() for result in (results if isinstance(results, tuple) else [results])).backward()
            found.append(leaf.grad)
        torch.testing.assert_close(*found)
    report = compile_api.report(compiled)
    assert report.captured
    assert (report.refused, report.breaks) == ((), ())
