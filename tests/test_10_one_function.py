"""The documentation's first page is what the tool prints, and every stage is on it."""

import sys
from pathlib import Path

import pytest
import torch

from compile_api.walkthrough import walkthrough

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))


def swish(x):
    return x * torch.sigmoid(x)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the page shows the bytecode of Python 3.11")
def test_the_page_is_up_to_date():
    import one_function

    written = one_function.PAGE.read_text()
    assert one_function.page() == written, "run `python examples/one_function.py` and look at what changed"


def test_every_stage_of_inference_is_shown():
    walked = walkthrough(swish)(torch.randn(10))
    assert [stage.title for stage in walked.stages] == [
        "The function",
        "Its bytecode",
        "The captured graph",
        "What the graph relies on",
        "The bytecode that runs instead",
        "The inference graph",
        "The inference graph: loops, before fusion",
        "The inference graph: the program, after fusion",
        "The inference graph: the kernels",
        "The inference graph: the wrapper",
    ]
    assert "sigmoid" in walked["The inference graph: the kernels"].text


def test_a_stage_that_is_not_there_is_an_error():
    with pytest.raises(KeyError, match="no stage 'The moon'; there are The function"):
        walkthrough(swish)(torch.randn(10))["The moon"]
