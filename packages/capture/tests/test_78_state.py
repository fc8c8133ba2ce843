"""What a process has one of is in one object: a test may replace it, and a thread and a child begin afresh."""

import gc
import os
import threading
import weakref

import pytest
import torch

import capture
from capture import state


def fresh():
    """A new state, with the operators that torch has anyway."""
    return state.State(operators=state.PROCESS.operators)


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch):
    monkeypatch.setattr(state, "PROCESS", fresh())


def seconds(x):
    return x + 2


def breaks(x, log):
    def f(x):
        return seconds(x * 2)

    region = capture.optimize("eager", log=log)(f)
    region(x)
    return [record for record in log.records() if isinstance(record, capture.BreakRecord)]


def test_a_mark_on_a_function_holds_for_the_state_in_which_it_was_made(monkeypatch):
    x = torch.ones(2)
    capture.disallow_in_graph(seconds)
    assert len(breaks(x, capture.Log())) == 1
    monkeypatch.setattr(state, "PROCESS", fresh())
    assert breaks(x, capture.Log()) == []


def test_a_stance_is_of_the_state():
    assert capture.set_stance("eager_on_recompile") == "default"
    assert state.State().stance == "default"
    capture.set_stance("default")


def test_settings_are_of_the_state(monkeypatch):
    capture.heed(lambda: capture.ProgramSettings(disabled=True))
    log = capture.Log()
    capture.optimize("eager", log=log)(seconds)(torch.ones(2))
    assert log.records() == ()
    monkeypatch.setattr(state, "PROCESS", fresh())
    capture.optimize("eager", log=log)(seconds)(torch.ones(2))
    assert len(log.records()) == 1


def test_reset_reaches_the_uses_of_optimize_that_are_alive():
    region = capture.optimize("eager")(seconds)
    assert len(state.PROCESS.configurations) == 1
    del region
    assert len(state.PROCESS.configurations) == 0


def test_what_is_under_way_in_a_thread_is_not_in_another():
    seen = []
    with capture.error_on_graph_break(True):
        thread = threading.Thread(target=lambda: seen.append(state.PROCESS.of_thread.breaks_are_errors))
        thread.start()
        thread.join()
        assert state.PROCESS.of_thread.breaks_are_errors
    assert seen == [False]
    assert not state.PROCESS.of_thread.breaks_are_errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_collects_garbage_again_that_another_thread_had_paused():
    import gc

    paused, leave = threading.Event(), threading.Event()

    def hold():
        with state.PROCESS.collection_pause.held():
            paused.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    paused.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if gc.isenabled() else 1)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()


@pytest.mark.parametrize("breaks", [False, True])
def test_what_is_compiled_goes_with_who_asked_for_it(breaks):
    """A step over a model and its optimizer: the code that it shares with other closures keeps neither."""

    def compiled_step():
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters())

        @capture.optimize("eager")
        def step(x):
            model(x).sum().backward()
            if breaks:
                print(end="")
            optimizer.step()

        for _ in range(3):
            step(torch.ones(1, 2))
        return weakref.ref(model.weight)

    weights = [compiled_step() for _ in range(2)]
    gc.collect()
    assert [weight() for weight in weights] == [None, None]
