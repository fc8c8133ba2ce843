"""Branches on a tensor's value of which one only raises: one graph, and the error where it is due.

A branch on what an operator drew is not asked again in a guard: that would draw the program's next numbers.
"""

import pytest
import torch
import torch.nn.functional as F

import capture


def positive(x):
    if not (x > 0).all():
        raise ValueError(f"not positive: {x.min()}")
    return x.log()


def bounded(x):
    y = x * 2
    if y.abs().max() >= 100:
        raise AssertionError("too large")  # written out, because pytest rewrites assert
    if y.sum().item() > 50:
        raise OverflowError
    return y + 1


def test_the_graph_goes_on_past_the_check(check):
    check(positive, torch.ones(3))
    check(bounded, torch.ones(3))


@pytest.mark.parametrize(("function", "filled"), [(positive, -1.0), (bounded, 60.0), (bounded, 20.0)])
def test_a_check_that_fails_raises_what_the_program_raises(check, function, filled):
    check(function, torch.full((3,), filled))


def test_it_fails_for_one_call_and_holds_for_the_next():
    capture.reset()
    function = capture.optimize("eager", strict=True)(positive)
    for _ in range(2):
        assert torch.equal(function(torch.ones(2)), torch.zeros(2))
        with pytest.raises(ValueError, match="not positive: -1"):
            function(-torch.ones(2))
    assert len([record for record in capture.records() if isinstance(record, capture.GraphRecord)]) == 1


def test_effects_before_a_failed_check_happened_once(same):
    def function(x, seen):
        seen.append("before")
        if x.sum() < 0:
            raise ValueError("negative")
        seen.append("after")
        return x + 1

    seen = []
    with pytest.raises(ValueError, match="negative"):
        capture.optimize("eager", strict=True)(function)(-torch.ones(2), seen)
    assert seen == ["before"]


def test_where_checks_fail_often_the_graph_ends_there():
    def function(x):
        try:
            return positive(x * 1)
        except ValueError:
            return x

    capture.reset()
    compiled = capture.optimize("eager", strict=True)(function)
    for _ in range(6):
        assert torch.equal(compiled(-torch.ones(2)), -torch.ones(2))
    assert [record for record in capture.records() if isinstance(record, capture.BreakRecord)]


def test_what_changes_its_arguments_is_not_expected_anything_of(check):
    def function(x):
        x.add_(1)
        if x.sum() < 0:
            raise ValueError("negative")
        return x * 2

    check(function, torch.ones(2), graphs=2, breaks=1)
    check(function, -3 * torch.ones(2), graphs=1, breaks=1)


def test_an_exception_handled_on_the_way_is_no_way_out(check):
    def function(x):
        if x.sum() > 0:
            try:
                raise KeyError
            except KeyError:
                x = x + 1
        return x * 2

    check(function, torch.ones(2), graphs=2, breaks=1)


@pytest.mark.parametrize(
    "change",
    [
        lambda x, held: held.data.add_(1),
        lambda x, held: held.detach().split(1)[0].add_(1),
        lambda x, held: torch.nn.functional.batch_norm(x, held, held.clone(), training=True),
        lambda x, held: torch.nn.functional.instance_norm(x, held, held.clone()),
    ],
    ids=["data", "view", "batch norm", "instance norm"],
)
def test_a_failed_check_leaves_no_change_done_twice(change):
    def function(x, held):
        change(x, held)
        return positive(x)

    expected, actual = torch.zeros(3), torch.zeros(3)
    x = -torch.arange(1.0, 13).reshape(2, 3, 2)
    for call, held in ((function, expected), (capture.optimize("eager", strict=True)(function), actual)):
        with pytest.raises(ValueError, match="not positive"):
            call(x, held)
    assert torch.equal(actual, expected)
    assert actual.any()


def test_arguments_of_distributions_are_validated(check):
    def function(mean, scale, x):
        return torch.distributions.Normal(mean, scale).log_prob(x)

    check(function, torch.zeros(3), torch.ones(3), torch.ones(3))
    check(function, torch.zeros(3), -torch.ones(3), torch.ones(3))


def test_distributions_with_properties_made_on_demand(check):
    def function(logits, x):
        chosen = torch.distributions.Categorical(logits=logits)
        return chosen.entropy(), chosen.log_prob(x), torch.distributions.Bernoulli(logits=logits).probs

    check(function, torch.randn(4, 3), torch.tensor([0, 2, 1, 1]))


