"""A first call that fills something is not compiled; reports and logs say so, and who looks into each graph gets it."""

import pytest
import torch
from torch import nn

import compile_api


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = None

    def forward(self, x):
        if self.table is None:
            self.table = torch.arange(4.0)
        return torch.sin(x) + self.table


SENTENCE = "run as recorded once: its own effects change what it relies on (`self.table` becomes a tensor)"


def called(times=3, **how):
    plain, model = Lazy(), Lazy()
    compiled = compile_api.compile(model, **how)
    for _ in range(times):
        torch.testing.assert_close(compiled(torch.ones(3, 4)), plain(torch.ones(3, 4)))
    return compile_api.report(compiled)


def test_kernels_are_made_of_the_steady_state_alone():
    report = called()
    assert (len(report.captured), len(report.compiled), report.recompiled) == (1, 1, ())
    assert [each.reason.explanation for each in report.run_once] == [SENTENCE]


def test_the_report_says_what_was_not_compiled():
    text = str(called(times=1))
    assert "not compiled (1)" in text
    assert SENTENCE in text


@pytest.mark.parametrize("backend", ["eager", "aot_eager", lambda gm, example_inputs: gm.forward])
def test_backends_that_take_no_time_get_every_graph(backend):
    report = called(backend=backend)
    assert (len(report.captured), report.run_once) == (2, ())


@pytest.mark.parametrize("options", [{"check": True}, {"trace": True}, {"debug": True}], ids=str)
def test_who_looks_into_each_graph_gets_every_graph(options, tmp_path):
    asked = {name: value if name == "check" else str(tmp_path) for name, value in options.items()}
    assert called(times=1, options=asked).run_once == ()


def test_a_function_says_that_it_wants_to_be_spared():
    def backend(gm, example_inputs):
        return gm.forward

    backend.spares_single_runs = True
    report = called(backend=backend)
    assert (len(report.captured), len(report.run_once)) == (1, 1)


def test_logs_tell_of_it(caplog):
    compile_api.set_logs("recompiles")
    try:
        with caplog.at_level("INFO"):
            called(times=2, backend="inductor")
    finally:
        compile_api.set_logs()
    assert SENTENCE in caplog.text


def test_a_training_step_is_compiled_once():
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters())

    @compile_api.compile
    def step(x):
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(torch.ones(3, 4)).item() for _ in range(4)]
    assert losses == sorted(losses, reverse=True)
    assert len(compile_api.report(step).captured) == 1
