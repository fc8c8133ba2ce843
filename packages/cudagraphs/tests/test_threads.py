"""Calls from several threads, as autograd's own thread makes them."""

from concurrent.futures import ThreadPoolExecutor


def test_threads_take_turns(device, captured):
    functions = [captured(lambda x, k=k: x * k) for k in range(2, 6)]

    def work(function, k):
        held = [function(device.tensor([n])) for n in range(150)]
        return [tensor.tolist() for tensor in held] == [[n * k] for n in range(150)]

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, functions, range(2, 6)))


def test_a_plain_call_may_wait_for_another_thread_that_calls_too(device, captured):
    inner = captured(lambda x: x + 1)
    with ThreadPoolExecutor(1) as autograd:
        outer = captured(lambda x: autograd.submit(inner, x).result(timeout=60) * 2)
        for n in range(6):
            assert outer(device.tensor([n])).tolist() == [2 * n + 2]
