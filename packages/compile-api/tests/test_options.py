"""Modes and overrides become one frozen object, or a sentence."""

import dataclasses

import pytest

import compile_api
from compile_api.errors import BadOption
from compile_api.options import MODES, CompileOptions, resolve


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.delenv("COMPILE_API_STRICT", raising=False)
    monkeypatch.delenv("COMPILE_DEBUG", raising=False)


def resolved(**changes):
    return resolve(**{"fullgraph": False, "dynamic": None, "mode": None, "options": None, **changes})


def test_nothing_asked_is_the_default_mode():
    assert resolved() == resolved(mode="default") == CompileOptions()


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_resolves(mode):
    for name, value in MODES[mode].items():
        assert getattr(resolved(mode=mode), name) is value


def test_an_override_beats_the_mode():
    assert resolved(mode="reduce-overhead").cuda_graphs
    assert not resolved(mode="reduce-overhead", options={"cuda_graphs": False}).cuda_graphs


def test_a_whole_object_is_taken_field_by_field():
    assert resolved(mode="reduce-overhead", options=CompileOptions(check=True)) == CompileOptions(
        check=True, cuda_graphs=True
    )
    assert resolved(options=CompileOptions(fullgraph=True, dynamic=False)) == CompileOptions(True, False)


def test_fullgraph_and_dynamic_are_kept():
    assert resolved(fullgraph=True, dynamic=True) == CompileOptions(fullgraph=True, dynamic=True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mode": "defalt"}, "did you mean 'default'"),
        ({"options": {"min_cutt": True}}, "did you mean 'min_cut'"),
        ({"options": {"min_cut": "yes"}}, "True or False, not 'yes'"),
        ({"options": {"fullgraph": True}}, "no option 'fullgraph'"),
        ({"options": {"debug": 3}}, "a folder's path, not 3"),
        ({"options": {"recompile_limit": True}}, "a whole number from 0 on, not True"),
        ({"options": {"providers": "CPU"}}, "a list of names, not 'CPU'"),
        ({"options": {"recompile_limit": -1}}, "a whole number from 0 on, not -1"),
        ({"options": CompileOptions(check="maybe")}, "True or False, not 'maybe'"),
        ({"options": ["check"]}, r"options=CompileOptions\(check=True\), not \['check'\]"),
        ({"dynamic": "yes"}, "dynamic is True, False or None, not 'yes'"),
        ({"fullgraph": "no"}, "fullgraph is True or False, not 'no'"),
    ],
)
def test_what_does_not_exist_is_met_with_what_does(changes, sentence):
    with pytest.raises(BadOption, match=sentence):
        resolved(**changes)


def test_options_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        resolved().trace = True


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_options_that_mean_nothing_to_a_backend_are_told(backend):
    with pytest.warns(
        UserWarning, match=f"options trace, labels act with backend 'inductor'; '{backend}' leaves them out"
    ):
        compile_api.compile(lambda x: x + 1, backend=backend, options={"trace": True, "labels": True})
