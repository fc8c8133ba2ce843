"""Kernels without a library call between them are run by one call, in waves."""

import torch
from compiled import program_of
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor.codegen.units import print_units
from inductor.ir.program import Run
from inductor.schedule.layouts import lay_out


def runs_of(function, *inputs):
    """Per run and wave, how many kernels there are."""
    items = lay_out(program_of(function, *inputs), 64).items
    return [[len(wave) for wave in item.waves] for item in items if isinstance(item, Run)]


def several(*tensors):
    return torch._foreach_add(torch._foreach_mul(tensors, 2.0), 1.0)


def test_independent_kernels_are_one_wave():
    assert runs_of(several, torch.randn(3), torch.randn(5), torch.randn(7)) == [[3]]


def test_what_reads_a_result_comes_in_a_later_wave():
    def function(x, y):
        total = x.sum()
        return total, y / total

    assert runs_of(function, torch.randn(40_000), torch.randn(70_000)) == [[1, 1]]


def test_a_library_call_ends_a_run():
    assert runs_of(lambda x, w: torch.mm(x * 2, w) + 1, torch.randn(4, 4), torch.randn(4, 4)) == [[1], [1]]


def test_one_call_runs_all():
    inputs = [torch.randn(size) for size in (1, 100, 70_000, 400_000, 3, 90_000)]
    compiled = inductor.compile(make_fx(several)(*inputs), inputs)
    assert len(compiled.kernels) == len(inputs)
    assert compiled.source.count("data_ptr()") == 2 * len(inputs)
    assert compiled.source.count("_and_5_more(") == 1
    for _ in range(20):
        torch.testing.assert_close(list(compiled(*inputs)), list(several(*inputs)))


def test_an_optimizer_over_many_parameters_is_one_call():
    def step(*tensors):
        parameters, grads, moments, squares = (tensors[k::4] for k in range(4))
        torch._foreach_lerp_(moments, grads, 0.1)
        torch._foreach_mul_(squares, 0.99)
        torch._foreach_addcmul_(squares, grads, grads, 0.01)
        denominators = torch._foreach_add(torch._foreach_sqrt(squares), 1e-8)
        torch._foreach_addcdiv_(parameters, moments, denominators, -0.1)
        return []

    tensors = [torch.rand(3 + number // 4) for number in range(4 * 50)]
    assert runs_of(step, *tensors) == [[50]]


def test_a_team_does_large_kernels_together_and_small_ones_in_turns():
    def step(*tensors):
        first = torch._foreach_exp(tensors)
        sums = [value.sum() for value in first]
        return [value.sin() / total for value, total in zip(first, sums, strict=True)]

    inputs = [torch.randn(size) for size in (5, 300_000, 1000, 50_000)]
    compiled = inductor.compile(make_fx(step)(*inputs), inputs)
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            torch.testing.assert_close(list(compiled(*inputs)), step(*inputs))
    finally:
        torch.set_num_threads(threads)


def test_a_label_shows_each_kernel():
    inputs = [torch.randn(3), torch.randn(5)]
    compiled = inductor.compile(make_fx(several)(*inputs), inputs, options={"labels": True})
    with torch.profiler.profile(acc_events=True) as profile:  # torch 2.11 warns where events are not kept
        compiled(*inputs)
    seen = {event.name for event in profile.events()}
    assert {kernel.name for kernel in compiled.kernels} <= seen


def test_hundreds_of_elementary_functions_are_compiled_once_each():
    """Each takes a page of instructions: wherever they are mentioned, a thousand of them take the compiler a minute."""

    def function(x):
        for number in range(70):
            x = (x * 1.01).sin() + (x.abs() + number).log()
        return x

    (x,) = inputs = [torch.randn(500)]
    compiled = inductor.compile(make_fx(function)(x), inputs, options={"fallback": False})
    torch.testing.assert_close(compiled(x)[0], function(x))
    called, inline = (
        print_units(lay_out(program_of(chain, x), 64), 1).units[0].source for chain in (function, torch.sin)
    )
    assert "INDUCTOR_MANY_CALLS" in called
    assert "INDUCTOR_MANY_CALLS" not in inline