def test_an_exported_graph_holds_no_check_that_somebody_else_must_make():
    with pytest.raises(capture.Unsupported, match="truth of a tensor"):
        capture.export(positive)(torch.ones(3))


def test_a_failed_check_draws_the_same_numbers_again():
    def play():
        number = torch.randint(0, 10, ())
        if number.item() > 4:
            raise ValueError(number.item())
        return number

    captured = capture.optimize("eager", strict=True)(play)
    for seed in range(20):
        outcomes = []
        for function in (play, captured):
            torch.manual_seed(seed)
            try:
                outcomes.append((int(function()), torch.rand(1)))
            except ValueError as error:
                outcomes.append((error.args, torch.rand(1)))
        assert outcomes[0] == outcomes[1]


QUESTIONS = {
    "all at once": lambda mask: mask,
    "not": lambda mask: not mask,
    "computed": lambda mask: mask & mask,
    "a length first": lambda mask: mask.dim() == 1 and mask,
    "an index": lambda mask: mask[mask.long()[1]],
}


MASKS = [[True, False], [], [2, 5], [1], True]
BREAKS = {
    "all at once": [1, 1, 1, 0, 0],
    "not": [2, 2, 2, 0, 0],
    "computed": [1, 0, 1, 0, 0],
    "a length first": [1, 1, 1, 0, 0],
    "an index": [2, 0, 2, 0, 0],
}
"""The number of breaks over each mask.  A mask of one element is asked within the graph."""


@pytest.mark.parametrize("kind", QUESTIONS)
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_what_a_mask_cannot_be_asked_is_refused_by_the_branch(kind, mask, check):
    question = QUESTIONS[kind]

    def branch(mask):
        try:
            return mask + 1 if question(mask) else mask + 2
        except (RuntimeError, IndexError) as error:
            return mask + 3, str(error)

    # What is computed first is a graph of its own.
    computed_first = kind == "an index" or (kind == "computed" and mask in ([True, False], [2, 5]))
    breaks = BREAKS[kind][MASKS.index(mask)]
    check(branch, torch.tensor(mask), graphs=2 if computed_first else 1, breaks=breaks)


def asserting(x):
    assert (x > 0).all(), f"not positive: {x}"  # pytest writes it anew, with questions about each part
    return x + 1


def test_an_assert_that_pytest_wrote_anew():
    region = capture.optimize("eager", strict=True)(asserting)
    for _ in range(3):
        assert torch.equal(region(torch.ones(2)), torch.full((2,), 2.0))
        with pytest.raises(AssertionError, match="not positive: tensor"):
            region(-torch.ones(2))


# -- what an operator drew --------------------------------------------------------------------------------------------


DRAWS = {
    "bernoulli": lambda p: torch.bernoulli(p),
    "method": lambda p: p.bernoulli(),
    "in place": lambda p: p.bernoulli_(0.5),
    "dropout": lambda p: F.dropout(p),
    "alpha dropout": lambda p: F.alpha_dropout(p, training=True) > 0.5,
    "normal": lambda p: torch.normal(p, 1.0) > 0.5,
    "rand_like": lambda p: torch.rand_like(p) > 0.5,
    "randint_like": lambda p: torch.randint_like(p, 2),
    "poisson": lambda p: torch.poisson(p),
    "multinomial": lambda p: p.multinomial(1),
    "rrelu": lambda p: F.rrelu(-p, training=True) < -0.12,
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_program_draws_what_it_draws_in_eager(name):
    def program(mask):
        p = mask.float() * 0.5
        if DRAWS[name](p)[0]:
            return mask + 1
        return mask - 1

    def seen(function):
        torch.manual_seed(3)
        return [function(torch.ones(2, dtype=torch.int64)).tolist() for _ in range(8)], torch.rand(1).item()

    capture.reset()
    assert seen(capture.optimize("eager")(program)) == seen(program)


def test_a_branch_that_draws_nothing_needs_no_break():
    def program(mask):
        return mask + 1 if F.dropout(mask.float(), 0.0).any() else mask - 1

    capture.reset()
    compiled = capture.optimize("eager", nopython=True)(program)
    for mask in (torch.ones(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)):
        assert torch.equal(compiled(mask), program(mask))
