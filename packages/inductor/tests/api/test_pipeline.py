"""The list of stages, and what is held against the rules between them."""

from dataclasses import replace

import pytest
import torch
from compiled import traced

import inductor
from inductor import pipeline
from inductor.errors import InvalidIR
from inductor.ir.program import Launch

INPUTS = [torch.ones(4, 5)]


def compiled(folder):
    """Compiled anew: what lies in the cache has been through the stages."""
    return inductor.compile(traced(lambda x: x.softmax(-1) + 1, *INPUTS), INPUTS, options={"cache_dir": str(folder)})


def without_last_step(work):
    return replace(work, program=replace(work.program, steps=work.program.steps[:-1]))


def without_first_step(work):
    return replace(work, program=replace(work.program, steps=work.program.steps[1:]))


def without_layouts(work):
    steps = (
        replace(s, kernel=replace(s.kernel, layout=None)) if isinstance(s, Launch) else s for s in work.program.steps
    )
    return replace(work, program=replace(work.program, steps=tuple(steps)))


def of_other_buffers(work):
    return replace(work, graph=replace(work.graph, buffers={}))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        pytest.param("lower", of_other_buffers, id="a nest on what does not exist"),
        pytest.param("schedule", without_first_step, id="a buffer that nobody makes"),
        pytest.param("layout", without_layouts, id="kernels without layouts"),
        pytest.param("layout", without_last_step, id="items that are no steps"),
    ],
)
def test_a_stage_that_breaks_a_rule_is_told(name, spoil, monkeypatch, tmp_path):
    stages = tuple(
        replace(stage, run=lambda work, run=stage.run: spoil(run(work))) if stage.name == name else stage
        for stage in pipeline.STAGES
    )
    monkeypatch.setattr(pipeline, "STAGES", stages)
    with pytest.raises(InvalidIR):
        compiled(tmp_path)


def test_every_test_verifies():
    assert inductor.Options.read({}).verify


def test_the_stages_are_a_list(tmp_path):
    assert list(compiled(tmp_path).report.seconds) == [stage.name for stage in pipeline.STAGES]
