"""What another thread changed while a graph ran is not overwritten: the frame starts over."""

from __future__ import annotations

import collections
import contextlib
import threading
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import capture
from capture import _engine

counted = 0


@pytest.fixture(autouse=True)
def another_thread() -> Iterator[None]:
    """One that waits: what other threads do is done by the graph, in their place."""
    done = threading.Event()
    waiting = threading.Thread(target=done.wait)
    waiting.start()
    yield
    done.set()
    waiting.join()


class Counter:
    n = 0

    def __init__(self) -> None:
        self.count, self.items = 0, [1, 2, 3]


class Slots:
    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Module(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0


class Items(list):  # type: ignore[type-arg]
    pass


def attribute(x: torch.Tensor, held: Any) -> Any:
    held.count += 1
    return x.sin(), held.count


def missing_attribute(x: torch.Tensor, held: Any) -> Any:
    held.new = getattr(held, "new", -1) + 1
    return x.sin(), held.new


def class_attribute(x: torch.Tensor, held: Any) -> Any:
    type(held).n += 1
    return x.sin(), held.n


def key(x: torch.Tensor, held: Any) -> Any:
    held["n"] += 1
    return x.sin(), held["n"]


def new_key(x: torch.Tensor, held: Any) -> Any:
    held["m"] = held.get("m", 0) + 1
    return x.sin(), held["m"]


def global_number(x: torch.Tensor, held: Any) -> Any:
    global counted
    counted += 1
    return x.sin(), counted


def item(x: torch.Tensor, held: Any) -> Any:
    held[0] += 1
    return x.sin(), held[0]


def last(x: torch.Tensor, held: Any) -> Any:
    return x.sin(), held.pop()


def first(x: torch.Tensor, held: Any) -> Any:
    return x.sin(), held.popleft()


def member(x: torch.Tensor, held: Any) -> Any:
    held.add(len(held))
    return x.sin(), len(held)


def mean_so_far(x: torch.Tensor, held: Any) -> Any:
    held.count = held.count + x.sum()
    return x.sin(), held.count


def moved(x: torch.Tensor, held: Any) -> Any:
    held["done"].append((held["todo"].pop(), x.shape))
    return x.sin(), len(held["done"])


def _add_to_global(held: Any) -> None:
    global counted
    counted += 10


def _raise(name: str, by: int = 10) -> Callable[[Any], None]:
    return lambda held: setattr(held, name, getattr(held, name, 0) + by)


def _set(key: Any, value: Any) -> Callable[[Any], None]:
    return lambda held: held.__setitem__(key, value)


CASES: dict[str, tuple[Callable[..., Any], Callable[[], Any], Callable[[Any], Any]]] = {
    "attribute": (attribute, Counter, _raise("count")),
    "module": (attribute, Module, _raise("count")),
    "slot": (attribute, Slots, _raise("count")),
    "missing attribute": (missing_attribute, Counter, _raise("new")),
    "class attribute": (class_attribute, lambda: type("Own", (Counter,), {})(), lambda held: _raise("n")(type(held))),
    "tensor attribute": (mean_so_far, lambda: SimpleNamespace(count=torch.zeros(())), _raise("count")),
    "key": (key, lambda: {"n": 0}, _set("n", 10)),
    "new key": (new_key, lambda: {"n": 0}, _set("m", 10)),
    "key of a subclass": (key, collections.Counter, _set("n", 10)),
    "key of an ordered dict": (key, lambda: collections.OrderedDict(n=0), _set("n", 10)),
    "global": (global_number, lambda: None, _add_to_global),
    "item": (item, lambda: [0], _set(0, 10)),
    "item of a subclass": (item, lambda: Items([0]), _set(0, 10)),
    "last item": (last, lambda: [1, 2, 3], lambda held: held.pop()),
    "last item replaced": (last, lambda: [1, 2, 3], _set(-1, 10)),
    "last tensor": (last, lambda: [torch.zeros(2), torch.ones(2)], _set(-1, torch.full((2,), 5.0))),
    "first item of a deque": (first, lambda: collections.deque([1, 2, 3]), lambda held: held.popleft()),
    "member of a set": (member, set, lambda held: held.add(7)),
    "between lists": (moved, lambda: {"todo": [1, 2, 3], "done": []}, lambda held: held["todo"].pop()),
}


def _compiled(function: Callable[..., Any], meddle: Callable[[], Any]) -> Any:
    """With a graph that lets another thread in."""

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            results = graph.forward(*args)
            meddle()
            return results

        return run

    return capture.optimize(backend)(function)


def _shown(held: Any) -> str:
    names = ("n", "new", "count") if not isinstance(held, (list, set, collections.deque)) else ()
    return f"{held if isinstance(held, dict) or not names else ''} {[getattr(held, name, None) for name in names]}"


@pytest.mark.parametrize("name", CASES)
def test_a_change_while_the_graph_runs_is_kept(name: str) -> None:
    global counted
    function, make, meddle = CASES[name]
    counted, held, x = 0, make(), torch.ones(2)
    meddle(held)
    expected = str(function(x, held)), _shown(held)
    counted, held = 0, make()
    found = str(_compiled(function, lambda: meddle(held))(x, held))
    assert (found, _shown(held)) == expected


def test_numbers_that_vary_are_looked_at_too() -> None:
    held, meddled = Counter(), [0, 0, 0, 10]
    compiled = _compiled(attribute, lambda: _raise("count", meddled.pop(0))(held))
    assert [compiled(torch.ones(2), held)[1] for _ in range(4)] == [1, 2, 3, 14]


def test_what_another_thread_changed_while_the_function_was_compiled() -> None:
    pool = [1, 2, 3]

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        pool.pop()
        return graph.forward  # type: ignore[no-any-return]

    assert capture.optimize(backend)(last)(torch.ones(2), pool)[1] == 2


def test_random_numbers_are_drawn_once() -> None:
    def drawn(x: torch.Tensor, held: Any) -> torch.Tensor:
        held.count += 1
        return x + torch.rand(2)

    held = Counter()
    compiled = _compiled(drawn, lambda: _raise("count")(held))
    torch.manual_seed(0)
    found = [compiled(torch.ones(2), held), torch.rand(2)]
    torch.manual_seed(0)
    assert torch.equal(torch.stack(found), torch.stack([1 + torch.rand(2), torch.rand(2)]))


CHANGES: dict[str, Callable[[torch.Tensor], object]] = {
    "detached": lambda w: w.detach_(),
    "frozen": lambda w: w.requires_grad_(False),
    "transposed": lambda w: w.detach_().t_(),
    "another size": lambda w: w.detach_().resize_(1, 2),
    "other data": lambda w: setattr(w, "data", torch.ones(3, 3)),
    "a view of another": lambda w: w.detach_().set_(torch.ones(4)),
    "written": lambda w: w.detach_().mul_(2),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_graph_that_changes_what_a_tensor_is_runs_once(name: str) -> None:
    def program(w: torch.Tensor, held: list[Any]) -> Any:
        held[0].square().sum().backward()  # which needs its gradient
        CHANGES[name](held[0])
        held.append(1)
        return held[0].sum()

    def run(function: Callable[..., Any]) -> Any:
        w = torch.tensor([[0.0, 1.0], [2.0, 3.0]], requires_grad=True)
        result, grad = function(w, held := [w]), w.grad
        assert grad is not None
        return result.item(), grad.tolist(), w.shape, w.stride(), w.requires_grad, len(held)

    for _ in range(3):
        assert run(capture.optimize(lambda graph, _: graph.forward)(program)) == run(program)


def test_an_error_behind_a_change_of_what_a_tensor_is() -> None:
    def program(w: torch.Tensor, index: torch.Tensor, seen: list[Any]) -> Any:
        w.square().sum().backward()
        w.detach_()
        seen.append(1)
        return w[index]

    compiled = capture.optimize(lambda graph, _: graph.forward)(program)
    for index in (0, 5, 1):
        w, seen = torch.ones(2, requires_grad=True), []  # type: ignore[var-annotated]
        with pytest.raises(IndexError) if index == 5 else contextlib.nullcontext():
            compiled(w, torch.tensor([index]), seen)
        assert (seen, w.requires_grad, w.grad.tolist()) == ([1], False, [2, 2])  # type: ignore[union-attr]


def test_a_change_beside_a_graph_that_writes_is_told() -> None:
    def written(x: torch.Tensor, held: Any) -> Any:
        held.count += 1
        return x.add_(1)

    held, x = Counter(), torch.zeros(2)
    compiled = _compiled(written, lambda: _raise("count")(held))
    with pytest.warns(capture.CaptureWarning, match="another thread changed"):
        compiled(x, held)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(x, held)
    assert x.tolist() == [2, 2]


@pytest.mark.parametrize("take", [list.pop, collections.deque.popleft, lambda pool: pool.pop(0)])
def test_an_item_of_a_pool_is_taken_before_the_graph_writes_to_it(take: Callable[[Any], torch.Tensor]) -> None:
    pool: Any = collections.deque() if take is collections.deque.popleft else []
    pool.append(torch.zeros(2))
    left = []

    def filled(x: torch.Tensor, pool: Any) -> torch.Tensor:
        buffer = take(pool)
        buffer.copy_(x)
        y = buffer * 2
        pool.append(buffer)
        return y

    compiled = _compiled(filled, lambda: left.append(len(pool)))
    assert compiled(torch.ones(2), pool).tolist() == [2, 2]
    assert len(pool) == 1
    assert left == [0]
    assert len(capture.explain(filled)(torch.ones(2), pool).breaks) == 1


def test_keywords_are_nobody_elses() -> None:
    def scaled(x: torch.Tensor, **options: Any) -> torch.Tensor:
        by = options.pop("by")
        return x.add_(1) * by

    assert not capture.explain(scaled)(torch.ones(2), by=torch.ones(2)).breaks


def test_many_threads_count_right() -> None:
    held, todo, taken = Counter(), collections.deque(range(600)), []

    def work(x: torch.Tensor) -> torch.Tensor:
        held.count += 1
        taken.append(todo.popleft())
        return x @ x

    compiled = capture.optimize()(work)
    x = torch.ones(48, 48)
    threads = [threading.Thread(target=lambda: [compiled(x) for _ in range(200)]) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of lengths, of which there are too many
        for each in [*map(threading.Thread.start, threads), *map(threading.Thread.join, threads)]:
            assert each is None
    assert (held.count, len(set(taken)), len(todo)) == (600, 600, 0)


def test_the_engine_calls_by_a_subscript() -> None:
    assert _engine.has_other_threads()
    assert _engine.Uninterrupted(max)[1, 2] == 2
    with pytest.raises(TypeError, match="tuple of arguments"):
        _engine.Uninterrupted(max)[1]  # type: ignore[index]


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dense": lambda x: x,
    "transposed": lambda x: x.mT,
    "with gaps": lambda x: x[:, ::2],
    "expanded": lambda x: x.expand(2, *x.shape),
    "rows of an expanded one": lambda x: x.expand(2, *x.shape)[:, 1:],
    "windows": lambda x: x.flatten().unfold(0, 4, 2),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_a_graph_wrote_before_an_error_is_written_once(name: str) -> None:
    def program(y: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        y[-1].mul_(0.5)
        at.add_(1)
        return torch.arange(2).index_select(0, at)

    outcomes = []
    for function in (program, capture.optimize("eager")(program)):
        x, at = torch.arange(12.0).view(3, 4), torch.tensor(0)
        for _ in range(3):
            with contextlib.suppress(IndexError):
                function(LAYOUTS[name](x), at)
        outcomes.append((x, at))
    torch.testing.assert_close(*outcomes)


def test_what_was_made_in_inference_mode_is_written_beneath_its_count() -> None:
    def program(y: torch.Tensor) -> None:
        y.data.add_(1)

    compiled = capture.optimize("eager", strict=True)(program)
    with torch.inference_mode():
        made = torch.ones(3)
    for tensor in (torch.ones(3), made, made):
        compiled(tensor)
    assert made.tolist() == [3, 3, 3]
