"""Small random programs of views, mutation and arithmetic: whatever they do, the caller sees what eager shows.

AOTGRAD_PROGRAMS says how many of each kind.
"""

import contextlib
import os

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import aotgrad

VIEWS = [
    lambda x: x[0],
    lambda x: x[..., 1:],
    lambda x: x.t() if x.dim() == 2 else x.unsqueeze(0),
    lambda x: x.unsqueeze(-1),
    lambda x: x.flatten() if x.is_contiguous() else x.detach(),
    lambda x: x.expand(2, *x.shape),
    lambda x: x.split(1)[0],
    lambda x: x.detach(),
    lambda x: x.squeeze(0),
    lambda x: x.transpose(-1, -2) if x.dim() > 1 else x.view_as(x),
    lambda x: x.chunk(2)[-1],
    lambda x: x.unbind()[-1],
    lambda x: x.narrow(0, 0, 1),
    lambda x: x.as_strided(x.shape, x.stride(), x.storage_offset()),
    lambda x: x.diagonal() if x.dim() > 1 else x,
    lambda x: x.movedim(0, -1),
    lambda x: x.reshape(-1),
]
MUTATIONS = [
    lambda x, y: x.add_(1),
    lambda x, y: x.mul_(y.sum()),
    lambda x, y: x.copy_(y.mean().detach()),
    lambda x, y: x.zero_(),
    lambda x, y: x[0].fill_(3),
    lambda x, y: x.clamp_(max=0.5),
    lambda x, y: x.t_() if x.dim() == 2 else x.add_(1),
    lambda x, y: x[..., 0].mul_(2),
    lambda x, y: x.index_fill_(0, torch.tensor([0]), 2.0),
    lambda x, y: x.masked_fill_(x > 0.3, 0.0),
    lambda x, y: x.__setitem__(0, y.sum()),
    lambda x, y: x.transpose_(0, -1),
    lambda x, y: x.unsqueeze_(0),
    lambda x, y: x.detach().add_(1),
]
FRESH = [
    lambda x, y: x * 2,
    lambda x, y: x + y.sum(),
    lambda x, y: x.clone(),
    lambda x, y: x.sin().sum(0),
    lambda x, y: x.clone().add_(y.sum()),
]

step = st.one_of(
    st.tuples(st.just("view"), st.integers(0, len(VIEWS) - 1), st.integers(0, 20), st.integers(0, 20)),
    st.tuples(st.just("mutate"), st.integers(0, len(MUTATIONS) - 1), st.integers(0, 20), st.integers(0, 20)),
    st.tuples(st.just("fresh"), st.integers(0, len(FRESH) - 1), st.integers(0, 20), st.integers(0, 20)),
)
programs = st.lists(step, min_size=1, max_size=7)
returned = st.lists(st.integers(0, 20), min_size=1, max_size=4)


def program_of(steps, outputs):
    """A function of two tensors that runs `steps` on a growing pool of values and returns some of them."""

    def program(a, b):
        pool = [a, b]
        for kind, rule, first, second in steps:
            x, y = pool[first % len(pool)], pool[second % len(pool)]
            if kind == "view" and x.dim() > 0:
                pool.append(VIEWS[rule](x))
            elif kind == "mutate" and x.dim() > 0:
                MUTATIONS[rule](x, y)
            elif kind == "fresh" and x.dim() > 0:
                pool.append(FRESH[rule](x, y))
        return [pool[index % len(pool)] for index in outputs]

    return program


def eager_accepts(program, make):
    """Eager itself refuses some of these programs: writing to expanded memory, or to what backward needs."""
    try:
        outputs = [o for o in program(*make()) if o.requires_grad]
        if outputs:
            torch.autograd.backward(outputs, [torch.ones_like(o) for o in outputs])
    except (RuntimeError, IndexError):
        return False
    return True


@pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors")  # eager's own, to whoever writes programs
@pytest.mark.parametrize("kind", ["plain", "differentiable", "both", "no grad"])
@given(steps=programs, outputs=returned)
@example(steps=[("view", 0, 1, 0), ("mutate", 0, 1, 0)], outputs=[2])  # a view whose history torch shows to nobody
@settings(
    max_examples=int(os.environ.get("AOTGRAD_PROGRAMS", "60")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_generated(same_as_eager, kind, steps, outputs):
    def make():
        a, b = torch.linspace(-1, 1, 6).view(2, 3), torch.linspace(0, 1, 6).view(3, 2)
        return a.requires_grad_(kind == "both"), b.requires_grad_(kind != "plain")

    program = program_of(steps, outputs)
    with torch.set_grad_enabled(kind != "no grad"):
        if not eager_accepts(program, make):
            return
        with contextlib.suppress(aotgrad.Unsupported):  # refused is right; only a different result is not
            same_as_eager(program, *make(), times=1)
