"""Values that are stored once: those that users would compute for each row of a batch, or in each of their passes."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import inductor
from inductor.ir.show import graph_text
from inductor.lower import lower

TABLE, PLACES = torch.randn(169, 3), torch.randint(0, 169, (49 * 49,))
ROWS = torch.randn(64, 1024)


def program(function, *inputs):
    compiled = inductor.compile(make_fx(function)(*inputs), list(inputs))
    (result,) = compiled(*inputs)
    torch.testing.assert_close(result, function(*inputs), rtol=1e-5, atol=1e-5)
    return compiled.program_text


def biases(table, places):
    return 16 * torch.sigmoid(table[places].view(49, 49, 3).permute(2, 0, 1))


@pytest.mark.parametrize("windows", [2, 8])
def test_a_table_of_biases_is_made_once_for_all_windows(windows):
    scores = torch.randn(windows, 3, 49, 49)
    text = program(lambda t, at, x: x + biases(t, at).unsqueeze(0), TABLE, PLACES, scores)
    made, used = text.split("\ndef ")[1:]
    assert ("sigmoid" in made, "sigmoid" in used) == (True, False)


@pytest.mark.parametrize("function", [
    lambda x, y: (x + 16 * torch.sigmoid(y)).softmax(-1),
    lambda x, y: (30 * torch.tanh(x / 30)).log_softmax(-1),
    lambda x, y: F.layer_norm(F.gelu(x) + y, (1024,)),
])  # fmt: skip
def test_what_costs_something_is_computed_in_one_pass(function):
    text = program(function, ROWS, ROWS + 1)
    assert sum(text.count(f"{name}(") for name in ("sigmoid", "tanh", "erf")) == 1


def test_picked_elements_are_picked_in_one_pass():
    places = torch.randint(0, 169, ROWS.shape)
    assert program(lambda x, t, at: (x + t[at]).softmax(-1), ROWS, TABLE[:, 0], places).count("p0(169") == 1


def test_what_is_costly_and_read_once_gets_no_memory():
    """Lowered alone, before fusion could take memory away again."""
    traced = make_fx(lambda x: torch.tanh(torch.erf(torch.sigmoid(x).exp())).sin() * 2)(ROWS)
    assert graph_text(lower(traced, [ROWS])).count("nest") == 1


@pytest.mark.parametrize("function", [
    lambda x, y: (x * 0.125 + y).softmax(-1),
    lambda x, y: F.layer_norm(x + y, (1024,)),
    lambda x, y: x * torch.sigmoid(y.sum(-1, keepdim=True)),
])  # fmt: skip
def test_what_is_cheap_or_the_same_along_a_row_gets_no_memory(function):
    """One kernel, and no memory but the result's and what a norm gives besides."""
    text = program(function, ROWS, ROWS + 1)
    assert (text.count("launch"), text.count("[64, 1024]")) == (1, 3)
