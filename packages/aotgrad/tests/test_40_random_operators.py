"""Which operators draw random numbers: torch's tags, held against the schemas of all ATen operators.

What the generator says of torch's own samples is in test_06_operators.
"""

import pytest
import torch
import torch.nn.functional as F

from aotgrad.pre_autograd.mismatched_operands import _drawing_nothing
from aotgrad.random_operators import draws, may_draw

WITHOUT_A_TAG = {
    "_no_grad_normal_": "within torch.nn.init, whose Python calls `normal_`",
    "_no_grad_uniform_": "within torch.nn.init, whose Python calls `uniform_`",
    "initial_seed": "reads the seed of a generator",
    "manual_seed": "sets the seed of a generator",
    "seed": "sets the seed of a generator",
}
"""ATen operators that take a generator, and do not say that they draw."""


def test_every_aten_operator_that_takes_a_generator_says_that_it_draws():
    silent = set()
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        if space == "aten" and any("Generator" in str(argument.type) for argument in schema.arguments):
            operator = getattr(getattr(torch.ops.aten, name), schema.overload_name or "default")
            silent |= {name} if not draws(operator) else set()
    assert silent == set(WITHOUT_A_TAG)


FUNCTIONS = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "dropout1d": lambda x: F.dropout1d(x[0], 0.5),
    "dropout2d": lambda x: F.dropout2d(x, 0.5),
    "dropout3d": lambda x: F.dropout3d(x, 0.5),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.5, training=True),
    "rrelu": lambda x: F.rrelu(-x, training=True),
    "rrelu_": lambda x: F.rrelu_(-x, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x, 2, 2),
    "fractional_max_pool2d_with_indices": lambda x: F.fractional_max_pool2d_with_indices(x, 2, 2),
    "fractional_max_pool3d": lambda x: F.fractional_max_pool3d(x, 2, 2),
    "fractional_max_pool3d_with_indices": lambda x: F.fractional_max_pool3d_with_indices(x, 2, 2),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "multi_head_attention_forward": lambda x: attention(x[0]),
}
OF_ONE_KIND = {"_fractional_max_pool2d", "_fractional_max_pool3d"}
"""Halves of the functions above."""


def attention(x):
    weight, bias = torch.eye(4).repeat(3, 1), torch.zeros(12)
    return F.multi_head_attention_forward(x, x, x, 4, 1, weight, bias, None, None, False, 0.5, torch.eye(4), bias[:4])


def test_exactly_these_functions_of_torch_draw():
    offered = [getattr(F, name) for name in dir(F)]
    functions = {each.__name__ for each in offered if callable(each) and not isinstance(each, type) and may_draw(each)}
    assert functions == FUNCTIONS.keys() | OF_ONE_KIND


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_trial_leaves_the_generator_as_it_was(name):
    x = torch.ones(4, 4, 4, 4)
    before = torch.get_rng_state()
    with _drawing_nothing(getattr(F, name)):
        FUNCTIONS[name](x)
        assert not torch.equal(torch.get_rng_state(), before), "it draws"
    assert torch.equal(torch.get_rng_state(), before)


def test_a_trial_of_what_draws_nothing_leaves_the_draws_of_others():
    with _drawing_nothing(F.max_pool2d):
        torch.rand(1)
        after = torch.get_rng_state()
    assert torch.equal(torch.get_rng_state(), after)
