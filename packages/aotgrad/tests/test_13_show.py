"""Stages print as text that says what every value means."""

import torch

import aotgrad


def test_a_pair_prints_with_roles():
    pairs = []

    def partition(joint):
        pairs.append(aotgrad.default_partition(joint))
        return pairs[0]

    fn = aotgrad.function(lambda x, w: (x * w).exp(), forward=aotgrad.run_eagerly, partition=partition)
    fn(torch.ones(3), torch.ones(3, requires_grad=True))
    assert (
        aotgrad.show(pairs[0])
        == """\
# forward
in   primal_0: float32[3]  # Primal(position=0, requires_grad=False, mutated=False)
in   primal_1: float32[3]  # Primal(position=1, requires_grad=True, mutated=False)
     mul: float32[3] = mul.Tensor(primal_0, primal_1)
     exp: float32[3] = exp.default(mul)
out  exp  # Result(outputs=(0,), differentiable=True)
out  exp  # Saved(name='exp')
out  primal_0  # Saved(name='primal_0')

# backward
in   exp: float32[3]  # Saved(name='exp')
in   primal_0: float32[3]  # Saved(name='primal_0')
in   tangent_0: float32[3]  # Tangent(output=0)
     mul_1: float32[3] = mul.Tensor(tangent_0, exp)
     mul_2: float32[3] = mul.Tensor(mul_1, primal_0)
out  mul_2  # Gradient(input=1, tangents=(0,), passed=False)
"""
    )
