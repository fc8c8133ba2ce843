"""``torch.nn.Module`` of every habit."""

import pytest
import torch
from torch import nn

import capture


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        self.heads = nn.ModuleDict({"k": nn.Linear(3, 2)})
        self.scales = nn.ParameterList([nn.Parameter(torch.full((3,), 2.0))])
        self.register_buffer("offset", torch.ones(3))
        self.dropout = nn.Dropout(0.5)
        self.norm = nn.LayerNorm(3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        x = self.body(x)
        for layer in self.layers:
            x = layer(x) + self.offset
        for scale in self.scales:
            x = x * scale
        if self.training:
            x = self.dropout(x)
        return self.heads["k"](self.norm(x)), self.layers[-1](x)


def graphs_of(module, *args):
    log = capture.Log()
    result = capture.optimize("eager", strict=True, log=log)(module)(*args)
    return result, [record for record in log.records() if isinstance(record, capture.GraphRecord)]


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


def test_one_graph_with_parameters_as_inputs(net, x, same):
    result, graphs = graphs_of(net, x)
    same(net(x), result)
    assert len(graphs) == 1
    assert {"self_body_0_weight", "self_layers_1_bias", "self_offset", "self_scales_0"} <= set(graphs[0].inputs)


def test_writes_of_forward_happen_once(net, x):
    graphs_of(net, x)
    assert net.calls == 1


def test_training_is_guarded_and_random_numbers_are_eagers(net, x, same):
    region = capture.optimize("eager", strict=True)(net)
    region(x)
    net.train()
    torch.manual_seed(1)
    expected = net(x)
    torch.manual_seed(1)
    same(expected, region(x))


def test_attributes_and_state_are_the_modules(net):
    region = capture.optimize("eager")(net)
    assert list(region.state_dict()) == list(net.state_dict())
    assert region.body is net.body
    region.calls = 7
    assert net.calls == 7


def test_hooks_run(x, same):
    layer = nn.Linear(3, 3)
    layer.register_forward_hook(lambda module, args, output: output * 2)
    layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    net = nn.Sequential(layer)
    result, graphs = graphs_of(net, x)
    same(net(x), result)
    assert len(graphs) == 1


def test_a_hook_registered_later_is_seen(x, same):
    net = nn.Sequential(nn.Linear(3, 3))
    region = capture.optimize("eager", strict=True)(net)
    region(x)
    net[0].register_forward_hook(lambda module, args, output: output * 2)
    same(net(x), region(x))


def test_a_replaced_forward_or_layer_is_seen(net, x, same):
    region = capture.optimize("eager", strict=True)(net)
    region(x)
    net.layers[0].forward = lambda a: a * 3
    same(net(x), region(x))
    net.layers[1] = nn.Linear(3, 3, bias=False)
    same(net(x), region(x))


def test_shared_parameters_arrive_once(x, same):
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    result, graphs = graphs_of(net, x)
    same(net(x), result)
    assert len(graphs[0].inputs) == 4
    net[1].weight = nn.Parameter(torch.zeros(3, 3))
    same(net(x), graphs_of(net, x)[0])


def test_batch_norm_updates_its_buffers(same):
    torch.manual_seed(0)
    first, second = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    batch = torch.randn(5, 3)
    same(first(batch), graphs_of(second, batch)[0])
    same(dict(first.state_dict()), dict(second.state_dict()))


def test_gradients_flow(net, x, same):
    net(x)[0].sum().backward()
    expected = [p.grad.clone() for p in net.body.parameters()]
    net.zero_grad()
    capture.optimize("eager", strict=True)(net)(x)[0].sum().backward()
    same(expected, [p.grad for p in net.body.parameters()])


def test_two_layers_share_one_version(x):
    log = capture.Log()
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))

    @capture.disable
    def apart(module, a):
        return module(a)

    one = capture.optimize("eager", strict=True, log=log)(net[0])
    one(x)
    two = capture.optimize("eager", strict=True, log=log)(net[1])
    two(x)
    assert not [record for record in log.records() if isinstance(record, capture.RecompileRecord)]


@pytest.mark.parametrize(
    "net", [nn.LSTM(3, 4), nn.GRU(3, 4, bidirectional=True), nn.LSTM(3, 4, num_layers=2, batch_first=True)]
)
def test_recurrent_modules_are_captured_whole(net, same):
    batch = torch.randn(2, 5, 3)
    region = capture.optimize("eager", strict=True, nopython=True)(net)
    same(net(batch), region(batch))
    net.weight_hh_l0 = nn.Parameter(torch.zeros_like(net.weight_hh_l0))
    same(net(batch), region(batch))


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (
            nn.Sequential(
                nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
            ),
            (2, 3, 8, 8),
        ),
        (nn.TransformerEncoderLayer(4, 2, dropout=0.0), (2, 5, 4)),
        (nn.TransformerDecoderLayer(4, 2, dropout=0.0), None),
        (nn.EmbeddingBag(5, 3), "ints"),
    ],
)
def test_layers_of_torch_are_captured_whole(net, shape, same):
    torch.manual_seed(0)
    args = (
        (torch.randn(2, 5, 4),) * 2
        if shape is None
        else (torch.randint(0, 5, (2, 3)),)
        if shape == "ints"
        else (torch.randn(shape),)
    )
    same(net.eval()(*args), capture.optimize("eager", strict=True, nopython=True)(net)(*args))


def test_parameters_that_are_swapped_for_a_call_are_the_ones_used(x):
    layer = torch.nn.Linear(3, 2)

    def swapped(x):
        return torch.func.functional_call(layer, {"weight": torch.ones(2, 3)}, (x,)), layer(x)

    for expected, actual in zip(swapped(x), capture.optimize("eager", strict=True)(swapped)(x), strict=True):
        assert torch.equal(expected, actual)
