"""Training steps with torch's optimizers in them become graphs, and move parameters and state as eager does."""

import sys

import pytest
import torch
from torch import optim
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import lr_scheduler

import capture

MANY = {"foreach": True}
ONE = {"foreach": False}
FUSED = {"fused": True}


def two_groups(parameters):
    first, *others = parameters
    return [{"params": [first]}, {"params": others, "lr": 0.03, "weight_decay": 0.1}]


class Training:
    """A small model, its optimizer, and perhaps a scheduler that steps between the calls."""

    def __init__(self, cls, settings, *, schedule=None, groups=list, clip=None, to_none=True, dtype=torch.float32):
        torch.manual_seed(0)
        layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3, bias=cls is not optim.Muon)
        self.model = torch.nn.Sequential(*layers).to(dtype)
        chosen = [p for p in self.model.parameters() if p.dim() == 2 or cls is not optim.Muon]
        self.optimizer = cls(groups(chosen), **{"lr": 0.01, **settings})
        self.schedule = schedule(self.optimizer) if schedule else None
        self.clip, self.to_none, self.dtype = clip, to_none, dtype

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=self.to_none)
        loss = torch.nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        if self.clip is not None:
            self.clip(self.model.parameters())
        self.optimizer.step()
        return loss

    def run(self, steps, wrap):
        step = wrap(self.step)
        for _ in range(steps):
            step(torch.randn(6, 4, dtype=self.dtype), torch.randint(3, (6,)))
            if self.schedule is not None:
                self.schedule.step()
        return self

    def state(self):
        kept = self.optimizer.state_dict()
        return list(self.model.parameters()), kept["state"], kept["param_groups"]


def check(cls, settings, *, steps=10, graphs=2, tolerance=1e-6, **how):
    log = capture.Log()
    found = Training(cls, settings, **how).run(steps, capture.optimize("eager", strict=True, log=log))
    expected = Training(cls, settings, **how).run(steps, lambda step: step)
    torch.testing.assert_close(found.state(), expected.state(), rtol=tolerance, atol=tolerance)
    kinds = [type(record) for record in log.records()]
    assert not {capture.BreakRecord, capture.FallbackRecord} & set(kinds), log.records()
    assert kinds.count(capture.GraphRecord) <= graphs
    return [record for record in log.records() if isinstance(record, capture.GraphRecord)]


EVERY = [
    (cls, {**settings, **how})
    for cls, variants in {
        optim.SGD: [{}, {"momentum": 0.9, "nesterov": True}, {"momentum": 0.9, "weight_decay": 0.1, "maximize": True}],
        optim.Adam: [{}, {"amsgrad": True}, {"weight_decay": 0.1}, {"maximize": True}],
        optim.AdamW: [{}, {"amsgrad": True, "weight_decay": 0.1, "maximize": True}],
        optim.NAdam: [{"weight_decay": 0.1}],
        optim.Adamax: [{"weight_decay": 0.1}],
        optim.RMSprop: [{}, {"momentum": 0.9, "centered": True}],
        optim.Adagrad: [{"lr_decay": 0.1}],
        optim.Adadelta: [{}],
        optim.Rprop: [{}],
    }.items()
    for settings in variants
    for how in (MANY, ONE)
]
EVERY += [(cls, FUSED) for cls in (optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad)]
EVERY += [
    (cls, {"lr": torch.tensor(0.1), **how}) for cls, how in ((optim.SGD, MANY), (optim.SGD, ONE), (optim.Adam, ONE))
]
EVERY += [(optim.Muon, {})]


@pytest.mark.parametrize(("cls", "settings"), EVERY, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_training_step_is_captured_whole(cls, settings):
    check(cls, settings)


@pytest.fixture
def capturable_anywhere(monkeypatch):
    """Torch's optimizers keep their steps on a device only where they know it as one that has graphs of its own."""
    for name in ("adam", "nadam", "radam", "adamax", "rmsprop", "adadelta", "rprop", "asgd"):
        module = sys.modules[f"torch.optim.{name}"]
        monkeypatch.setattr(module, "_get_capturable_supported_devices", lambda supports_xla=True: ["cpu"])


@pytest.mark.parametrize("how", [MANY, ONE], ids=str)
@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adadelta", "Rprop", "ASGD"])
@pytest.mark.usefixtures("capturable_anywhere")
def test_steps_that_stay_on_the_device(name, how):
    check(getattr(optim, name), {"capturable": True, **how})


@pytest.mark.usefixtures("capturable_anywhere")
@pytest.mark.parametrize("how", [MANY, ONE], ids=str)
def test_numbers_that_are_tensors(how):
    numbers = {"lr": torch.tensor(0.01), "betas": (torch.tensor(0.9), torch.tensor(0.99))}
    check(optim.AdamW, {"capturable": True, **numbers, **how})


def test_operations_on_lists_reach_the_backend_as_such():
    *_, graph = check(optim.AdamW, MANY)
    assert "_foreach_addcdiv_" in graph.operators
    assert "_foreach_lerp_" in graph.operators
    assert "addcdiv_" not in graph.operators


@pytest.mark.parametrize("how", [MANY, ONE], ids=str)
@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam])
def test_groups_and_gradients_that_are_zeroed(cls, to_none, how):
    check(cls, how, groups=two_groups, to_none=to_none)


