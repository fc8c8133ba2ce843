"""What a user of torch.compile tries in the first hour with compiled functions."""

import copy
import functools
import operator
import pickle

import pytest
import torch

import capture
import compile_api


@compile_api.compile(backend="eager")
def named(x):
    return x + 1


class Methods:
    @compile_api.compile(backend="eager")
    @staticmethod
    def static(x):
        return x * 2

    @compile_api.compile(backend="eager")
    @classmethod
    def of_class(cls, x):
        return cls, x * 3

    @staticmethod
    @compile_api.compile(backend="eager")
    def inside(x):
        return x * 4


ONE = torch.ones(1)


def test_compiled_functions_are_pickled_and_copied():
    assert pickle.loads(pickle.dumps(named)) is named
    assert copy.deepcopy(named) is named
    again = compile_api.compile(pickled, backend="eager")
    twin = pickle.loads(pickle.dumps(again))
    assert twin(ONE) == again(ONE) == 6
    assert len(compile_api.report(twin).captured) == 1


def pickled(x):
    return x + 5


@pytest.mark.parametrize("written_in_c", [operator.neg, torch.neg, functools.partial(torch.mul, other=-1)])
def test_what_has_no_python_code_is_compiled(written_in_c):
    compiled = compile_api.compile(written_in_c, backend="eager", fullgraph=True)
    for each in (compiled, pickle.loads(pickle.dumps(compiled))):
        assert each(ONE) == -1
        assert len(compile_api.report(each).captured) == 1
    with pytest.raises(capture.Unsupported, match="<call of print>"):
        compile_api.compile(print, backend="eager", fullgraph=True)()


@pytest.mark.parametrize("holder", [Methods, Methods()], ids=["class", "instance"])
def test_static_methods_and_class_methods_on_either_side(holder):
    assert holder.static(ONE) == 2
    assert holder.of_class(ONE) == (Methods, 3)
    assert holder.inside(ONE) == 4
    assert compile_api.report(Methods.static).captured


def test_what_cannot_be_compiled_says_what_can():
    with pytest.raises(TypeError, match="below @property"):
        compile_api.compile(property(named))
    with pytest.raises(TypeError, match=r"compile\(mode=...\)"):
        compile_api.compile("max-autotune")


def test_errors_that_stop_a_program_are_those_that_torchs_users_catch():
    def breaks(x):
        print("here")
        return x

    for wrong in (
        lambda: compile_api.compile(breaks, fullgraph=True)(ONE),
        lambda: compile_api.compile(named, mode="fast"),
        lambda: compile_api.compile(named, backend="none"),
        lambda: compile_api.compile(pickled, backend=lambda gm, inputs: 1 / 0)(ONE),
    ):
        with pytest.raises(RuntimeError):
            wrong()


@pytest.mark.parametrize("make", [lambda: functools.partial(torch.add, ONE), lambda: Called(), lambda: Called().method])
def test_callables_of_every_kind(make):
    assert compile_api.compile(make(), backend="eager")(ONE) == 2


class Called:
    def __call__(self, x):
        return x + 1

    def method(self, x):
        return x + 1


MISTAKEN = {
    "allow_in_graph takes a function, not int": lambda: compile_api.allow_in_graph(3),
    "disallow_in_graph takes a function, not int": lambda: compile_api.disallow_in_graph(3),
    "assume_constant_result takes a function, not int": lambda: compile_api.assume_constant_result(3),
    "register_backend takes a function .*, not int": lambda: compile_api.register_backend(3),
    "set_logs takes names of logs, not 3": lambda: compile_api.set_logs(3),
    "mark_dynamic takes a tensor .*, not str": lambda: compile_api.mark_dynamic("a", 0),
    "mark_static takes a tensor .*, not str": lambda: compile_api.mark_static("a"),
    "explain takes a function or a module, not int": lambda: compile_api.explain(3),
    "walkthrough takes a function or a module, not NoneType": lambda: compile_api.walkthrough(None),
}


@pytest.mark.parametrize("sentence", MISTAKEN)
def test_what_is_none_of_what_is_wanted_is_told(sentence):
    with pytest.raises((TypeError, compile_api.BadOption), match=sentence):
        MISTAKEN[sentence]()


def test_a_whole_object_of_options_is_taken():
    assert compile_api.compile(lambda x: x + 1, options=compile_api.CompileOptions(check=True))(torch.ones(1)) == 2
    with pytest.raises(capture.Unsupported):
        compile_api.compile(breaking, options=compile_api.CompileOptions(fullgraph=True))(torch.ones(1))


def breaking(x):
    compile_api.graph_break()
    return x + 1
