"""What an operator writes by `out=` lies there as it lay before: a later `flatten` is a view where eager's is one, and
what is written to it arrives.

Every operator of torch's samples that takes `out`, by each layout of it and by operands that are named; a run draws
some of them, and ``SWEEPS=all`` runs all.
"""

import os
import random

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import aotgrad

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the operators

UNDETERMINED = {"empty", "equal", "as_strided_copy"}  # nothing is written, or no tensor; memory nobody wrote is read
OPERATORS = {
    op.full_name: op
    for op in op_db
    # Sparse results have no strides to keep.
    if op.supports_out
    and op.name not in UNDETERMINED
    and not op.name.startswith("sparse")
    and op.dtypes & {torch.float32, torch.int64}
}


def turned(tensor):
    """Dense memory in the order of the last dimension first."""
    order = [*range(tensor.dim())][::-1]
    return torch.empty_strided(
        tensor.permute(order).shape, tensor.permute(order).contiguous().stride(), dtype=tensor.dtype
    ).permute(order)


LAYOUTS = {
    "contiguous": lambda t: torch.empty(t.shape, dtype=t.dtype),
    "turned": turned,
    "columns apart": lambda t: torch.empty((*t.shape, 2), dtype=t.dtype).select(-1, 0),
    "empty": lambda t: torch.empty(0, dtype=t.dtype),
}
OPERANDS = {
    "as they are": lambda t: t,
    "turned": lambda t: turned(t).copy_(t),
}


def names_of(op):
    """The names of the operands of an operator in Python; none where it has no schema."""
    packet = getattr(torch.ops.aten, op.aten_name.replace(".", "_"), None)
    overloads = [] if packet is None else [getattr(packet, name)._schema for name in packet.overloads()]
    schemas = [each for each in overloads if any(argument.is_out for argument in each.arguments)]
    return [["input" if a.name == "self" else a.name for a in each.arguments if not a.is_out] for each in schemas]


def ways(op, sample):
    """Operands by position, and by name."""
    given = [sample.input, *sample.args]
    yield "positions", given, sample.kwargs
    for names in names_of(op):
        if len(names) >= len(given):
            yield "names", [], {**dict(zip(names, given, strict=False)), **sample.kwargs}
            return


def steps(tensor):
    """The strides that matter: of dimensions in which there is a step to take."""
    return [tensor.stride(dim) for dim, size in enumerate(tensor.shape) if size > 1] if tensor.numel() else []


def called(op):
    """What a program calls; torch's samples wrap what draws in a seed of their own."""
    return getattr(torch, op.name) if op.name in ("randn", "normal", "bernoulli", "multinomial") else op


def written(op, layouts, to_arguments):
    """A program that has the operator write, and then writes to its results where their elements follow one another."""

    def program(args, kwargs, outs):
        given = outs if to_arguments else [layouts(each) for each in outs]
        for each in given:
            each.fill_(0)
        result = called(op)(*args, **kwargs, out=given[0] if len(given) == 1 else tuple(given))
        lie = [steps(each) for each in given]
        for each in given:
            each.flatten()[:2].fill_(1)
            each.permute([*range(each.dim())][::-1]).reshape(-1)[-2:].fill_(1)
        return given, lie, [each is one for each, one in zip(pytree.tree_leaves(result), given)], torch.rand(3)

    return program


def outcome(program, given):
    args, kwargs, outs = given
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: t.clone(), (args, kwargs))
    torch.manual_seed(0)
    outs = [torch.empty_strided(each.shape, each.stride(), dtype=each.dtype).fill_(1) for each in outs]
    with torch.no_grad():
        result = program(args, kwargs, outs)
    return result, outs, [steps(each) for each in outs]


