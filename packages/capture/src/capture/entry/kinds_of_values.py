"""The kinds of values, each with all of its parts: the one place where they are put together.

A value stands for an object during the evaluation (``values``); real objects become values by what ``wraps`` them;
``rules`` say what functions without Python code do with them; and ``builds`` makes them again where CPython goes on.
Importing this module imports every part, and each writes itself into the table of its room.  Who adds a kind begins
here: a row of its own, or its parts in the row of its subject.
"""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from capture.evaluator import wrap, wrap_containers
from capture.evaluator.builtin_rules import (
    autograd,
    checkpoints,
    classes,
    clocks,
    containers,
    context_vars,
    copying,
    cuda_devices,
    custom_functions,
    decorators,
    descriptors,
    dynamic_floats,
    environment,
    exceptions,
    factors,
    formulas,
    functions_of_dynamic_sizes,
    functions_of_numbers,
    generators,
    indexing,
    instances,
    introspection,
    iteration,
    left_to_python,
    locks,
    membership,
    memoised,
    notices,
    numbers_that_fit,
    numbers_to_tensors,
    numpy_scalars,
    objects,
    operators,
    optimizers,
    positions,
    quantiles,
    scalars,
    scripted,
    sets,
    signatures,
    storage,
    texts,
    texts_of_objects,
    torch_functions,
    torch_state,
    transforms,
    triton_kernels,
)
from capture.values import classes as existing_classes
from capture.values import (
    clock,
    constant,
    container_object,
    context,
    context_var,
    exception,
    exception_group,
    function,
    generator,
    instance_dict,
    iterating,
    iterator,
    lock,
    made_class,
    mapping,
    module,
    partial,
    scalar,
    sequence,
    symint,
    tensor,
    transform,
    triton_kernel,
    user_object,
)
from capture.values import scripted as values_scripted
from capture.writing.rebuild import callables, contexts, effects, iterators, plain
from capture.writing.rebuild import containers as built_containers
from capture.writing.rebuild import locks as built_locks
from capture.writing.rebuild import objects as built_objects

Modules = tuple[ModuleType, ...]


class Parts(NamedTuple):
    """The modules that a kind consists of, by room."""

    values: Modules
    wraps: Modules = (wrap,)
    rules: Modules = ()
    builds: Modules = ()


KINDS: dict[str, Parts] = {
    "constants and texts": Parts((constant,), rules=(operators, texts, texts_of_objects), builds=(plain,)),
    "numbers that vary": Parts(
        (scalar, symint),
        rules=(
            formulas,
            scalars,
            factors,
            functions_of_numbers,
            numbers_that_fit,
            numbers_to_tensors,
            numpy_scalars,
            dynamic_floats,
            functions_of_dynamic_sizes,
        ),
        builds=(plain,),
    ),
    "tensors": Parts(
        (tensor,),
        rules=(torch_functions, autograd, checkpoints, custom_functions, optimizers, positions, quantiles),
        builds=(plain, callables, effects),
    ),
    "lists, tuples, dicts and sets": Parts(
        (sequence, mapping),
        wraps=(wrap_containers,),
        rules=(containers, indexing, sets, membership, copying),
        builds=(built_containers, effects),
    ),
    "subclasses of the builtin containers": Parts(
        (container_object,), wraps=(wrap_containers,), rules=(storage,), builds=(built_objects, effects)
    ),
    "iterators": Parts((iterator, iterating), rules=(iteration,), builds=(iterators,)),
    "generators and coroutines": Parts((generator,), rules=(generators,), builds=(iterators,)),
    "objects": Parts(
        (user_object, instance_dict), rules=(objects, instances, introspection), builds=(built_objects, effects)
    ),
    "modules": Parts((module,), builds=(built_objects, effects)),
    "exceptions": Parts((exception, exception_group), rules=(exceptions,), builds=(built_objects, effects)),
    "functions, classes and namespaces": Parts(
        (function, partial, existing_classes),
        rules=(decorators, descriptors, environment, left_to_python, memoised, notices, signatures),
        builds=(callables, plain, effects),
    ),
    "classes that captured code defines": Parts((made_class,), wraps=(), rules=(classes,), builds=(callables,)),
    "torch's contexts": Parts((context,), wraps=(), rules=(torch_state, cuda_devices), builds=(contexts,)),
    "context variables": Parts((context_var,), rules=(context_vars,), builds=(built_objects, effects)),
    "locks": Parts((lock,), rules=(locks,), builds=(built_locks,)),
    "clocks": Parts((clock,), wraps=(), rules=(clocks,), builds=(plain,)),
    "transforms of torch.func": Parts((transform,), wraps=(), rules=(transforms,), builds=(callables,)),
    "functions of torch.jit": Parts((values_scripted,), rules=(scripted,)),
    "Triton kernels": Parts((triton_kernel,), rules=(triton_kernels,), builds=(callables,)),
}
