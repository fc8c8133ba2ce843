"""Other threads, and children, find the default generator as the program left it while a program is traced."""

import os
import threading

import torch
from torch.utils.checkpoint import checkpoint

import aotgrad


def _meanwhile(act):
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()


def _traced(act):
    """Calls ``act`` while a checkpoint that draws is traced."""

    def region(x):
        y = torch.dropout(x, 0.5, True)
        act()
        return y * x

    def program(x):
        return checkpoint(region, x, use_reentrant=False)

    x = torch.ones(8, requires_grad=True)
    torch.manual_seed(7)
    result = aotgrad.function(program, forward=aotgrad.run_eagerly)(x)
    result.sum().backward()
    return result.detach(), x.grad


def test_another_thread_draws_its_own():
    drawn = []
    _traced(lambda: _meanwhile(lambda: drawn.append(torch.rand(3))))
    torch.manual_seed(7)
    expected = [torch.rand(3) for _ in drawn]
    assert len(drawn) > 0
    assert all(map(torch.equal, drawn, expected))


def test_another_thread_asks_and_seeds():
    seen = []

    def act():
        before = torch.get_rng_state()
        seen.append((torch.initial_seed(), torch.equal(before, torch.default_generator.get_state())))
        torch.manual_seed(11)
        torch.set_rng_state(before)

    _traced(lambda: _meanwhile(act))
    assert set(seen) == {(7, True)}


def test_what_the_checkpoint_draws_is_drawn_once():
    result, gradient = _traced(lambda: None)
    assert torch.equal(gradient, 2 * result)
    torch.manual_seed(7)
    assert torch.equal(result, torch.dropout(torch.ones(8), 0.5, True))


def test_a_child_of_another_thread_traces_and_draws():
    codes = []

    def child():
        pid = os.fork()
        if pid == 0:
            torch.set_num_threads(1)
            traces = aotgrad.function(lambda x: x * 2, forward=aotgrad.run_eagerly)(torch.ones(2)).tolist() == [2, 2]
            own = torch.random.default_generator is torch.default_generator
            os._exit(0 if traces and own and torch.initial_seed() == 7 else 1)
        codes.append(os.waitpid(pid, 0)[1])

    _traced(lambda: codes or _meanwhile(child))
    assert codes == [0]
