"""Programs made at random run as in eager: those that once did not, and fresh ones each time.

SEARCH_SECONDS says for how long fresh ones are made, on each backend.
"""

import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

import capture

sys.path.insert(0, str(Path(__file__).parent.parent))  # the search is a program of this repository, not a package

from search.documented import DOCUMENTED, is_within
from search.findings import Findings
from search.generator import generate
from search.judge import differ
from search.minimiser import minimise
from search.observed import observe
from search.parent import Child, Log, Parent
from search.program import reference
from search.runner import BACKENDS, compared, compiler, judge
from search.watched import watching

ROOT = Path(__file__).parent.parent
SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.py"))
SECONDS = float(os.environ.get("SEARCH_SECONDS", "20"))
OPEN = {"eager": 0.005, "aot_eager": 0.02, "inductor": 0.05}
"""The share of the fresh programs that may differ as long as not all that was found is mended: some times what long
runs find, since a minute's programs are few.  To be lowered to none."""


WITHOUT_GRAPHS = [
    "a_checkpoint_in_inference_mode",
    "a_gradient_of_another_shape",
    "a_number_is_given_to_dropout",
    "a_second_backward_adds_before_it_fails",
    "a_truth_is_taken_from_and_nobody_reads_it",
    "a_view_changes_shape_in_inference_mode",
    "a_weight_is_assigned_as_its_own_gradient",
    "an_argument_changes_shape_in_place",
    "effects_before_a_refused_reduction",
]


@pytest.mark.without_graphs(
    "programs of errors and of what is left to CPython: that they are, and go on behind it, is what was mended",
    cases=[f"{backend}-{name}" for backend in ("aot_eager", "inductor") for name in WITHOUT_GRAPHS],
)
@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_was_found_stays_mended(path, backend):
    assert judge(path.read_text(), backend).difference is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_fresh_programs(backend):
    """What fails prints its seed, and the command that runs it again."""
    command = [
        sys.executable,
        "-m",
        "search",
        "--backend",
        backend,
        "--seconds",
        str(SECONDS),
        "--jobs",
        "2",
        "--limit",
        "60",
    ]
    command += ["--most", str(OPEN[backend]), "--as-found"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_seed_is_a_program():
    assert generate(7) == generate(7) != generate(8)


DYING = "import os, json; [print(json.dumps(line), flush=True) for line in {lines}]; os.abort()"


DIES = "import os; os.abort()"


@pytest.mark.parametrize(("text", "found"), [(None, (1, 0)), ("x = 1", (0, 1)), (DIES, (1, 0))])
def test_who_ends_a_process(text, found, capsys):
    """What dies while statements are tried in eager, or runs in eager alone, is torch's own end; else it is a finding,
    with its text."""
    lines = [{"start": 3}] if text is None else [{"start": 3}, {"made": text}]
    parent = Parent(Findings("eager", None, small=False), iter(()), 300.0, Log(None))
    command = [sys.executable, "-c", DYING.format(lines=lines)]
    child = Child(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL), [3])
    parent.children.append(child)
    parent.selector.register(child.process.stdout, 1, child)
    while parent.children:
        parent.step()
    assert (parent.findings.unmade, len(parent.findings.seeds)) == found
    assert ("x = 1" in capsys.readouterr().out) == bool(found[1])


