"""An error of evaluation may come of what other threads write meanwhile: then it is done once more."""

import threading
from contextlib import contextmanager

import pytest

import capture
from capture.entry import hook
from capture.errors import Reason


@contextmanager
def another_thread():
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@pytest.fixture
def failing(monkeypatch):
    """Lets the next so many attempts fail, as they do where a gradient is gone between two looks at it."""
    left, real = [0], hook.translate

    def translate(*args):
        if left[0] > 0:
            left[0] -= 1
            raise AttributeError("'NoneType' object has no attribute 'element_size'")
        return real(*args)

    monkeypatch.setattr(hook, "translate", translate)
    return left


def records_of_a_call(x, same):
    log = capture.Log()
    captured = capture.optimize("eager", log=log)(lambda x: x + 1)
    for _ in range(2):
        same(captured(x), x + 1)
    return [getattr(record, "reason", Reason("graph", "")).kind for record in log.records()]


def test_it_is_captured_once_more(failing, x, same):
    failing[0] = 3
    with another_thread():
        assert records_of_a_call(x, same) == ["graph"]


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_what_comes_again_is_a_mistake_of_ours(failing, x, same):
    failing[0] = 100
    with another_thread():
        assert records_of_a_call(x, same) == ["internal error"]


@pytest.mark.filterwarnings("ignore::capture.CaptureWarning")
def test_where_there_are_no_others_it_is_one_at_once(failing, x, same, monkeypatch):
    monkeypatch.setattr(hook._engine, "has_other_threads", lambda: False)  # the test's own process may well have some
    failing[0] = 1
    assert records_of_a_call(x, same) == ["internal error"]
