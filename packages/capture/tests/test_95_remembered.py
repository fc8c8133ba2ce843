"""What operators gave before is told as torch's fakes tell it, over torch's own samples of all its operators."""

import importlib
import itertools

import pytest
import torch
from torch.utils import _pytree as pytree

import capture
from capture.recording.journal import Noting
from capture.recording.nests import tensors_in

op_db = pytest.importorskip(
    "torch.testing._internal.common_methods_invocations", reason="they need expecttest", exc_type=ImportError
).op_db
# For each sample these look for torch's own test that asks, by reading the sources of all callers: there is none.
for part in ("common_utils", "opinfo.core"):
    importlib.import_module(f"torch.testing._internal.{part}").extract_test_fn = lambda: None
OPERATORS = sorted({op.name: op for op in op_db if torch.float32 in op.dtypes}.items())
MODES = (torch.enable_grad, torch.no_grad, torch.inference_mode)


def told_of(tensor, operands):
    """All that somebody could ask of a fake, and in which operand's memory it lies."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
        return type(tensor), None if isinstance(tensor, torch.Tensor) else repr(tensor)
    memory = tensor.untyped_storage()
    return (
        *(tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset(), tensor.device, tensor.requires_grad),
        *(tensor.is_conj(), tensor.is_neg(), tensor.is_inference(), tensor.is_leaf, type(tensor.grad_fn)),
        *(memory.nbytes(), [memory._cdata == each.untyped_storage()._cdata for each in operands], tensor._is_view()),
        *(None if tensor.is_inference() else tensor._version, str(torch._C._dispatch_keys(tensor))),
        *(sorted(vars(tensor)), [type(held) for _, held in sorted(vars(tensor).items())]),
    )


def twin(tensor):
    """One that nothing has written to: a mode has one fake for each tensor."""
    if tensor.layout is not torch.strided:
        return tensor
    memory = tensor.untyped_storage().clone()
    return torch.empty(0, dtype=tensor.dtype).set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())


def run(mode, enter, op, sample):
    """What a call gives on fresh fakes, and what the mode's journal tells of it."""
    operands = (sample.input, sample.args, sample.kwargs)
    made = pytree.tree_map_only(torch.Tensor, lambda tensor: mode.from_tensor(twin(tensor)), operands)
    tensors = [tensor for tensor in pytree.tree_leaves(made) if isinstance(tensor, torch.Tensor)]
    operands = [tensor for tensor in tensors if tensor.layout is torch.strided]
    for operand in operands:
        operand.requires_grad_(operand.is_floating_point())
    journal = mode.journal
    before = *journal.counts(), journal.work, mode.draws
    first, args, kwargs = made
    try:
        with mode, enter():
            result = op(first, *args, **kwargs)
            told = [told_of(each, operands) for each in pytree.tree_leaves(result)]
    except Exception as error:  # noqa: BLE001 - torch raises anything for operands that do not fit
        return type(error), str(error)
    after = *journal.counts(), journal.work, mode.draws
    return told, [now > then for now, then in zip(after, before, strict=True)], journal.work - before[-2]


def test_zeros_without_memory_are_not_remembered():
    """Those of derivatives forward: what is made of them would be a tensor like others, in memory that is not there."""
    mode = Noting()
    with mode:
        zeros, plain = torch._efficientzerotensor((2, 3)), torch.empty(2, 3)
        assert [(each * plain)._is_zerotensor() for each in (plain, zeros, zeros)] == [False, True, True]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "op"), OPERATORS, ids=[name for name, _ in OPERATORS])
def test_operators_give_again_what_torch_says_that_they_give(name, op):
    samples = list(itertools.islice(op.sample_inputs("cpu", torch.float32), 4))
    for sample, enter in itertools.product(samples, MODES):
        forgetful, mode = Noting(allow_non_fake_inputs=True), Noting(allow_non_fake_inputs=True)
        forgetful.remembered = None
        forgetful.cache_enabled = mode.cache_enabled = False  # torch's own
        expected = run(forgetful, enter, op, sample)
        for _ in range(2):
            assert run(mode, enter, op, sample) == expected


def fakes(mode, *tensors):
    return [mode.from_tensor(tensor) for tensor in tensors]


def test_a_fake_kernel_runs_once_for_operands_that_look_the_same(monkeypatch):
    ran = []
    run_ = Noting._run
    monkeypatch.setattr(Noting, "_run", lambda mode, func, *rest: (ran.append(str(func)), run_(mode, func, *rest))[1])
    mode = Noting()
    x, y, of_integers, turned = fakes(
        mode, torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 3).int(), torch.ones(3, 2).t()
    )
    ran.clear()
    with mode:
        for each in (x, y, x, of_integers, turned):
            each + 1
        x + 1.0
        x + True
        for each in (x, y):
            each.add_(1)  # what writes runs each time
    assert ran == ["aten.add.Tensor"] * 5 + ["aten.add_.Tensor"] * 2


def test_new_results_have_memory_of_their_own_and_views_that_of_their_operand():
    mode = Noting()
    x, y = fakes(mode, torch.ones(2, 3), torch.ones(2, 3))
    with mode:
        sums = [x + y, x + y]
        views = [each.view(3, 2) for each in (x, y, x)]
    memory = [tensor.untyped_storage()._cdata for tensor in (*sums, *views, x, y)]
    assert len(set(memory)) == 4
    assert memory[2:5] == [memory[5], memory[6], memory[5]]


def test_the_default_type_counts():
    mode = Noting()
    (x,) = fakes(mode, torch.ones(2, 3).int())
    with mode:
        found = [x.sqrt().dtype]
        torch.set_default_dtype(torch.float64)
        try:
            found.append(x.sqrt().dtype)
        finally:
            torch.set_default_dtype(torch.float32)
    assert found == [torch.float32, torch.float64]


def test_asking_for_a_device_is_nothing_that_may_raise():
    """Torch's functions in C++ ask for it often; a result that nobody reads was kept for it."""
    graphs = []

    @capture.optimize(lambda gm, inputs: graphs.append(gm) or gm.forward)
    def f(x, w):
        return torch.nn.functional.linear(x, w)

    f(torch.ones(2, 3, 4), torch.ones(4, 4))
    assert [node.meta["may_raise"] for node in graphs[0].graph.nodes if node.op == "call_function"] == [False]


def test_tensors_are_found_in_nests():
    a, b, c = torch.ones(3)
    assert [id(each) for each in tensors_in(((a, [b, 1]), {"x": (c,)}))] == [id(a), id(b), id(c)]
    assert [id(each) for each in tensors_in({"x": a, "y": None})] == [id(a)]


def test_a_backend_that_computes_on_the_fakes_is_served_too(monkeypatch):
    ran = []
    run_ = Noting._run
    monkeypatch.setattr(Noting, "_run", lambda mode, func, *rest: (ran.append(str(func)), run_(mode, func, *rest))[1])

    def backend(gm, inputs):
        ran.clear()
        with inputs[0].fake_mode:
            gm(*inputs)
            inputs[0].tanh(), inputs[0].tanh()
        return gm.forward

    capture.optimize(backend)(lambda x: (x * 2).relu())(torch.ones(3))
    assert ran == ["aten.tanh.default"]
