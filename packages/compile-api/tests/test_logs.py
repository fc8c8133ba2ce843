"""Logs print what enters the ledger, and only what was asked for."""

import logging

import pytest
import torch

import compile_api
from compile_api import logs


@pytest.fixture(autouse=True)
def quiet():
    yield
    compile_api.set_logs("")
    logging.getLogger("compile_api").handlers.clear()


def branching(x):
    x = x + 1
    if x.sum() > 0:
        return x * 2
    return x * 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("graphs", "captured for inductor"),
        ("guards", "x is a float32 tensor of shape (2)"),
        ("breaks", "graph break at"),
        ("recompiles", "expected that"),
        ("kernels", "from add"),
        ("schedule", "inference"),
        ("graph_code", "captured for inductor"),
        ("output_code", "from add"),
        ("+graph_breaks", "use torch.where"),
    ],
)
def test_each_log_prints_its_own(name, expected, caplog):
    with caplog.at_level(logging.NOTSET):
        compile_api.set_logs(name)
        f = compile_api.compile(branching)
        f(torch.ones(2))
        f(torch.ones(2, dtype=torch.float64))
    artifact = logs.SYNONYMS.get(name.lstrip("+"), name.lstrip("+"))
    assert {record.name for record in caplog.records} == {f"compile_api.{artifact}"}
    assert expected in caplog.text


def test_nothing_is_printed_unless_asked(caplog):
    with caplog.at_level(logging.NOTSET):
        compile_api.compile(branching)(torch.ones(2))
    assert not [record for record in caplog.records if record.name.startswith("compile_api")]


def test_a_misspelt_log_is_met_with_the_nearest():
    with pytest.raises(compile_api.BadOption, match="did you mean 'recompiles'"):
        compile_api.set_logs("recompile,graphs")


def test_all_means_all():
    compile_api.set_logs("all")
    assert logs.any_wanted()
    compile_api.set_logs()
    assert not logs.any_wanted()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: compile_api.set_logs("breaks", "recompiles"),
        lambda: compile_api.set_logs("breaks,recompiles"),
        lambda: compile_api.set_logs(["breaks", "recompiles"]),
        lambda: compile_api.set_logs(graph_breaks=True, recompiles=logging.DEBUG),
        lambda: compile_api.set_logs("breaks", recompiles=True),
        lambda: compile_api.set_logs("breaks,recompiles,graphs", graph_code=False),
        lambda: compile_api.set_logs("+graph_breaks,+recompiles,-aot"),
    ],
)
def test_every_way_to_ask(ask):
    ask()
    assert [name for name in logs.ARTIFACTS if logs._logger(name).level] == ["breaks", "recompiles"]


@pytest.mark.parametrize("ask", [lambda: compile_api.set_logs("brakes"), lambda: compile_api.set_logs(brakes=True)])
def test_an_unknown_name_is_met_with_those_that_exist(ask):
    with pytest.raises(compile_api.BadOption, match=r"did you mean 'breaks'\?\); logs are graphs, guards, breaks"):
        ask()
