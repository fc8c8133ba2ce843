"""How many elements a sparse tensor keeps, asked of those that a captured function makes: eager's answers."""

import pytest
import torch

import capture

DENSE = torch.tensor([[0, 1.0, 2, 0], [3, 0, 0, 0], [0, 0, 4, 0], [0, 0, 0, 0]])
WHERE = torch.tensor([[0, 1, 0], [2, 0, 2]])
MAKERS = """
x.to_sparse()
x.to_sparse(1)
x.to_sparse_csr()
x.to_sparse_csc()
x.to_sparse_bsr((2, 2))
x.to_sparse_bsc((2, 2))
made(x)
made(x).coalesce()
made(x) * 2
made(x).t()
made(x).detach()
made(x).add_(made(x))
torch.cat([made(x), made(x)])
torch.sparse.mm(x.to_sparse(), x.to_sparse())
x.sparse_mask(x.to_sparse())
""".strip().splitlines()
QUESTIONS = """
s
s._nnz()
s.is_coalesced()
s.coalesce() is s
s.coalesce()._nnz()
s.indices().t().tolist()
s.values().numel()
len(s.values())
sum(1 for _ in s.values())
s.values().mean()
torch.values_copy(s).shape
torch.ones(s._nnz())
s._indices().shape, s._values().shape
s.crow_indices().shape, s.col_indices().shape
s.ccol_indices().shape, s.row_indices().shape
s.sparse_dim(), s.dense_dim(), s.layout, s.shape
s.nbytes
s.to_dense() + 1
""".strip().splitlines()
REFUSALS = (RuntimeError, TypeError, NotImplementedError)


def made(x):
    return torch.sparse_coo_tensor(WHERE, x.sum(0)[:3], (4, 4))


def function_of(maker, question):
    namespace = {"torch": torch, "made": made}
    exec(f"def f(x):\n    s = {maker}\n    return {question}", namespace)
    return namespace["f"]


def answer(function):
    try:
        found = function(DENSE)
    except REFUSALS as error:
        return type(error)
    if not isinstance(found, torch.Tensor):
        return found
    counts = () if found.layout is torch.strided else (found.layout, found._nnz())
    return *counts, found.shape, found.to_dense().tolist()


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("maker", MAKERS)
def test_what_is_kept_is_eagers(maker):
    functions = [function_of(maker, question) for question in QUESTIONS]
    optimized = [capture.optimize(lambda gm, _: gm.forward)(function) for function in functions]
    expected = [answer(function) for function in functions]
    found = [answer(function) for function in optimized]
    wrong = [(text, *pair) for text, *pair in zip(QUESTIONS, found, expected, strict=True) if pair[0] != pair[1]]
    assert not wrong


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(
    ("question", "graphs"),
    [("s._nnz(), s._values() * 2", 1), ("s.to_dense() * 2", 1), ("s.mul_(2)._nnz()", 2)],
)
def test_what_is_known_stays_in_the_graph(question, graphs):
    """What was just made of indices and values keeps as many elements, until it is written to."""
    found = capture.explain(function_of("made(x)", question))(DENSE)
    assert (len(found.graphs) <= graphs, bool(found.breaks)) == (True, graphs == 2)
