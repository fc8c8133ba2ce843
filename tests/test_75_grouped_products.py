"""Products by groups, of which a mixture of experts consists: torch's fakes refuse types that its kernel takes."""

import pytest
import torch

import compile_api

ENDS = [[2, 5, 5, 9], [0, 0, 4, 9], [9, 9, 9, 9]]
KINDS = {  # shapes, which of the two lie by columns, and whether there are groups
    "lines and matrices": ((9, 16), (4, 16, 24), (False, False), True),
    "lines and matrices by columns": ((9, 16), (4, 16, 24), (False, True), True),
    "lines and matrices, ragged": ((9, 16), (4, 16, 5), (False, True), True),
    "matrices and columns": ((4, 6, 16), (16, 9), (False, True), True),
    "matrices": ((4, 8, 16), (4, 16, 8), (False, False), False),
    "matrices, ragged": ((4, 3, 16), (4, 16, 5), (False, True), False),
    "columns and lines": ((16, 9), (9, 24), (True, False), True),
}


def leaves(kind, dtype):
    """Two leaves that want gradients, of which some have to be turned."""
    *shapes, turned, _ = KINDS[kind]
    shapes = [(*shape[:-2], shape[-1], shape[-2]) if t else shape for shape, t in zip(shapes, turned, strict=True)]
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def everything(function, given, ends, goes_back):
    """What somebody could see of a product, and of its gradients where eager has some for these operands."""
    x, y = (leaf.detach().clone().requires_grad_() for leaf in given)
    product, strides, sines = function(x, y, ends)
    if goes_back:
        (sines * torch.arange(sines.shape[-1]).cos()).sum().backward()
    tensors = [product, sines, x.grad, y.grad]
    return tensors, [strides, *(None if each is None else each.stride() for each in tensors)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_products_by_groups_are_whole_graphs(kind, dtype, backend):
    (x_turned, y_turned), grouped = KINDS[kind][2:]

    def program(x, y, ends):
        left, right = x.mT if x_turned else x, y.mT if y_turned else y
        product = torch.nn.functional.grouped_mm(left, right, offs=ends)
        return product, product.stride(), product.float().sin()

    compiled = compile_api.compile(program, backend=backend, fullgraph=True)
    for numbers in ENDS:
        ends = torch.tensor(numbers, dtype=torch.int32) if grouped else None
        given = leaves(kind, dtype)
        goes_back = can_go_back(program, given, ends)
        found, expected = (everything(f, given, ends, goes_back) for f in (compiled, program))
        assert found[1] == expected[1]
        for one, other in zip(found[0], expected[0], strict=True):
            torch.testing.assert_close(one, other, equal_nan=True)


def can_go_back(program, given, ends):
    try:
        everything(program, given, ends, True)
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_sizes_of_what_is_grouped_vary(backend):
    compiled = compile_api.compile(lambda x, y, e: torch.nn.functional.grouped_mm(x, y, offs=e) * 2, backend=backend)
    y = torch.randn(3, 8, 12)
    for lines in (7, 9, 12, 4):
        x, ends = torch.randn(lines, 8), torch.tensor([1, 3, lines], dtype=torch.int32)
        expected = torch.nn.functional.grouped_mm(x, y, offs=ends) * 2
        torch.testing.assert_close(compiled(x, y, ends), expected)


REFUSED = {
    "double precision": lambda x, y, e: (x.double(), y.double(), e),
    "lines that begin anywhere": lambda x, y, e: (x[:, :7].contiguous(), y[:, :7].contiguous(), e),
    "too few groups": lambda x, y, e: (x, y, e[:2]),
    "ends as long integers": lambda x, y, e: (x, y, e.long()),
    "no ends": lambda x, y, e: (x, y, None),
    "lines with holes": lambda x, y, e: (x.repeat(1, 2)[:, ::2], y, e),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("why", REFUSED)
def test_what_the_kernel_refuses_is_refused(why, backend):
    def multiplied(x, y, ends):
        return torch.nn.functional.grouped_mm(x, y, offs=ends) * 2

    x, y, ends = torch.randn(9, 8), torch.randn(3, 8, 12), torch.tensor([1, 3, 9], dtype=torch.int32)
    compiled = compile_api.compile(multiplied, backend=backend)
    torch.testing.assert_close(compiled(x, y, ends), multiplied(x, y, ends))
    with pytest.raises(RuntimeError) as expected:
        multiplied(*REFUSED[why](x, y, ends))
    with pytest.raises(RuntimeError) as found:
        compiled(*REFUSED[why](x, y, ends))
    assert str(found.value) == str(expected.value)
    torch.testing.assert_close(compiled(x, y, ends), multiplied(x, y, ends))
