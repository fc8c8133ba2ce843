"""Random operators run again from what they drew, instead of drawing once more.

Must not know: who runs them again.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

aten = torch.ops.aten


def dropout_scale(probability: float) -> float:
    """What dropout multiplies the values by that it keeps."""
    return 0.0 if probability == 1 else 1.0 / (1.0 - probability)


def is_dropout_mask(node: fx.Node) -> bool:
    """Is this what a `native_dropout` drew?"""
    source = node.args[0] if node.target is operator.getitem else None
    return isinstance(source, fx.Node) and source.target is aten.native_dropout.default and node.args[1] == 1


def dropout_from_mask(graph: fx.Graph, node: fx.Node, mask: fx.Node) -> None:
    """The values of a `native_dropout` are computed from its mask."""
    for item in [user for user in node.users if user.args[1] == 0]:
        with graph.inserting_before(item):
            values = graph.call_function(
                aten.native_dropout_backward.default, (node.args[0], mask, dropout_scale(float(node.args[1])))
            )
        values.meta = dict(item.meta)
        item.replace_all_uses_with(values)