PROGRAM = """
import torch

def make():
    return {"x": torch.ones(3), "w": torch.ones(3, requires_grad=True), "seen": []}

def program(x, w, seen):
    seen.append(1)
    return x * w

def after(r, s):
    r.sum().backward()

def change(s, call):
    s.x = s.x + 1
"""
FAULTS = {
    "requires_grad result": lambda program: lambda x, w, seen: program(x, w, seen).detach(),
    "value state.x": lambda program: lambda x, w, seen: program(x.add_(1), w, seen),
    "identity result": lambda program: lambda x, w, seen: program(x, w, seen) is None or x,
    "shape result": lambda program: lambda x, w, seen: program(x, w, seen)[:2],
    "strides result": lambda program: lambda x, w, seen: program(x, w, seen).repeat_interleave(2)[::2],
    "value state.seen": lambda program: lambda x, w, seen: program(x, w, seen + [2]),
    "value random": lambda program: lambda x, w, seen: torch.rand(1) is None or program(x, w, seen),
    "None for a value after grad": lambda program: lambda x, w, seen: program(x, w.detach().requires_grad_(), seen),
    "value result": lambda program: lambda x, w, seen: program(x, w, seen) + 1e-5,
    "structure raised for result": lambda program: lambda x, w, seen: program(x, w, seen) + torch.ones(2),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_are_seen(kind):
    """A compiler that is wrong in one way."""
    assert compared(PROGRAM, FAULTS[kind]).signature.startswith(kind)


def test_rounding_is_judged_by_float64():
    """A sum in another order is no difference; one that is further from the truth than eager's is."""
    other_order = lambda program: lambda x, w, seen: (program(x, w, seen).double() * 1.0).float()
    assert compared(PROGRAM, other_order).difference is None


@pytest.mark.parametrize(
    ("found", "is_right"), [(34.00001525878906, True), (34.00000000000001, False), (34.01, False), (33.0, False)]
)
def test_a_number_out_of_a_tensor_is_rounded_as_the_tensor_is(found, is_right):
    """34.00001525878906 is a number that a tensor of 32 bits holds; 34.00000000000001 is Python's own."""
    sights = [observe(number=value) for value in (34.0, found, 34.0)]
    assert (differ(sights[0], sights[1], lambda: sights[2]) is None) == is_right


def test_an_infinity_beside_it_hides_no_difference():
    eager, found = (torch.tensor([math.inf, value]) for value in (0.5, 0.51))
    assert differ(observe(a=eager), observe(a=found), lambda: observe(a=eager.double())) is not None
    assert differ(observe(a=eager), observe(a=eager + 1e-7), lambda: observe(a=eager.double())) is None


@pytest.mark.parametrize(
    ("eagers", "ours", "is_told"),
    [
        ([7, 6, 7], 6, True),
        ([7, 7, 7], 6, False),
        ([(math.inf, 1.0), (math.inf, 1.2)], (math.inf, 1.1), True),
        ([(math.inf, 1.0), (math.inf, 1.2)], (1.0, 1.1), False),
    ],
)
def test_what_hangs_on_last_bits_is_among_eagers_own_results(eagers, ours, is_told):
    """Numbers that were read from tensors count as well, and an infinity hides nothing beside it."""
    held = lambda value: observe(a=torch.tensor(value) if isinstance(value, tuple) else value)
    (expected, *_), (actual, *_) = held(eagers[0]), held(ours)
    assert is_within(expected, actual, [held(value) for value in eagers]) == is_told


def test_casts_to_halves_are_left_out_of_what_judges():
    """Where there is nothing to cast a copy is made all the same: it is written to."""
    text = MODULE.format(w="[0.3, 0.7]", program="t = w.to(torch.bfloat16); t.exp_(); return t", after="pass")
    (found,) = [sight.data for sight in reference(text, 1) or () if sight.where == "result"]
    assert torch.equal(found, torch.tensor([0.3, 0.7]).double().exp())


def test_who_is_far_nearer_to_float64_is_right_where_eager_is_not():
    truth, eager = torch.tensor([0.25, 0.5], dtype=torch.float64), torch.tensor([0.25, 0.53])
    for found, is_right in ((truth.float(), True), (torch.tensor([0.27, 0.5]), False)):
        difference = differ(observe(a=eager), observe(a=found), lambda: observe(a=truth))
        assert (difference is None) == is_right


@pytest.mark.parametrize("made", ["torch.ones(3).expand(2, 3)", "torch.ones(()).expand(4)", "torch.ones(0, 3)"])
def test_float64_judges_where_an_argument_is_expanded(made):
    text = PROGRAM.replace("torch.ones(3)", made, 1)
    assert any(sight.data is not None and sight.data.dtype == torch.float64 for sight in reference(text, 1))


def test_a_gradient_may_own_its_memory_where_eagers_shares():
    a, b, both = torch.ones(2), torch.ones(2), torch.ones(4)
    shared = {"a.grad": both[:2], "b.grad": both[2:]}
    owned = {"a.grad": a, "b.grad": b}
    assert differ(observe(**shared), observe(**owned), lambda: None) is None
    assert differ(observe(**owned), observe(**shared), lambda: None).kind == "memory shared"
    assert differ(observe(r=both, **{"a.grad": both[:2]}), observe(r=both, **{"a.grad": a}), lambda: None) is None
    shared, owned = ({name.removesuffix(".grad"): each for name, each in world.items()} for world in (shared, owned))
    assert differ(observe(**shared), observe(**owned), lambda: None).kind == "memory shared"


def test_a_gradient_of_the_shape_that_the_leaf_had_is_no_better_than_one_of_its_shape():
    """Ours may fit where eager's does not; none, or one that does not fit either, is a difference."""
    leaf, grads = torch.ones(3), (torch.ones(3), torch.ones(1), torch.ones(2), None)
    fits, eagers, another, none = (observe(**{"a": leaf, "a.grad": grad}) for grad in grads)
    assert differ(eagers, fits, lambda: None) is None
    for expected, actual in ((eagers, another), (eagers, none), (fits, eagers)):
        assert differ(expected, actual, lambda: None) is not None


NODES = (
    (
        "[3], which is output 0 of torch::autograd::CopyBackwards, is at",
        "[3], which is output 0 of AddBackward0, is at",
    ),
    (
        "Function A returned an invalid gradient at index 1 - got",
        "Function B returned an invalid gradient at index 0 - got",
    ),
    (
        "Function torch::autograd::CopyBackwards returned an invalid gradient at index 0 - got",
        "Function B returned an invalid gradient at index 0 - got",
    ),
    (
        "modified by an inplace operation: [torch.FloatTensor [1, 3]] is at version 4; expected version 0",
        "modified by an inplace operation: [torch.FloatTensor [3]] is at version 4; expected version 0",
    ),
)


@pytest.mark.parametrize(("one", "other"), NODES)
def test_names_of_autograds_nodes_are_no_difference(one, other):
    found = observe(raised=RuntimeError(one)), observe(raised=RuntimeError(other))
    assert differ(*found, lambda: None) is None
    assert differ(found[0], observe(raised=RuntimeError(one + " [2]")), lambda: None) is not None


MODULE = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Model(nn.Module):

    def __init__(self):
        super().__init__()
        self.two = nn.BatchNorm1d(3)

class Pair(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, y):
        return (x, y * 3)

    @staticmethod
    def backward(ctx, gx, gy):
        return (None, gy * 3)

def make():
    w = torch.tensor({w}, requires_grad=True)
    x = torch.tensor([1.0, 1.0, 1.0])
    return dict(w=w, x=x, model=Model(), items=[], y=w * 1)

def program(w, x, model, items):
    {program}

def after(r, s):
    {after}

def change(s, call):
    pass
"""
TOLD = {
    "an error also where": (
        "[1.0, 2.0, 3.0]",
        "return checkpoint(lambda t: t * x, w, use_reentrant=False)",
        "s.x.mul_(2); r.sum().backward()",
    ),
    "ours may give the gradients of what was computed": (
        "[1.0]",
        "items += torch.tanh(w); t = w.clamp(0, 2.0); t.exp_(); t.register_hook(abs); t.exp_(); return t",
        "r.backward()",
    ),
    "through `.data`": (
        "1.0",
        "u = torch.where(w > 1.0, w, model.two.bias); return u, u",
        "s.w.data.add_(1); r[1].mean().backward()",
    ),
    "gets another shape": (
        "1.0",
        "torch.inference_mode()(w.unsqueeze_)(0); return torch.autograd.grad(w, w)",
        "pass",
    ),
    "lies in memory": (
        "[[1.0, 1.0, 2.0], [1.0, 1.0, 1.0]]",
        "return 0, Pair.apply(w, w.t())[1]",
        "s.out = torch.autograd.grad(r[1].sum(), s.w)",
    ),
    "has memory of its own": (
        "[2.0]",
        "w.view(-1).backward(gradient=w); return w.detach() + 1",
        "s.w.grad.mul_(2)",
    ),
    "may be called with None": (
        "2.0",
        "c = torch.fmod(w, 1); b = w * 2; c.register_hook(lambda g: g * 2); return torch.autograd.grad(b, w)",
        "pass",
    ),
    "where it leaves a graph it may not": (
        "1.0",
        "b = torch.inference_mode()(torch.ones)(3); b.data.copy_(b); return w * 2",
        "r.sum().backward()",
    ),
    "in another order than in eager": (
        "[1.0]",
        "c = model.two.weight.clone(); torch.autograd.backward([w.sum(), c.mean()]); torch.mul(1.0, 0, out=w.grad)",
        "pass",
    ),
    "is infinite": (
        "[float('inf'), 0.3]",
        "return nn.functional.gelu(w.detach())",
        "pass",
    ),
    "hangs on the order of a sum": (
        "[0.3, 0.7, -1.1]",
        "return (nn.functional.silu(w.detach()) * 4e9).sin()",
        "pass",
    ),
}
"""By the words of each row: the value of `w`, the function, and what is done with its result."""


def doubled(compiled):
    """What a compiler would do that is wrong beside what the documentation tells of: gradients come out twice."""

    def run(*arguments):
        try:
            result = compiled(*arguments)
        except Exception:
            for parameter in arguments[2].parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(2)
            raise
        return torch.utils._pytree.tree_map_only(torch.Tensor, twice, result)

    def twice(value):
        if not value.requires_grad:
            return value * 2
        value.register_hook(lambda gradient: gradient * 2)
        return value

    return run


class Refuses(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("modified by an inplace operation: [] is at version 9; expected version 8 instead")


def refusing(compiled):
    return lambda *arguments: Refuses.apply(compiled(*arguments))


@pytest.mark.parametrize("words", TOLD)
def test_a_difference_that_the_documentation_tells_of_is_counted_apart(words):
    """And the same program is a finding where something else is wrong, too."""
    w, program, after = TOLD[words]
    text = MODULE.format(w=w, program=program, after=after)
    backend = "inductor" if words in ("hangs on the order of a sum", "is infinite") else "aot_eager"
    right, watched = compiler(backend), partial(watching, backend)
    assert words in compared(text, right, None, watched).documented
    wrong = refusing if words == "an error also where" else doubled
    capture.reset()
    assert compared(text, lambda each: wrong(right(each)), None, watched).difference is not None


REFUSED = {
    "gets another shape": (
        "torch.inference_mode()(w.unsqueeze_)(0); w.backward()",
        "attempting to assign a gradient of size",
    ),
    "it may not": (
        "b = torch.inference_mode()(torch.ones)(3); b.data.mul_(2); w.sum().backward(); w.add_(1)",
        "Inplace update to inference tensor outside InferenceMode",
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_we_refuse_where_eager_goes_on_is_told_of(words):
    """And elsewhere the same error is a finding."""
    program, said = REFUSED[words]
    text = MODULE.format(w="1.0", program=program, after="pass")
    assert words in compared(text, compiler("eager" if words == "gets another shape" else "aot_eager")).documented
    capture.reset()
    plain = text.replace(program, "w.sum().backward(); b = w.detach()")
    assert compared(plain, lambda each: mismatched(each, said)).difference is not None


def test_a_mask_that_changed_through_data_is_told_of():
    """One of another size is refused where backward computes it again, and elsewhere is a finding."""
    program = "y.backward(gradient=y); y[w > 1] *= 0"
    text = MODULE.format(w="[1.0, 2.0, 2.0]", program=program, after="s.w.data.add_(1)").replace("(w, x,", "(w, x, y,")
    aot_eager, watched = compiler("aot_eager"), partial(watching, "aot_eager")
    assert "through `.data`" in compared(text, aot_eager, None, watched).documented
    capture.reset()
    assert compared(text, lambda each: mismatched(aot_eager(each)), None, watched).difference is not None


def mismatched(compiled, said="shape mismatch: value tensor of shape [2] cannot be broadcast"):
    """A compiler that refuses by itself in the same words."""

    def run(*arguments):
        compiled(*arguments)
        raise RuntimeError(said)

    return run


def test_each_row_of_what_is_documented_is_tried():
    assert [next(row for row in DOCUMENTED if words in row) for words in TOLD] == list(DOCUMENTED)


def test_a_difference_is_made_small():
    text = generate(11)
    still = lambda candidate: "def program" in candidate and "return" in candidate
    assert len(minimise(text, still)) < len(text) / 3
