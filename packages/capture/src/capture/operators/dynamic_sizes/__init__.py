"""What torch computes for one length only, for lengths that vary: operators with symbols for lengths, and programs.

``again`` defines operators; ``made`` are those that make a tensor and ``pooled`` those that pool; ``programs`` are
functions of torch's over functions that take symbols.
Must not know: graphs, values of the evaluator.
"""

from capture.operators.dynamic_sizes import made, pooled
from capture.operators.dynamic_sizes.again import define_all, operator_of
from capture.operators.dynamic_sizes.programs import PROGRAMS, PROGRAMS_OF_NUMBERS

__all__ = ["PROGRAMS", "PROGRAMS_OF_NUMBERS", "define_all", "made", "operator_of", "pooled"]
