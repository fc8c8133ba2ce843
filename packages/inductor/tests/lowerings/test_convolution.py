"""Convolutions: images with channels innermost between them, batch norms folded in, eager's results and strides."""

import pytest
import torch
import torch.nn.functional as F
from compiled import check, program_of
from torch.fx.experimental.proxy_tensor import make_fx

import inductor
from inductor.ir.program import Call, Launch


class Block(torch.nn.Module):
    """Two convolutions with norms beside a shortcut."""

    def __init__(self, channels):
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = torch.nn.Conv2d(channels, channels, 3, padding=1)
        self.norms = torch.nn.ModuleList([torch.nn.BatchNorm2d(channels), torch.nn.BatchNorm2d(channels)])
        for norm in self.norms:
            torch.nn.init.uniform_(norm.running_var, 0.5, 2)
            torch.nn.init.normal_(norm.running_mean)
            torch.nn.init.normal_(norm.weight)

    def forward(self, x):
        y = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(y)) + x).relu()


def network(size=16, channels=8):
    """A function of an image and of what a small network consists of, and all of that."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, channels, 3), Block(channels), Block(channels)).eval()
    state = {name: value.detach() for name, value in model.state_dict().items() if value.is_floating_point()}

    def function(x, *values):
        return torch.func.functional_call(model, dict(zip(state, values, strict=True)), (x,))

    return function, [torch.randn(2, 3, size, size), *state.values()]


def calls(function, *inputs):
    return [step for step in program_of(function, *inputs).steps if isinstance(step, Call)]


def total(function):
    return lambda *inputs: function(*inputs).sum()


@pytest.mark.parametrize("size", [3, 4, 9, 16])
def test_a_network_gives_eagers_results_and_strides(size):
    function, inputs = network(size)
    check(function, *inputs, rtol=1e-4, atol=1e-4)


def test_norms_and_sums_are_done_by_the_convolutions():
    function, inputs = network()
    names = [str(call.target) for call in calls(total(function), *inputs)]
    assert names[1:] == ["mkldnn._convolution_pointwise.default", "mkldnn._convolution_pointwise.binary"] * 2


def test_relus_behind_them_are_done_in_place():
    function, inputs = network()
    steps = program_of(total(function), *inputs).steps
    in_place = [step for step in steps if isinstance(step, Launch) and step.kernel.arguments[0].role == "inout"]
    assert len(in_place) == 3  # the last one goes into the sum


BEHIND = {
    name: getattr(F, name)
    for name in ("relu", "relu6", "leaky_relu", "hardtanh", "hardsigmoid", "hardswish", "sigmoid", "tanh", "silu")
}
BEHIND["clamp"] = lambda x: x.clamp(-1, 1)
BEHIND["maximum"] = lambda x: x.maximum(torch.zeros(()))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("name", BEHIND)
def test_nan_and_infinity_go_through_norms_and_what_stands_behind(name, residual):
    def function(x, weight, scale, mean, var):
        y = F.batch_norm(F.conv2d(x, weight, padding=1), mean, var, scale)
        return BEHIND[name](x + y if residual else y)

    x = torch.randn(2, 8, 16, 16).to(memory_format=torch.channels_last)
    x[0, 0, 3, 3], x[0, 1, 9, 9], x[1, 2, 3, 9], x[1, 3, 12] = torch.nan, torch.inf, -torch.inf, -0.0
    weight, scale = torch.randn(8, 8, 3, 3), torch.randn(8)
    weight[1, :, 1], scale[2], scale[3] = 0, 0, -0.0
    check(function, x, weight, scale, torch.randn(8), torch.rand(8) + 0.5, rtol=1e-3, atol=1e-3)


def test_images_between_convolutions_have_channels_innermost():
    function, inputs = network()
    assert all(call.outputs[0].strides[1] == 1 for call in calls(total(function), *inputs))


def test_small_images_lie_as_they_are():
    weight, x = torch.randn(8, 8, 3, 3), torch.randn(2, 8, 4, 4)
    (call,) = calls(lambda x, w: F.conv2d(x, w, padding=1).sum(), x, weight)
    assert call.outputs[0].strides[3] == 1


def test_what_backward_sees_lies_as_eager_has_it():
    def function(x, weight):
        y = F.conv2d(x, weight, padding=1)
        z = y.relu()
        return F.conv2d(z, weight, padding=1), y, z

    inputs = torch.randn(2, 8, 16, 16), torch.randn(8, 8, 3, 3)
    check(function, *inputs, rtol=1e-4, atol=1e-3)
    assert all(call.outputs[0].strides[3] == 1 for call in calls(function, *inputs))


def test_weights_may_change_between_calls():
    function, inputs = network()
    compiled = inductor.compile(make_fx(function)(*inputs), inputs)
    for value in inputs[1:]:
        value.data.mul_(1.5)  # not even autograd's version counter sees it
    torch.testing.assert_close(compiled(*inputs)[0], function(*inputs), rtol=1e-3, atol=1e-3)


def test_a_norm_is_not_folded_into_what_others_read():
    def function(x, weight, mean, var):
        y = F.conv2d(x, weight, padding=1)
        return F.batch_norm(y, mean, var).sum() + y.max()

    inputs = torch.randn(2, 8, 16, 16), torch.randn(8, 8, 3, 3), torch.randn(8), torch.rand(8) + 0.5
    check(function, *inputs, rtol=1e-4, atol=1e-2)
    assert [str(call.target) for call in calls(function, *inputs)] == ["aten.convolution.default"]


BETWEEN = {
    "transposed": lambda y: y.transpose(2, 3),
    "rows left off": lambda y: y[:, :, 1:],
    "another shape": lambda y: y.reshape(2, 8, 256, 1),
    "flipped": lambda y: y.flip(2),
    "as it is": lambda y: y.view(y.shape),
    "a copy": lambda y: y.clone(),
}


@pytest.mark.parametrize("others", [lambda y: y.relu(), lambda y: y.sum(), lambda y: y[:, :, :1]])
@pytest.mark.parametrize("name", BETWEEN)
def test_a_norm_of_what_shows_a_convolution_is_not_the_convolutions(name, others):
    def function(x, weight, mean, var, other_mean):
        y = F.conv2d(x, weight, padding=1)
        normed = F.batch_norm(BETWEEN[name](y), mean, var)
        return normed.relu().sum(-1), F.batch_norm(BETWEEN[name](y), other_mean, var).sum(-1), others(y)

    for count in (1, 2, 3):
        inputs = torch.randn(2, 8, 16, 16), torch.randn(8, 8, 3, 3), torch.randn(8), torch.rand(8) + 0.5, torch.randn(8)
        check(lambda *given, count=count: function(*given)[:count], *inputs, rtol=1e-3, atol=1e-3)


def test_equal_convolutions_have_the_readers_of_both():
    def function(x, weight, mean, var):
        y, again = F.conv2d(x, weight, padding=1), F.conv2d(x, weight, padding=1)
        return F.batch_norm(y, mean, var).relu(), again.sum()

    inputs = torch.randn(2, 8, 16, 16), torch.randn(8, 8, 3, 3), torch.randn(8), torch.rand(8) + 0.5
    check(function, *inputs, rtol=1e-3, atol=1e-2)


@torch.library.custom_op("convolutions_of_tests::double", mutates_args=("x",))
def double(x: torch.Tensor) -> None:
    x.mul_(2)


@pytest.mark.parametrize("written", range(4))
def test_operands_that_are_written_to_before_the_norm(written):
    def function(x, weight, bias, mean, var):
        y = F.conv2d(x, weight, bias, padding=1)
        double((x, weight, bias, mean)[written])
        return F.batch_norm(y, mean, var).relu()

    vectors = torch.randn(8), torch.randn(8), torch.rand(8) + 0.5
    check(function, torch.randn(2, 8, 16, 16), torch.randn(8, 8, 3, 3), *vectors, rtol=1e-3, atol=1e-3)


R = torch.randn


def normed(convolve, groups, training=False):
    """A convolution, batch norm and relu between two more convolutions, all of one weight."""

    def function(x, weight, bias, mean, var):
        layer = lambda x: convolve(x, weight, bias, padding=1, groups=groups)
        z = F.batch_norm(layer(layer(x)), mean, var, mean, var, training)
        return layer((z + x).relu()), z.sum()

    return function


KINDS = {
    "1d": (F.conv1d, F.conv_transpose1d, (2, 8, 40)),
    "2d": (F.conv2d, F.conv_transpose2d, (2, 8, 14, 15)),
    "3d": (F.conv3d, F.conv_transpose3d, (2, 8, 6, 7, 8)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("transposed", [False, True], ids=["straight", "transposed"])
@pytest.mark.parametrize("kind", KINDS)
def test_norms_behind_every_kind_of_convolution(kind, transposed, groups, dtype):
    *functions, sizes = KINDS[kind]
    x, weight = R(sizes, dtype=dtype), R(8, 8 // groups, *[3] * (len(sizes) - 2), dtype=dtype) / 8
    statistics = [value.double() if dtype == torch.float64 else value for value in (R(8), torch.rand(8) + 0.5)]
    tolerance = {"rtol": 3e-2, "atol": 0.5} if dtype == torch.bfloat16 else {"rtol": 1e-3, "atol": 1e-3}
    for bias in (None, R(8, dtype=dtype)):
        for training in (False, True):
            check(normed(functions[transposed], groups, training), x, weight, bias, *statistics, **tolerance)


def residual(x, other, weight, mean, var):
    y = F.batch_norm(F.conv2d(x, weight, padding=1), mean, var)
    return F.conv2d((other + y).relu().float(), weight).sum()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.bool], ids=str)
def test_only_a_sum_of_one_dtype_goes_along(dtype):
    x, weight = R(2, 8, 16, 16).to(memory_format=torch.channels_last), R(8, 8, 3, 3)
    inputs = x, (x * 3).to(dtype), weight, R(8), torch.rand(8) + 0.5
    check(residual, *inputs, rtol=1e-3, atol=0.1)
    along = "mkldnn._convolution_pointwise.binary" in [str(call.target) for call in calls(residual, *inputs)]
    assert along == (dtype == torch.float32)
