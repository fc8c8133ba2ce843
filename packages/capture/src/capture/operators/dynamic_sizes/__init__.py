"""Operators and programs over dynamic sizes, for what torch computes of constant sizes only.

``symint_operators`` defines operators whose sizes are symbols; ``factories`` make a tensor and ``pooling`` pools;
``programs`` are functions of torch's over functions that take symbols.
Must not know: graphs, values of the evaluator.
"""

from capture.operators.dynamic_sizes import factories, pooling
from capture.operators.dynamic_sizes.programs import PROGRAMS, PROGRAMS_OF_NUMBERS
from capture.operators.dynamic_sizes.symint_operators import define_all, operator_of

__all__ = ["PROGRAMS", "PROGRAMS_OF_NUMBERS", "define_all", "factories", "operator_of", "pooling"]
