"""What captured code does to objects that existed before: done once, in the end, on the objects themselves."""

import copy

import torch

import capture

EVALUATED = capture.optimize("eager", options=capture.Options(strict=True, leave_idle=False))
"""What computes no tensor, too."""


class Box:
    def __init__(self):
        self.value = 1
        self.tags = {1}
        self.extra = "x"


def change_everything(items, table, box, x):
    items.append(x + 1)
    items[0] = 7
    table["n"] = x
    del table["a"]
    box.value += 1
    box.new = [x, items]
    box.tags.add(5)
    del box.extra
    items.extend([1, 2])


def test_lists_dicts_sets_and_attributes(check, x):
    check(change_everything, [1, 2], {"a": 1, "b": 2}, Box(), x, graphs=1)


def test_identity_is_kept(x):
    items, box = [1], Box()

    def store(items, box, x):
        box.items = items
        items.append(box)
        return items

    result = EVALUATED(store)(items, box, x)
    assert result is items is box.items
    assert items[1] is box


def test_swap_reads_before_it_writes(check):
    def swap(box, items):
        box.value, box.extra = box.extra, box.value
        items[0], items[1] = items[1], items[0]

    check(swap, Box(), [1, 2], graphs=0)


def test_arguments_returned_are_themselves(x):
    def give(a, b):
        return a is b, [a, b], a

    same, pair, first = EVALUATED(give)(x, x)
    assert same
    assert pair[0] is pair[1] is first is x
    different, *_ = EVALUATED(give)(x, x.clone())
    assert not different


def test_arguments_that_become_one_object_later(x):
    def compare(a, b, first, second):
        first.append(1)
        return a is b, len(second), a is not b

    region = EVALUATED(compare)
    shared = []
    assert region(x, x.clone(), [], []) == (False, 0, True)
    assert region(x, x, [], []) == (True, 0, False)
    assert region(x, x, shared, shared) == (True, 1, False)


def test_in_place_operations_return_the_tensor_itself(x):
    before = x.clone()
    assert capture.optimize("eager", strict=True)(lambda a: a.add_(1))(x) is x
    assert torch.equal(x, before + 1)


COUNT = 0


def test_globals(x):
    global COUNT

    def count(a):
        global COUNT
        COUNT += 2
        return a * COUNT

    COUNT = 1
    region = capture.optimize("eager", strict=True)(count)
    assert torch.equal(region(x), x * 3)
    assert torch.equal(region(x), x * 5)
    assert COUNT == 5


def test_globals_that_are_deleted(x):
    def play(a):
        global PASSING
        PASSING = a
        b = PASSING + 1
        del PASSING
        try:
            del PASSING
        except NameError as error:
            return b, str(error), "PASSING" in globals()

    region = capture.optimize("eager", strict=True)(play)
    for held in (False, True, True, False):
        if held:
            globals()["PASSING"] = 1
        b, text, remains = region(x)
        assert torch.equal(b, x + 1)
        assert (text, remains) == ("name 'PASSING' is not defined", False)


def test_a_builtin_is_no_global_to_delete(check, x):
    def play(a):
        global len
        b = a + 1
        try:
            del len
        except NameError as error:
            return b, str(error)

    check(play, x)


def test_closure_cells(x):
    def counter():
        count = 0

        def step(a):
            nonlocal count
            count += 1
            return a * count

        return step

    step = counter()
    region = capture.optimize("eager", strict=True)(step)
    assert [float(region(x)[0, 1]), float(region(x)[0, 1]), float(step(x)[0, 1])] == [1, 2, 3]


def test_two_functions_share_a_new_cell(x):
    def make(a):
        held = a

        def put(value):
            nonlocal held
            held = value

        return put, lambda: held

    put, get = EVALUATED(make)(x)
    put(3)
    assert get() == 3


def test_effects_before_a_break_are_seen_by_the_code_after_it(check, x):
    def log(a, items):
        items.append(1)
        capture.graph_break()
        items.append(len(items))
        return a + len(items)

    check(log, x, [], graphs=1, breaks=1)


def test_properties_and_setattr_of_the_user(check, x):
    check(lambda c, a: c.assign(a), Careful(), x)


class Careful:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append(name)
        object.__setattr__(self, name, value)

    @property
    def both(self):
        return self.first, self.second

    @both.setter
    def both(self, values):
        self.first, self.second = values

    def assign(self, a):
        self.both = (a + 1, 2)
        return self.both


def test_an_object_is_not_touched_by_a_translation(x):
    box = Box()
    before = copy.deepcopy(vars(box))
    capture.export(lambda a, b: a * b.value, strict=True)(x, box)
    assert vars(box) == before


def test_attributes_hung_on_tensors(check, x):
    def mark(a):
        a.mark = 1 if not hasattr(a, "mark") else a.mark + 1
        b = a * 2
        assert not hasattr(b, "note")
        b.note = {"from": a}
        return b.note["from"] + b, a.mark, b

    check(mark, x)
    marked = x.clone()
    marked.mark = 5
    check(mark, marked)
