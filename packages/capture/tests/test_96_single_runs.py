"""A graph that only one call can run is not compiled: its own effects change what it relies on."""

from collections import deque
from types import SimpleNamespace

import pytest
import torch
from torch import nn, optim

import capture


class Compiler:
    """A backend that takes long, and counts what it is asked for."""

    def __init__(self, spares=True):
        self.spares_single_runs, self.graphs = spares, 0

    def __call__(self, gm, example_inputs):
        self.graphs += 1
        return gm.forward


def counts(make, calls=4, spares=True, between=lambda holder: None, **options):
    """How many graphs were compiled after each call; results and what is left are eager's."""
    compiler, log = Compiler(spares), capture.Log()
    (ours, program), (plain, same) = make(), make()
    compiled = capture.optimize(compiler, strict=True, log=log, options=capture.Options(strict=True, **options))(
        program
    )
    found = []
    for index in range(calls):
        x = torch.randn(3, 4, generator=torch.Generator().manual_seed(index))
        torch.testing.assert_close(compiled(x), same(x))
        for holder in (ours, plain):
            between(holder)
        found.append(compiler.graphs)
    torch.testing.assert_close(left_in(ours), left_in(plain))
    return found, log.records()


def left_in(holder):
    if isinstance(holder, Trained):
        gradients = [parameter.grad for parameter in holder.model.parameters()]
        return {**holder.optimizer.state_dict(), "gradients": [each for each in gradients if each is not None]}
    return {name: value for name, value in vars(holder).items() if value is not None and type(value) is not str}


def reasons(records):
    return [record.reason.explanation for record in records if isinstance(record, capture.SingleRunRecord)]


class Trained:
    def __init__(self, optimizer, settings, to_none):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        self.optimizer, self.to_none = optimizer(self.model.parameters(), **settings), to_none

    def zero(self):
        self.optimizer.zero_grad(set_to_none=self.to_none)

    def update(self, x):
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def zeroed_before(self, x):
        self.zero()
        return self.update(x)

    def zeroed_after(self, x):
        loss = self.update(x)
        self.zero()
        return loss


