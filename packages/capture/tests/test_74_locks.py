"""Locks in captured code: one graph, held when and as long as the program says so or longer, never left behind."""

import threading
from types import SimpleNamespace

import pytest
import torch

import capture

LOCK, OTHER, REENTRANT = threading.Lock(), threading.Lock(), threading.RLock()
CONDITION, SEMAPHORE = threading.Condition(), threading.Semaphore(2)


def in_a_block(a):
    with LOCK:
        a = a * 2
    return a + 1


def by_hand(a):
    LOCK.acquire()
    try:
        a = a * 2
    finally:
        LOCK.release()
    return a + 1


def raised_and_caught(a):
    try:
        with LOCK:
            a = a + 1
            raise ValueError("under the lock")
    except ValueError as error:
        return a * 2, str(error)


def raised(a):
    with LOCK:
        if a.dim() == 2:
            raise ValueError("under the lock")
    return a


def nested(a):
    with LOCK, OTHER:
        a = a * 2
        with REENTRANT, REENTRANT:
            a = a + 1
    return a


def again(a):
    with LOCK:
        a = a * 2
    a = a + 1
    with LOCK:
        return a * 3


def condition(a):
    with CONDITION:
        a = a + 1
        CONDITION.notify_all()
    return a * 2


def semaphore(a):
    with SEMAPHORE:
        a = a + 1
    return a, SEMAPHORE._value


def made_here(a):
    lock, reentrant = threading.Lock(), threading.RLock()
    with lock, reentrant, reentrant:
        a = a + 1
    return a, lock.locked()


def in_a_generator(a):
    def steps():
        with LOCK:
            yield a + 1
            yield a + 2

    return sum(steps())


@pytest.fixture(autouse=True)
def nothing_is_left_held():
    yield
    assert not LOCK.locked()
    assert not OTHER.locked()
    assert not REENTRANT._is_owned()
    assert not CONDITION._is_owned()
    assert SEMAPHORE._value == 2


WHOLE = [in_a_block, by_hand, raised_and_caught, nested, again, condition, semaphore, made_here, in_a_generator]


@pytest.mark.parametrize("function", WHOLE)
def test_is_one_graph(check, x, function):
    check(function, x)


def test_an_exception_of_the_program_leaves_the_lock_released(check, x):
    check(raised, x, graphs=0)


def tried(a):
    taken = LOCK.acquire(blocking=False)
    if taken:
        LOCK.release()
    return a + 1, taken


def one_behind_the_other(a):
    with LOCK:
        a = a + 1
    with OTHER:
        return a * 2


def broken_under_it(a):
    with LOCK:
        a = a + 1
        capture.graph_break()
        held = LOCK.locked()
        a = a * 2
    return a - 1, held


def raised_after_a_break(a):
    with REENTRANT, REENTRANT:
        a = a + 1
        capture.graph_break()
        raise KeyError("b")


@pytest.mark.parametrize(
    ("function", "graphs", "breaks"),
    [(tried, 1, 1), (one_behind_the_other, 2, 1), (broken_under_it, 2, 2), (raised_after_a_break, 1, 2)],
)
def test_breaks_and_holds_it_all_the_same(check, x, function, graphs, breaks):
    check(function, x, graphs=graphs, breaks=breaks)


def test_waits_for_a_lock_that_is_held(x):
    captured, done = capture.optimize("eager", strict=True)(in_a_block), []
    captured(x)
    with LOCK:
        thread = threading.Thread(target=lambda: done.append(captured(x)))
        thread.start()
        thread.join(0.2)
        assert not done
    thread.join()
    assert torch.equal(done[0], x * 2 + 1)


def test_capturing_does_not_wait_for_a_lock(x):
    """Two threads: one holds the lock and captures, the other waits for the lock in captured code."""
    entered, inner = threading.Event(), capture.optimize("eager", strict=True)(lambda a: a + 1)

    @capture.optimize("eager", strict=True)
    def outer(a):
        with LOCK:
            return a * 2

    with LOCK:
        thread = threading.Thread(target=lambda: (entered.set(), outer(x)))
        thread.start()
        entered.wait()
        thread.join(0.2)
        assert torch.equal(inner(x), x + 1)
    thread.join()