def cases(op, number):
    """Programs that write by `out`, each with its arguments."""
    kind = torch.float32 if torch.float32 in op.dtypes else torch.int64
    samples = list(op.sample_inputs("cpu", kind))
    samples = [each for each in samples if not isinstance(each.input, torch.Tensor) or each.input.numel()]
    samples.sort(key=lambda s: -min(3, s.input.dim()) if isinstance(s.input, torch.Tensor) else 0)
    for sample in samples[:: max(1, len(samples) // number)][:number]:
        for lying, turn in OPERANDS.items():
            for way, args, kwargs in ways(op, sample):
                args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: turn(t.detach()), (args, kwargs))
                try:
                    results = called(op)(*args, **kwargs)
                except (TypeError, RuntimeError):
                    continue
                results = [results] if isinstance(results, torch.Tensor) else list(results)
                if not all(isinstance(each, torch.Tensor) and each.layout is torch.strided for each in results):
                    continue
                for layout, lay in LAYOUTS.items():
                    for to_arguments in (False, True):
                        if to_arguments and layout == "empty":
                            continue
                        outs = [lay(each) for each in results] if to_arguments else results
                        yield (lying, way, layout, to_arguments), written(op, lay, to_arguments), (args, kwargs, outs)


def differs(op, number=1):
    """The cases in which a compiled program differs from eager, and how many there were."""
    wrong, refused, count = [], 0, 0
    for case, program, given in cases(op, number):
        try:
            expected = outcome(program, given)
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
        try:
            again = outcome(program, given)
            torch.testing.assert_close(again, expected, equal_nan=True)
        except AssertionError:
            continue
        count += 1
        try:
            found = outcome(aotgrad.function(program, forward=aotgrad.run_eagerly), given)
        except aotgrad.Unsupported:
            refused += 1
            continue
        except Exception as error:  # noqa: BLE001 - whatever it is, eager does not raise it
            wrong.append((case, f"{type(error).__name__}: {error}"[:150]))
            continue
        try:
            torch.testing.assert_close(found, expected, equal_nan=True)
        except AssertionError as error:
            wrong.append((case, str(error)[:150].replace("\n", " ")))
    return wrong, refused, count


def test_what_is_written_to_out_lies_as_it_lay():
    chosen = list(OPERATORS) if os.environ.get("SWEEPS") == "all" else random.sample(list(OPERATORS), 10)
    compiled = 0
    for name in chosen:
        wrong, refused, count = differs(OPERATORS[name])
        assert not wrong, (name, wrong)
        compiled += count - refused
    assert compiled


DRAWS = {
    "rand": lambda u: torch.rand(5, 4, out=u),
    "rand of a size": lambda u: torch.rand(size=(5, 4), out=u),
    "randn": lambda u: torch.randn((5, 4), out=u),
    "randint": lambda u: torch.randint(9, (5, 4), out=u),
    "randint between": lambda u: torch.randint(low=-2, high=9, size=(5, 4), out=u),
    "normal": lambda u: torch.normal(2.0, 0.5, (5, 4), out=u),
    "bernoulli": lambda u: torch.bernoulli(torch.full((5, 4), 0.5), out=u),
    "bernoulli, turned": lambda u: torch.bernoulli(torch.arange(20.0).view(4, 5).t() / 20, out=u),
    "multinomial": lambda u: torch.multinomial(torch.ones(5, 9), 4, out=u),
}
PLACES = {
    "contiguous": lambda kind: torch.zeros(5, 4, dtype=kind),
    "turned": lambda kind: torch.zeros(4, 5, dtype=kind).t(),
    "rows apart": lambda kind: torch.zeros(10, 4, dtype=kind)[::2],
    "columns apart": lambda kind: torch.zeros(5, 8, dtype=kind)[:, ::2],
    "turned, apart": lambda kind: torch.zeros(4, 10, dtype=kind).t()[::2],
    "of another size": lambda kind: torch.zeros(0, dtype=kind),
}


@pytest.mark.parametrize("argument", [False, True])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("draw", DRAWS)
def test_the_same_numbers_are_drawn_wherever_out_lies(draw, place, argument):
    kind = torch.int64 if draw == "multinomial" else torch.float32

    def program(u):
        out = u if argument else PLACES[place](kind)
        DRAWS[draw](out)
        return out * 1, out.stride(), torch.rand(3)

    def outcome(function):
        u = PLACES[place](kind)
        torch.manual_seed(1)
        return function(u), u

    try:
        found = outcome(aotgrad.function(program, forward=aotgrad.run_eagerly))
    except aotgrad.Unsupported:
        assert "apart" in place or place == "of another size"
        return
    torch.testing.assert_close(found, outcome(program))