OPTIMIZERS = [
    (cls, {"lr": 0.01, **settings, "foreach": foreach})
    for cls, settings in (
        (optim.SGD, {}),
        (optim.SGD, {"momentum": 0.9}),
        (optim.Adam, {}),
        (optim.AdamW, {"amsgrad": True}),
        (optim.RMSprop, {"momentum": 0.9}),
        (optim.Adagrad, {}),
        (optim.Adadelta, {}),
        (optim.NAdam, {}),
        (optim.Rprop, {}),
    )
    for foreach in (True, False)
]


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("how", ["zeroed_before", "zeroed_after"])
@pytest.mark.parametrize(("cls", "settings"), OPTIMIZERS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_of_a_training_the_steady_state_alone_is_compiled(cls, settings, how, to_none):
    def make():
        training = Trained(cls, settings, to_none)
        return training, getattr(training, how)

    found, records = counts(make)
    assert found[-1] == 1, records
    assert not [record for record in records if isinstance(record, capture.RecompileRecord)]


def test_what_the_program_puts_back_is_compiled_when_it_comes_again():
    def make():
        training = Trained(optim.SGD, {"lr": 0.01}, True)
        return training, training.update

    found, records = counts(make, between=Trained.zero)
    assert found == [0, 1, 1, 1]
    assert reasons(records) == [
        "run as recorded once: its own effects change what it relies on (`self.model.2.bias.grad` becomes a tensor, "
        "`self.model.0.bias.grad` becomes a tensor, `self.model.0.weight.grad` becomes a tensor and 1 more)"
    ]


def test_a_backend_that_does_not_ask_for_it_is_given_every_graph():
    def make():
        training = Trained(optim.SGD, {"lr": 0.01, "momentum": 0.9}, True)
        return training, training.zeroed_before

    found, records = counts(make, spares=False)
    assert found == [1, 2, 2, 2]
    assert reasons(records) == []


def lazy_attribute(kept, x):
    if kept.table is None:
        kept.table = torch.arange(4.0)
    return x + kept.table


def lazy_key(kept, x):
    if "table" not in kept.tables:
        kept.tables["table"] = torch.arange(4.0)
    return x + kept.tables["table"]


def new_attribute(kept, x):
    if not hasattr(kept, "bias"):
        kept.bias = torch.arange(4.0)
    return x + kept.bias


def text(kept, x):
    if kept.problem is None:
        kept.problem = "regression" if x.dtype == torch.float32 else "classification"
    return x.mean() if kept.problem == "regression" else x.sum()


def flag(kept, x):
    if not kept.started:
        kept.started = True
        return x * 1.0
    return x * 2.0


def largest(kept, x):
    kept.longest = max(kept.longest, x.shape[1])
    return x * kept.longest


def counter(kept, x):
    kept.calls += 1
    return x * kept.calls


def sum_of_floats(kept, x):
    kept.total += 0.5
    return x * kept.total


def restored(kept, x):
    before, kept.calls = kept.calls, 7
    y = x * kept.calls
    kept.calls = before
    return y


def written_alone(kept, x):
    kept.calls = 9
    return x * 2


KEPT = {
    lazy_attribute: [0, 1, 1, 1, 1],
    lazy_key: [0, 1, 1, 1, 1],
    new_attribute: [0, 1, 1, 1, 1],
    text: [0, 1, 1, 1, 1],
    flag: [0, 1, 1, 1, 1],
    largest: [0, 1, 1, 1, 1],
    counter: [0, 1, 1, 1, 1],
    sum_of_floats: [0, 1, 1, 1, 1],
    restored: [1, 1, 1, 1, 1],
    written_alone: [1, 1, 1, 1, 1],
}


def kept_by(function):
    def make():
        kept = SimpleNamespace(table=None, tables={}, problem=None, started=False, longest=2, calls=4, total=1.5)
        return kept, lambda x: function(kept, x)

    return make


@pytest.mark.parametrize("function", KEPT, ids=lambda function: function.__name__)
def test_what_the_first_call_fills_is_compiled_once(function):
    found, _ = counts(kept_by(function), calls=5)
    assert found == KEPT[function]


def test_a_number_that_the_frame_wrote_for_good_stays_a_constant():
    graphs = []

    def backend(gm, example_inputs):
        graphs.append(len(example_inputs))
        return gm.forward

    backend.spares_single_runs = True
    kept, program = kept_by(largest)()
    compiled = capture.optimize(backend, strict=True)(program)
    for _ in range(3):
        compiled(torch.ones(3, 4))
    assert (kept.longest, graphs) == (4, [1])


def in_globals():
    names = {"torch": torch, "calls": 4, "table": None}
    lines = "global calls, table", "calls += 1", "if table is None: table = torch.ones(4)", "return x * calls + table"
    exec("def f(x):\n " + "\n ".join(lines), names)
    return names["f"]


def in_cells():
    calls, table = 4, None

    def f(x):
        nonlocal calls, table
        calls += 1
        if table is None:
            table = torch.ones(4)
        return x * calls + table

    return f


def in_a_class():
    class Kept:
        calls, table = 4, None

    def f(x):
        Kept.calls += 1
        if Kept.table is None:
            Kept.table = torch.ones(4)
        return x * Kept.calls + Kept.table

    return f


def in_slots():
    class Kept:
        __slots__ = ("calls", "table")

    kept = Kept()
    kept.calls = 4

    def f(x):
        kept.calls += 1
        if not hasattr(kept, "table"):
            kept.table = torch.ones(4)
        return x * kept.calls + kept.table

    return f


def in_a_list():
    kept = [4, None]

    def f(x):
        kept[0] += 1
        if kept[1] is None:
            kept[1] = torch.ones(4)
        return x * kept[0] + kept[1]

    return f


def in_a_set():
    kept = set()

    def f(x):
        if "seen" in kept:
            return x * 2
        kept.add("seen")
        return x * 3

    return f


def in_a_deque():
    kept = deque(maxlen=2)

    def f(x):
        kept.append(x)
        return sum(kept)

    return f


def in_a_subclass_of_dict():
    class Kept(dict):
        pass

    kept = Kept()

    def f(x):
        if "table" not in kept:
            kept["table"] = torch.ones(4)
        return x + kept["table"]

    return f


def on_a_tensor():
    kept = torch.ones(4)

    def f(x):
        if not hasattr(kept, "factor"):
            kept.factor = 2.5
        return x * kept.factor

    return f


def in_a_buffer():
    class Kept(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", None)

        def forward(self, x):
            if self.table is None:
                self.table = torch.ones(4)
            return x + self.table

    return Kept()


def in_a_state_with_a_history():
    kept, weight = SimpleNamespace(state=torch.zeros(4)), torch.ones(4, requires_grad=True)

    def f(x):
        kept.state = torch.tanh(weight * kept.state + x.mean(0))
        return kept.state.sum()

    return f


PLACES = (
    in_globals, in_cells, in_a_class, in_slots, in_a_list, in_a_set, in_a_deque, in_a_subclass_of_dict, on_a_tensor,
    in_a_buffer, in_a_state_with_a_history,
)  # fmt: skip


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_wherever_it_is_kept(place):
    found, records = counts(lambda: (SimpleNamespace(), place()), calls=5)
    assert (found[0], found[-1]) == (0, 1), records


def test_attributes_are_called_what_the_program_calls_them():
    class Config:
        def __init__(self):
            self.problem_type = None

        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

    def make():
        config = Config()

        def f(x):
            if config.problem_type is None:
                config.problem_type = "regression"
            return x.mean() if config.problem_type == "regression" else x.sum()

        return SimpleNamespace(), f

    _, records = counts(make)
    (told,) = reasons(records)
    assert told.endswith("(`config.problem_type` becomes 'regression')")


def test_what_comes_back_in_turns_is_compiled_when_it_does():
    def make():
        kept = SimpleNamespace(on=False)

        def f(x):
            kept.on = not kept.on
            return x * 2 if kept.on else x * 3

        return kept, f

    found, _ = counts(make, calls=6)
    assert found == [0, 0, 1, 2, 2, 2]


def test_objects_that_change_places_leave_the_code_as_it_is():
    def make():
        kept = SimpleNamespace(first=torch.zeros(4), second=torch.ones(4))

        def f(x):
            kept.first, kept.second = kept.second, kept.first
            return x + kept.first

        return kept, f

    found, _ = counts(make)
    assert found == [1, 1, 1, 1]


def test_pieces_around_a_break_are_judged_one_by_one():
    def make():
        kept = SimpleNamespace(table=None, calls=4)

        def f(x):
            if kept.table is None:
                kept.table = torch.ones(4)
            y = x + kept.table
            capture.graph_break()
            kept.calls += 1
            return y * kept.calls

        return kept, f

    found, _ = counts(make)
    assert found == [0, 2, 2, 2]


@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_counter_varies_from_its_first_compilation_on(start):
    def make():
        kept = SimpleNamespace(calls=start)
        return kept, lambda x: counter(kept, x)

    found, _ = counts(make, calls=6)
    assert found[-1] == 1


@pytest.mark.parametrize("spares", [True, False])
def test_sizes_that_vary_from_the_first_step_on_vary_in_the_steady_state(spares):
    training, compiler = Trained(optim.AdamW, {"lr": 0.01}, True), Compiler(spares)

    @capture.optimize(compiler, strict=True)
    def step(x, y, z):
        training.zero()
        loss = (training.model(x) - y + z).square().mean()
        loss.backward()
        training.optimizer.step()

    for size in (8, 16, 24, 32):
        step(torch.ones(size, 4), torch.ones(size, 2), torch.ones(size, 1))
    assert compiler.graphs == (1 if spares else 2)


def test_keywords_are_another_dict_in_each_call():
    def inner(x, **kwargs):
        return x * kwargs.pop("factor")

    found, _ = counts(lambda: (SimpleNamespace(), lambda x: inner(x, factor=2)))
    assert found == [1, 1, 1, 1]


def test_a_list_that_is_passed_may_be_another_one():
    compiler = Compiler()

    @capture.optimize(compiler, strict=True)
    def keep(x, seen):
        if not seen:
            seen.append(x)
        return x * 2

    keep(torch.ones(2), [])
    assert compiler.graphs == 1


def test_versions_that_ran_once_leave_room_for_others():
    kept = SimpleNamespace(name="0")

    def rename(x, mode):
        if int(kept.name) < 3:
            kept.name = str(int(kept.name) + 1)
        return x + len(mode)

    log = capture.Log()
    compiled = capture.optimize(Compiler(), strict=True, recompile_limit=4, log=log)(rename)
    for mode in ("", "", "", "", "a", "bc", "def", ""):
        compiled(torch.ones(2), mode)
    assert not [record for record in log.records() if isinstance(record, capture.FallbackRecord)]


def test_what_never_comes_to_rest_is_left_to_cpython():
    kept, compiler = SimpleNamespace(name=""), Compiler()

    def rename(x):
        kept.name += "x"
        return x + len(kept.name)

    compiled = capture.optimize(compiler, strict=True, recompile_limit=3)(rename)
    for _ in range(3):
        compiled(torch.ones(2))
    with pytest.warns(capture.CaptureWarning, match="3 versions exist"):
        compiled(torch.ones(2))
    assert compiler.graphs == 0


def test_an_error_of_a_graph_that_runs_once_comes_from_the_program():
    kept = SimpleNamespace(index=None)

    def pick(x, index):
        if kept.index is None:
            kept.index = "asked"
        x.add_(1)
        return x[index]

    compiled = capture.optimize(Compiler(), strict=True)(pick)
    x = torch.zeros(3)
    with pytest.raises(IndexError):
        compiled(x, torch.tensor(5))
    torch.testing.assert_close(x, torch.ones(3))
    assert kept.index == "asked"


def test_nothing_more_is_captured_where_that_is_asked_for():
    kept, program = kept_by(lazy_attribute)()
    compiler = Compiler()
    compiled = capture.optimize(compiler, strict=True)(program)
    compiled(torch.ones(3, 4))
    kept.table = None
    capture.run(compiled)(torch.ones(3, 4))
    assert compiler.graphs == 0
    kept.table = None
    compiled(torch.ones(3, 4))
    assert compiler.graphs == 1