def test_what_changed_while_it_waited_is_looked_at_again(x):
    class Shared:
        factor = 2

        def scale(self, a):
            with LOCK:
                self.factor = self.factor * 10
                return a * self.factor

    shared, done = Shared(), []
    shared.factor = 2
    scale = capture.optimize("eager", strict=True)(Shared.scale)
    scale(shared, x)
    shared.factor = 2
    with LOCK:
        thread = threading.Thread(target=lambda: done.append(scale(shared, x)))
        thread.start()
        thread.join(0.2)
        shared.factor = 3
    thread.join()
    assert torch.equal(done[0], x * 30)
    assert shared.factor == 30


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lock, self.calls, self.seen, self.total = threading.Lock(), 0, [], torch.zeros(())

    def forward(self, a):
        a = a.sin()
        with self.lock:
            self.calls += 1
            self.seen.append(self.calls)
        return a + 1


class Summing(Counting):
    def forward(self, a):
        with self.lock:
            self.calls += 1
            self.total = self.total + a.sum()
        return a + 1


@pytest.mark.parametrize("kind", [Counting, Summing])
def test_threads_are_kept_apart(x, kind):
    module = kind()
    captured, before = capture.optimize("eager", strict=True)(module), len(capture.records())
    for _ in range(4):
        captured(x)
    threads = [threading.Thread(target=lambda: [captured(x) for _ in range(100)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert module.calls == 404
    assert module.total == (404 * x.sum() if kind is Summing else 0)
    assert sorted(module.seen) == (list(range(1, 405)) if kind is Counting else [])
    seen = capture.records()[before:]
    assert not [record for record in seen if isinstance(record, (capture.BreakRecord, capture.FallbackRecord))]
    assert len([record for record in seen if isinstance(record, capture.RecompileRecord)]) <= 2


def test_a_count_alone_does_not_hold_the_lock_over_the_graph(x):
    module, inside = Counting(), []

    def backend(gm, inputs):
        def run(*args):
            inside.append(module.lock.locked())
            return gm(*args)

        return run

    captured = capture.optimize(backend, strict=True)(module)
    for _ in range(5):
        captured(x)
    assert inside == [False] * 5


def test_an_operation_under_the_lock_holds_it_over_the_graph(x):
    inside = []

    def backend(gm, inputs):
        return lambda *args: inside.append(LOCK.locked()) or gm(*args)

    capture.optimize(backend, strict=True)(in_a_block)(x)
    assert inside == [True]


@pytest.mark.parametrize("changes", [False, True])
def test_a_graph_that_raises_leaves_the_lock_as_the_program_does(x, changes):
    def look_up(table, index):
        with LOCK:
            if changes:
                table.add_(1)
            return table[index] + 1

    captured = capture.optimize("eager", strict=True)(look_up)
    captured(torch.ones(4), torch.tensor([1, 2]))
    with pytest.raises(IndexError):
        captured(torch.ones(4), torch.tensor([1, 9]))


def test_a_lock_that_escapes_is_as_the_program_left_it(same, x):
    def make(a):
        lock, held = threading.Lock(), threading.RLock()
        held.acquire()
        with lock:
            a = a + 1
        return a, lock, held

    a, lock, held = capture.optimize("eager", strict=True)(make)(x)
    same(a, x + 1)
    assert (lock.locked(), held._is_owned()) == (False, True)


def test_a_lock_whose_release_fails(check, x):
    def release(a):
        b = a + 1
        LOCK.release()
        return b

    check(release, x, breaks=1)


SETTINGS = SimpleNamespace(rate=1.0, decay=1.0, count=3)


def changing(module, examples):
    """A backend whose graph is given everything first, and then another thread, or a handler, changes it all."""

    def call(*args):
        SETTINGS.held = GUARD.locked()
        result = module(*args)
        SETTINGS.rate, SETTINGS.decay, SETTINGS.count = SETTINGS.rate + 1, SETTINGS.decay + 1, SETTINGS.count + 2
        return result

    return call


GUARD = threading.Lock()


def test_a_number_that_was_read_once_is_one_number():
    def play(x):
        rate, count = SETTINGS.rate, SETTINGS.count
        return x * rate + count, rate, count

    captured = capture.optimize(changing)(play)
    for call in range(5):
        result, rate, count = captured(torch.ones(2))
        assert call < 2 or result.eq(rate + count).all()  # before, they are constants of the graph


@pytest.mark.parametrize("names", [("rate", "decay"), ("count", "count")])
def test_numbers_that_are_read_under_a_lock_are_given_to_the_graph_under_it(names):
    def play(x):
        with GUARD:
            first, second = getattr(SETTINGS, names[0]), getattr(SETTINGS, names[1])
        return x * first, x * second

    captured = capture.optimize(changing)(play)
    for call in range(5):
        first, second = captured(torch.ones(2))
        assert first.equal(second)
        assert call < 2 or SETTINGS.held  # before, they are guarded, which is asked again under the lock
    assert not GUARD.locked()
