"""The reasons for which capture stops: the one list of kinds, and what a reason says.

A kind is a text, so that records can be counted by it; code asks which member it is, never what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The kinds of reasons, by which graph breaks, and frames that are left to CPython, are counted."""

    # What the program says itself.
    DISABLED = "disabled"
    ERROR_ON_GRAPH_BREAK = "error_on_graph_break"
    GRAPH_BREAK = "graph_break"
    STANCE = "stance"

    # Exceptions of the program, and what may be one.
    ERROR_AFTER_A_CHANGE = "error after a change"
    ERROR_IN_A_GRAPH = "error in a graph"
    ERROR_IN_AN_OPERATION = "error in an operation"
    EXCEPTION = "exception"
    EXCEPTION_VALUE = "exception value"
    TRACEBACK = "traceback"
    WARNING = "warning"
    WARNINGS = "warnings"

    # Data-dependent values.
    ASSUMED_CONSTANT = "assumed constant"
    CLOCK = "clock"
    DATA_DEPENDENT_OPERATION = "data-dependent operation"
    SIZE = "size"
    TENSOR_VALUE = "tensor value"
    VALUE = "value"
    DYNAMIC_SIZE = "dynamic size"

    # Tensors and torch.
    AUTOGRAD = "autograd"
    CHECKPOINT = "checkpoint"
    CONTEXT = "context"
    DATA_OF_A_TENSOR = "data of a tensor"
    DEVICE = "device"
    FUNCTION_TRANSFORM = "function transform"
    MEMORY = "memory"
    OPERAND = "operand"
    OPERATOR_WITHOUT_SHAPE_RULE = "operator without shape rule"
    OPTIMIZER = "optimizer"
    REPLACED_FUNCTION = "replaced function"
    RESIZED_TENSOR = "resized tensor"
    SCHEDULE = "schedule"
    TENSOR_ATTRIBUTE = "tensor attribute"
    TENSOR_LAYOUT = "tensor layout"
    TENSOR_SUBCLASS = "tensor subclass"
    TORCH = "torch"
    TORCHS_COMPILER = "torch's compiler"
    TRITON = "triton"

    # Calls, frames and what they look at.
    BUILTIN = "builtin"
    BUILTINS = "builtins"
    CALL = "call"
    CONTEXT_VARIABLE = "context variable"
    COROUTINE = "coroutine"
    FRAME = "frame"
    GENERATOR = "generator"
    IMPORT = "import"
    MEMOISED = "memoised"
    NAME = "name"
    NESTING = "nesting"
    OPCODE = "opcode"
    RECURSION = "recursion"
    SIGNATURE = "signature"
    SUPER = "super"

    # Objects and classes.
    ATTRIBUTE = "attribute"
    CLASS = "class"
    CLASS_ATTRIBUTE = "class attribute"
    COMPARISON = "comparison"
    COPY = "copy"
    DESCRIPTOR = "descriptor"
    EFFECTS = "effects"
    FINALIZER = "finalizer"
    FUNCTION_ATTRIBUTE = "function attribute"
    HASH = "hash"
    IDENTITY = "identity"
    LOCK = "lock"
    MODULE_ATTRIBUTE = "module attribute"
    SHARED_POOL = "shared pool"
    SHARED_STATE = "shared state"
    SPECIAL_METHOD = "special method"
    TEXT = "text"
    WEAK_REFERENCE = "weak reference"

    # Containers and iteration.
    CONTAINER = "container"
    DICT_KEYS = "dict keys"
    INDEX = "index"
    ITERATION = "iteration"
    ITERATOR = "iterator"
    MAPPING = "mapping"
    MATCH = "match"
    SET_ITEMS = "set items"

    # What capture itself decides, or fails at.
    BACKEND = "backend"
    FEW_OPERATORS = "few operators"
    IDLE = "idle"
    INTERNAL_ERROR = "internal error"
    OWN_EFFECTS = "own effects"
    REBUILD = "rebuild"
    RECOMPILE_LIMIT = "recompile limit"
    RESUME = "resume"
    SIZE_OF_A_GRAPH = "size of a graph"

    __repr__ = str.__repr__  # a record shows what it says


RAISES = frozenset({Kind.EXCEPTION, Kind.ERROR_IN_AN_OPERATION})
"""The program raises, or may: CPython runs the instruction, and nothing is broken."""

NEVER_REFUSED = frozenset({Kind.ERROR_IN_AN_OPERATION, Kind.ERROR_ON_GRAPH_BREAK})
"""Breaks that are no error where breaks are errors: an error of the program's own, and what ends that state."""


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason for which capture stopped: a kind to count by, a sentence, and what to do about it."""

    kind: Kind
    explanation: str
    hint: str = ""


class UsedUp(Reason):
    """An operation that fails because a backward has freed the history that it goes through."""