@pytest.mark.parametrize("how", [MANY, ONE], ids=str)
@pytest.mark.parametrize("clip", [clip_grad_norm_, clip_grad_value_])
def test_gradients_are_clipped(clip, how):
    check(optim.AdamW, how, clip=lambda parameters: clip(parameters, 0.1, **how))


def cosine(optimizer):
    return lr_scheduler.CosineAnnealingLR(optimizer, 100)


def one_cycle(optimizer):
    return lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)


@pytest.mark.parametrize("how", [MANY, ONE, FUSED], ids=str)
@pytest.mark.parametrize("cls", [optim.SGD, optim.AdamW, optim.RMSprop])
def test_a_schedule_takes_one_more_graph(cls, how):
    check(cls, {} if how is FUSED and cls is optim.RMSprop else how, schedule=cosine, steps=15, graphs=3)


@pytest.mark.parametrize("how", [MANY, ONE], ids=str)
@pytest.mark.parametrize(("cls", "momentum"), [(optim.SGD, {"momentum": 0.9}), (optim.Adam, {})])
def test_a_schedule_of_rate_and_momentum(cls, momentum, how):
    check(cls, {**momentum, **how}, schedule=one_cycle, steps=15, graphs=3)


@pytest.mark.parametrize("how", [MANY, ONE], ids=str)
@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam, optim.AdamW])
def test_half_precision_is_rounded_once(cls, how):
    check(cls, how, dtype=torch.bfloat16, tolerance=4e-3)


@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam, optim.AdamW])
def test_a_schedule_in_half_precision(cls):
    check(cls, MANY, dtype=torch.bfloat16, schedule=cosine, steps=20, graphs=3, tolerance=4e-3)


@pytest.mark.filterwarnings("ignore:Detected call of:UserWarning")
def test_with_a_gradient_scaler_the_step_is_a_graph_of_its_own():
    """Whether to step depends on what the gradients are, so the graph ends there."""

    def train(wrap):
        training, scaler = Training(optim.Adam, MANY), torch.amp.GradScaler("cpu", init_scale=8.0)

        def step(x, y):
            training.optimizer.zero_grad()
            scaler.scale(torch.nn.functional.cross_entropy(training.model(x), y)).backward()
            scaler.step(training.optimizer)
            scaler.update()

        training.step = step
        return training.run(5, wrap)

    log = capture.Log()
    found, expected = train(capture.optimize("eager", strict=True, log=log)), train(lambda step: step)
    torch.testing.assert_close(found.state(), expected.state(), rtol=1e-6, atol=1e-6)
    assert any("_foreach_addcdiv_" in getattr(record, "operators", ()) for record in log.records())


def test_a_schedule_that_steps_inside_breaks_and_takes_no_graph_more():
    def train(wrap):
        training = Training(optim.AdamW, MANY)
        schedule, plain = cosine(training.optimizer), training.step

        def step(x, y):
            plain(x, y)
            schedule.step()

        training.step = step
        return training.run(10, wrap)

    log = capture.Log()
    found, expected = train(capture.optimize("eager", strict=True, log=log)), train(lambda step: step)
    torch.testing.assert_close(found.state(), expected.state(), rtol=1e-6, atol=1e-6)
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 2
    assert {r.reason.kind for r in log.records() if isinstance(r, capture.BreakRecord)} == {"schedule"}


@pytest.mark.without_graphs("there is no operation ahead of what eager refuses", cases=["1", "3", "4"])
@pytest.mark.parametrize(
    "program",
    [
        lambda w: torch.nn.utils.clip_grad_value_(w + 1, 1.0),
        lambda w: torch._foreach_abs([]),
        lambda w: torch._foreach_add([], [w.sum()]),
        lambda w: torch._foreach_mul([], 2.0),
        lambda w: torch.lerp([], [], -2),
    ],
    ids=range(5),
)
def test_an_empty_list_is_refused_as_in_eager(program):
    with pytest.raises((RuntimeError, TypeError)) as expected:
        program(torch.ones(2))
    with pytest.raises(expected.type) as actual:
        capture.optimize("eager")(program)(torch.ones(2))
    assert str(actual.value) == str(expected.value)


LISTS = {
    "add": lambda tensors: torch._foreach_add_(tensors, 1),
    "copy": lambda tensors: torch._foreach_copy_(tensors, [torch.zeros_like(each) for each in tensors]),
    "zero": torch._foreach_zero_,
    "sqrt": torch._foreach_sqrt_,
}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_with_a_parameter_in_it_is_seen_to_be_written(name, mode):
    """Where memory is shared in another way than before, it is another graph."""

    def program(parameter, x, y):
        with mode():
            LISTS[name]([parameter, x])
        return y * 2

    log = capture.Log()
    compiled = capture.optimize("eager", log=log)(program)
    parameter, x, y = torch.ones(2, requires_grad=True), torch.ones(3), torch.ones(3)
    compiled(parameter, x, y)
    compiled(parameter, y, y[:])
    assert sum(isinstance(record, capture.GraphRecord) for record in log.records()) == 2
