"""Rules for whole families of functions, in the order in which they are asked.

A function comes here where no rule of its own fits its operands.  A family answers, declines with None, or ends the
graph.  The order is part of what they mean: data-dependent numbers are looked at before constants are
computed with, and what is recorded as it is comes after all who would record something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from capture.evaluator.builtin_rules.dynamic_floats import dynamic_float
from capture.evaluator.builtin_rules.factors import data_dependent_numbers
from capture.evaluator.builtin_rules.functions_of_dynamic_sizes import as_a_program, operator_of_dynamic_sizes
from capture.evaluator.builtin_rules.functions_of_numbers import functions_of_numbers
from capture.evaluator.builtin_rules.instances import construct
from capture.evaluator.builtin_rules.left_to_python import disabled
from capture.evaluator.builtin_rules.memoised import memoised
from capture.evaluator.builtin_rules.notices import say_later
from capture.evaluator.builtin_rules.numbers_that_fit import numbers_that_may_not_fit
from capture.evaluator.builtin_rules.numbers_to_tensors import made_of_numbers
from capture.evaluator.builtin_rules.numpy_scalars import numpy_function
from capture.evaluator.builtin_rules.objects import methods_of_constants
from capture.evaluator.builtin_rules.operators import operators
from capture.evaluator.builtin_rules.quantiles import quantiles_within_range
from capture.evaluator.builtin_rules.scalars import number_operators, relied_on
from capture.evaluator.builtin_rules.torch_functions import record_operations, torch_constants
from capture.evaluator.world import World
from capture.values.base import Value

Family = Callable[[World, Any, Sequence[Value], Mapping[str, Value]], Value | None]

FAMILIES: tuple[Family, ...] = (
    say_later,  # what the program lets be said at the end, whatever it is
    # Data-dependent numbers and tensors, where torch or Python asks what they are.
    numbers_that_may_not_fit,
    quantiles_within_range,
    dynamic_float,
    data_dependent_numbers,
    functions_of_numbers,
    number_operators,
    # Python's own functions.
    disabled,
    operators,
    memoised,
    methods_of_constants,
    construct,
    # Torch's functions where a length or a number varies, then all others, as they are.
    operator_of_dynamic_sizes,
    made_of_numbers,
    as_a_program,
    numpy_function,
    record_operations,
    torch_constants,
    relied_on,  # at last: with its numbers as they are in this call, which asks all of this again
)
