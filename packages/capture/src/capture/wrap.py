"""Real objects to values: a table by type.  Each rule guards exactly what its value then takes for granted."""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import gc
import inspect
import itertools
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any, Protocol

import torch

from capture._engine import Outside, Region
from capture.graph import GraphRecorder
from capture.kernels.launches import is_host_function, is_kernel
from capture.layouts import OpenLayout
from capture.sources import (
    ArgSource,
    AttrSource,
    ConstSource,
    DictSource,
    GetitemSource,
    GlobalSource,
    ItemSource,
    KeySource,
    MadeSource,
    ObjectKeySource,
    ShownSource,
    Source,
    StorageSource,
    TypeSource,
)
from capture.torch_versions import OpOverload, OpOverloadPacket, is_functorch_wrapped_tensor
from capture.values.base import LazyValue, Tracer, Value, may_be_replaced, module_name, trusted
from capture.values.constant import UNBOUND, ConstantValue
from capture.values.container_object import ContainerObject, empty_contents, storage_class
from capture.values.context_var import ContextVarValue
from capture.values.exception import ExceptionValue
from capture.values.exception_group import ExceptionGroupValue
from capture.values.function import (
    BoundMethod,
    BuiltinValue,
    CellValue,
    ClassValue,
    FunctionValue,
    NamespaceValue,
    PartialValue,
    PythonModuleValue,
)
from capture.values.iterator import OutsideIterator
from capture.values.lock import LOCK, RLOCK, LockValue
from capture.values.mapping import DictValue, ObjectKey, is_compared_by_code
from capture.values.module import ModuleValue
from capture.values.scalar import ScalarValue
from capture.values.sequence import ListValue, OutsideList, SetValue, SliceValue, TupleValue, require_plain_tuple
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue
from capture.values.triton_kernel import HostFunction, KernelValue
from capture.values.user_object import UserObject, instance_dict


class World(Tracer, Protocol):
    """What wrapping needs beyond a tracer."""

    graph: GraphRecorder

    def open_layout(self, source: Source, tensor: torch.Tensor) -> OpenLayout:
        """The dimensions of a tensor input that are to be symbolic."""

    def is_dynamic(self, source: Source) -> bool:
        """Whether an int input is to be symbolic."""

    def varies(self, source: Source) -> bool:
        """Whether a float is known to differ from call to call."""

    def namespace(self, contents: dict[str, Any], source: Source, *, trusted: bool) -> NamespaceValue:
        """The one value of a module's globals."""


Rule = Callable[[World, Any, Source], Value]
_BY_TYPE: dict[type, Rule] = {}


def wraps(*types: type) -> Callable[[Rule], Rule]:
    """Registers a rule for exactly these types."""

    def register(rule: Rule) -> Rule:
        for cls in types:
            _BY_TYPE[cls] = rule
        return rule

    return register


def wrap_object(ctx: World, obj: Any, source: Source) -> Value:
    """The value of ``obj``; the caller keeps one value per object where identity matters."""
    rule = _BY_TYPE.get(type(obj)) or _by_ancestry(obj)
    return rule(ctx, obj, source)


def _by_ancestry(obj: Any) -> Rule:
    for cls, rule in _FALLBACKS:
        if issubclass(type(obj), cls):  # isinstance would ask the object, too
            return rule
    return wrap_of_triton if is_kernel(obj) or is_host_function(obj) else wrap_user_object


# -- immutable objects -------------------------------------------------------------------------------------------


@wraps(float)
def wrap_float(ctx: World, obj: float, source: Source) -> Value:
    if not ctx.varies(source):
        return wrap_constant(ctx, obj, source)
    ctx.guard(source, "type", float)
    return ScalarValue(float, source=source, now=obj)


@wraps(complex, str, bytes, bool, type(None), type(...), type(NotImplemented))
def wrap_constant(ctx: World, obj: Any, source: Source) -> Value:
    ctx.guard(source, "equals", obj)
    return ConstantValue(obj, source)


@wraps(torch.dtype, torch.device, torch.layout, torch.memory_format, range, frozenset)
def wrap_plain_data(ctx: World, obj: Any, source: Source) -> Value:
    ctx.guard(source, "equals", obj)
    return ConstantValue(obj, source)


@wraps(int)
def wrap_int(ctx: World, obj: int, source: Source) -> Value:
    dynamic = ctx.is_dynamic(source)
    if dynamic and source not in ctx.graph.inputs and ctx.effects.locks.is_holding():
        # Python's own number: as a symbol it would be read before the graph, and the lock be held as long.
        ctx.guard(source, "type", int)
        return ScalarValue(int, source=source, now=obj)
    if obj in (0, 1) or not dynamic:  # 0 and 1 mean too much to be any number
        return wrap_constant(ctx, obj, source)
    ctx.guard(source, "type", int)
    return _symbol_for(ctx, obj, source)


def _symbol_for(ctx: World, number: int, source: Source) -> SymbolicNumber:
    """One symbol per path, however often it is read."""
    node = ctx.graph.inputs.get(source)
    if node is None:
        node = ctx.graph.add_input(source, ctx.graph.symbolic_int(number, source))
    return SymbolicNumber(node, node.meta["val"], source)


@wraps(contextvars.ContextVar)
def wrap_context_var(ctx: World, obj: contextvars.ContextVar[Any], source: Source) -> Value:
    ctx.guard(source, "is", obj)
    return ContextVarValue(obj, source)


@wraps(contextvars.Token)
def wrap_token(ctx: World, obj: contextvars.Token[Any], source: Source) -> Value:
    """Another one every time; nothing is asked of it but what it is."""
    ctx.guard(source, "type", contextvars.Token)
    return UserObject(contextvars.Token, obj, source)


@wraps(CodeType, re.Pattern, re.Match, torch.torch_version.TorchVersion)
def wrap_fixed_object(ctx: World, obj: Any, source: Source) -> Value:
    ctx.guard(source, "is", obj)
    return ConstantValue(obj, source)


def wrap_enum(ctx: World, obj: enum.Enum, source: Source) -> Value:
    ctx.guard(source, "is", obj)
    return ConstantValue(obj, source)


@wraps(slice)
def wrap_slice(ctx: World, obj: slice, source: Source) -> Value:
    ctx.guard(source, "type", slice)
    start, stop, step = (LazyValue(getattr(obj, name), AttrSource(source, name)) for name in ("start", "stop", "step"))
    return SliceValue(start, stop, step)


# -- tensors -----------------------------------------------------------------------------------------------------


def wrap_tensor(ctx: World, obj: torch.Tensor, source: Source) -> Value:
    if type(obj) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        ctx.stop("tensor subclass", f"{source.expression()} is a {type(obj).__qualname__}, a subclass of Tensor")
    ordinary = obj.layout is torch.strided and not (obj.is_quantized or obj.is_nested or obj.is_neg())
    if not ordinary or is_functorch_wrapped_tensor(obj):
        ctx.stop("tensor layout", f"{source.expression()} is not an ordinary strided tensor")
    layout = ctx.open_layout(source, obj)
    fake = ctx.graph.fake_input(obj, source, layout)
    node = ctx.graph.add_input(source, fake)
    sizes = tuple(None if dim in layout.sizes else size for dim, size in enumerate(obj.shape))
    strides = ctx.graph.strides_relied_on(fake, obj)
    ctx.guard(source, "tensor", type(obj), obj.dtype, obj.device, obj.requires_grad, sizes, strides, ())
    value = TensorValue(node, fake, source, type(obj))
    value.obj = obj
    if fake.grad_fn is not None:
        ctx.graph.arrived[id(fake)] = (value, fake.grad_fn)
    return value


# -- containers --------------------------------------------------------------------------------------------------


@wraps(list)
def wrap_list(ctx: World, obj: list[Any], source: Source) -> Value:
    ctx.guard(source, "type", list)

    def read() -> list[Value]:
        ctx.guard(source, "length", len(obj))
        return [LazyValue(item, ItemSource(source, i)) for i, item in enumerate(obj)]

    @functools.cache
    def varying_length() -> Value | None:
        length = MadeSource(source, len)
        return _symbol_for(ctx, len(obj), length) if len(obj) > 1 and ctx.is_dynamic(length) else None

    return OutsideList(read, source, varying_length)


@wraps(collections.deque)
def wrap_deque(ctx: World, obj: collections.deque[Any], source: Source) -> Value:
    ctx.guard(source, "type", collections.deque)
    ctx.guard(source, "length", len(obj))
    items = (LazyValue(item, GetitemSource(source, i)) for i, item in enumerate(obj))
    value = ListValue(items, source, collections.deque)
    value.maxlen = _maxlen(ctx, obj, source)
    return value


def _maxlen(ctx: World, obj: collections.deque[Any], source: Source) -> int | None:
    if getattr(type(obj), "maxlen", None) is not _MAXLEN:
        ctx.stop("container", f"{source.expression()} is a deque with another `maxlen`")
    ctx.guard(AttrSource(source, "maxlen"), "equals", obj.maxlen)
    return obj.maxlen


_MAXLEN = vars(collections.deque)["maxlen"]


@wraps(tuple)
def wrap_tuple(ctx: World, obj: tuple[Any, ...], source: Source) -> Value:
    ctx.guard(source, "type", tuple)
    ctx.guard(source, "length", len(obj))
    return TupleValue((LazyValue(item, ItemSource(source, i)) for i, item in enumerate(obj)), source)


def wrap_tuple_subclass(ctx: World, obj: tuple[Any, ...], source: Source) -> Value:
    require_plain_tuple(ctx, type(obj))
    ctx.guard(source, "type", type(obj))
    ctx.guard(source, "length", len(obj))
    items = (LazyValue(item, GetitemSource(source, i)) for i, item in enumerate(obj))
    return TupleValue(items, source, type(obj))


@wraps(dict, collections.OrderedDict, collections.defaultdict)
def wrap_dict(ctx: World, obj: dict[Any, Any], source: Source) -> Value:
    ctx.guard(source, "type", type(obj))
    entries = _entries(ctx, obj, source)
    ctx.guard(source, "keys", tuple(key for key, _ in entries))
    value = DictValue(source, type(obj))
    for key, item in entries:
        hashed = _hashed(ctx, key, source)
        path = ObjectKeySource(source, key) if isinstance(hashed, ObjectKey) else KeySource(source, key)
        value.entries[hashed] = (ctx.literal(key), LazyValue(item, path))
    value.found = dict(value.entries)
    if attributes := getattr(obj, "__dict__", None):
        ctx.guard(DictSource(source), "keys", tuple(attributes))
        value.attributes = {n: LazyValue(held, AttrSource(source, n)) for n, held in attributes.items()}
    if isinstance(obj, collections.defaultdict):
        value.default_factory = ctx.wrap(obj.default_factory, AttrSource(source, "default_factory"))
    return value


def _entries(ctx: World, obj: dict[Any, Any], source: Source) -> list[tuple[Any, Any]]:
    """The entries of a real mapping, in its own order and past the methods of a subclass."""
    keys: Any = collections.OrderedDict if isinstance(obj, collections.OrderedDict) else dict
    try:
        return [(key, dict.__getitem__(obj, key)) for key in keys.__iter__(obj)]
    except (KeyError, RuntimeError):  # changed by methods of ``dict``, which keep no order
        ctx.stop("container", f"{source.expression()} is an OrderedDict whose order is broken")


def wrap_container_object(ctx: World, obj: Any, source: Source) -> Value:
    """An instance of a subclass of a builtin container: its contents are read past the subclass's methods."""
    ctx.guard(source, "type", type(obj))
    base: Any = storage_class(type(obj))
    contents = empty_contents(base)
    contents.source = source
    if isinstance(contents, DictValue):
        ctx.guard(source, "keys", tuple(dict.keys(obj)))
        for key, item in _entries(ctx, obj, source):
            held = LazyValue(item, StorageSource(source, key, base))
            contents.entries[_hashed(ctx, key, source)] = (ctx.literal(key), held)
        if base is collections.defaultdict:
            contents.default_factory = ctx.wrap(obj.default_factory, AttrSource(source, "default_factory"))
    elif base is set:
        ctx.stop("container", f"{source.expression()} is a {type(obj).__qualname__}, a subclass of {base.__qualname__}")
    elif isinstance(contents, ListValue):
        ctx.guard(source, "length", base.__len__(obj))
        step = GetitemSource if base is collections.deque else functools.partial(StorageSource, base_class=base)
        contents.items = [LazyValue(item, step(source, i)) for i, item in enumerate(base.__iter__(obj))]
        contents.maxlen = _maxlen(ctx, obj, source) if base is collections.deque else None
    return ContainerObject(type(obj), contents, obj, source)


_KEY_TYPES = (str, int, float, bool, type(None), bytes, enum.Enum, torch.dtype, torch.device, tuple, type)


def _hashed(ctx: World, key: Any, source: Source) -> Any:
    """What a key of a real dict is kept under."""
    if type(key) is tuple:
        return tuple(_hashed(ctx, item, source) for item in key)
    if isinstance(key, _KEY_TYPES) and not is_compared_by_code(key):
        return key
    hashing: Any = type(key).__hash__
    if hashing is not object.__hash__ and not isinstance(key, (FunctionType, torch.nn.Module, torch.Tensor)):
        ctx.stop("dict keys", f"`{source.expression()}` has keys with a hash of their own", "use strings or numbers")
    ctx.keys.rely_on_objects(ctx)
    return ObjectKey(ctx.literal(key))


_HELD_BY_A_PROXY = 3
"""References to a dict that only a proxy, a variable and the question refer to."""


@wraps(MappingProxyType)
def wrap_mapping_proxy(ctx: World, obj: MappingProxyType[Any, Any], source: Source) -> Value:
    """What a class or a library shows of a dict of its own; nobody can change it through here."""
    shown = gc.get_referents(obj)[0]
    if type(shown) not in (dict, collections.OrderedDict):
        ctx.stop("mapping", f"`{source.expression()}` shows a mapping with methods of its own")
    if "__module__" not in shown and sys.getrefcount(shown) > _HELD_BY_A_PROXY:
        ctx.stop("mapping", f"`{source.expression()}` shows a dict that others hold, and may change")
    if not isinstance(source, ConstSource):
        ctx.guard(ShownSource(source), "keys", tuple(obj))
    value = DictValue(source, MappingProxyType)
    value.entries = {key: (ctx.literal(key), LazyValue(item, GetitemSource(source, key))) for key, item in obj.items()}
    return value


@wraps(set)
def wrap_set(ctx: World, obj: set[Any], source: Source) -> Value:
    if not all(isinstance(item, _KEY_TYPES) and not is_compared_by_code(item) for item in obj):
        ctx.stop("set items", f"`{source.expression()}` has items that are not constants")
    ctx.guard(source, "items", frozenset(obj), text=f"{source.expression()} is {obj!r}")
    return SetValue(((item, ctx.literal(item)) for item in obj), source)


# -- callables ---------------------------------------------------------------------------------------------------


def same_object(ctx: World, obj: Any, source: Source) -> Source:
    """Guards the identity of ``obj``; what is trusted is afterwards found without the path."""
    fixed = trusted(obj)
    root = source.root()
    looked_up = not (fixed and isinstance(root, ConstSource)) and not isinstance(source, TypeSource)
    if looked_up or may_be_replaced(source, obj):
        ctx.guard(source, "is", obj)
    return ConstSource(obj, getattr(obj, "__qualname__", source.expression())) if fixed else source


@wraps(FunctionType)
def wrap_function(ctx: World, obj: FunctionType, source: Source) -> Value:
    rely_on_identity = None
    if _is_made_for_a_call(obj, source):
        _rely_on_code(ctx, obj, source)
        rely_on_identity = functools.partial(ctx.guard, source, "is", obj)
    else:
        source = same_object(ctx, obj, source)
    defaults = [
        LazyValue(item, ItemSource(AttrSource(source, "__defaults__"), i))
        for i, item in enumerate(obj.__defaults__ or ())
    ]
    keyword_defaults = {
        name: LazyValue(item, KeySource(AttrSource(source, "__kwdefaults__"), name))
        for name, item in (obj.__kwdefaults__ or {}).items()
    }
    cells = []
    for index, cell in enumerate(obj.__closure__ or ()):
        found = ctx.wrap(cell, ItemSource(AttrSource(source, "__closure__"), index))
        assert isinstance(found, CellValue)
        cells.append(found)
    namespace = namespace_of(ctx, obj, source)
    return FunctionValue(
        obj.__code__,
        namespace,
        qualname=obj.__qualname__,
        defaults=defaults,
        keyword_defaults=keyword_defaults,
        closure=cells,
        function=obj,
        source=source,
        rely_on_identity=rely_on_identity,
    )


def _is_made_for_a_call(obj: FunctionType, source: Source) -> bool:
    """An argument defined in a function, or without a name: the next call is likely to bring another of its code."""
    made_again = ("<locals>" in obj.__qualname__ or "<lambda>" in obj.__qualname__) and vars(obj).keys() <= {
        "__wrapped__"
    }
    return made_again and isinstance(source.root(), ArgSource) and not trusted(obj)


def _rely_on_code(ctx: World, obj: FunctionType, source: Source) -> None:
    ctx.guard(source, "type", FunctionType)
    ctx.guard(AttrSource(source, "__code__"), "is", obj.__code__)
    ctx.guard(AttrSource(source, "__dict__"), "keys", tuple(vars(obj)))
    for name in ("__defaults__", "__kwdefaults__", "__closure__"):
        held = getattr(obj, name)
        kind, expected = ("equals", None) if held is None else ("length", len(held))
        ctx.guard(AttrSource(source, name), kind, expected)
    # The globals live as long as the code; to hold them would keep their module alive.
    text = f"{source.expression()} is of its module"
    ctx.guard(AttrSource(source, "__globals__"), "at", id(obj.__globals__), text=text)


def namespace_of(ctx: World, function: FunctionType, source: Source) -> NamespaceValue:
    module = sys.modules.get(module_name(function))
    if module is not None and vars(module) is function.__globals__ and trusted(module):
        path: Source = AttrSource(ConstSource(module, module.__name__), "__dict__")
    else:
        path = AttrSource(source, "__globals__")
    return ctx.namespace(function.__globals__, path, trusted=isinstance(path.root(), ConstSource))


@wraps(CellType)
def wrap_cell(ctx: World, obj: Any, source: Source) -> Value:
    try:
        content: Value = LazyValue(obj.cell_contents, AttrSource(source, "cell_contents"))
    except ValueError:
        ctx.guard(AttrSource(source, "cell_contents"), "absent")
        content = UNBOUND
    return CellValue(content, source)


@wraps(MethodType)
def wrap_method(ctx: World, obj: MethodType, source: Source) -> Value:
    ctx.guard(source, "type", MethodType)
    receiver = ctx.wrap(obj.__self__, AttrSource(source, "__self__"))
    return BoundMethod(receiver, ctx.wrap(obj.__func__, AttrSource(source, "__func__")))


@wraps(functools.partial)
def wrap_partial(ctx: World, obj: functools.partial[Any], source: Source) -> Value:
    ctx.guard(source, "type", functools.partial)
    ctx.guard(AttrSource(source, "args"), "length", len(obj.args))
    ctx.guard(AttrSource(source, "keywords"), "keys", tuple(obj.keywords))
    function = ctx.wrap(obj.func, AttrSource(source, "func"))
    args = [LazyValue(item, ItemSource(AttrSource(source, "args"), i)) for i, item in enumerate(obj.args)]
    kwargs = {k: LazyValue(v, KeySource(AttrSource(source, "keywords"), k)) for k, v in obj.keywords.items()}
    return PartialValue(function, args, kwargs, source)


@wraps(Region)
def wrap_region(ctx: World, obj: Region, source: Source) -> Value:
    """A captured function called by captured code is part of it."""
    ctx.guard(source, "type", Region)
    return ctx.wrap(obj.function, AttrSource(source, "function"))


@wraps(Outside)
def wrap_outside(ctx: World, obj: Outside, source: Source) -> Value:
    ctx.guard(source, "is", obj)
    return BuiltinValue(obj, source)


@wraps(ModuleType)
def wrap_python_module(ctx: World, obj: ModuleType, source: Source) -> Value:
    if isinstance(type(obj).__getattribute__, FunctionType):
        return wrap_user_object(ctx, obj, source)
    return PythonModuleValue(obj, same_object(ctx, obj, source))


def wrap_class(ctx: World, obj: type, source: Source) -> Value:
    if not trusted(obj) and not all(type(name) is str for name in vars(obj)):
        ctx.stop("class", f"{source.expression()} is a class with members under objects, which compare by code")
    return ClassValue(obj, same_object(ctx, obj, source))


def _has_values(owner: Any) -> bool:
    """Whether a method's receiver is evaluated: reading the method from it makes another object every time."""
    return type(owner) in _BY_TYPE or isinstance(owner, torch.Tensor)


def wrap_builtin(ctx: World, obj: Any, source: Source) -> Value:
    owner = getattr(obj, "__self__", None)
    if isinstance(owner, type) and not trusted(owner):
        method = inspect.getattr_static(owner, obj.__name__, None)
        if isinstance(method, ClassMethodDescriptorType):  # reading it from its class makes another object every time
            ctx.guard(source, "type", type(obj))
            ctx.guard(AttrSource(source, "__name__"), "equals", obj.__name__)
            return BuiltinValue(method, receiver=ctx.wrap(owner, AttrSource(source, "__self__")))
    if owner is None or isinstance(owner, (ModuleType, type)) or (trusted(obj) and not _has_values(owner)):
        return BuiltinValue(obj, same_object(ctx, obj, source))
    name = obj.__name__
    ctx.guard(source, "type", type(obj))
    ctx.guard(AttrSource(source, "__name__"), "equals", name)
    receiver = ctx.wrap(owner, AttrSource(source, "__self__"))
    return receiver.attribute(ctx, name)


@wraps(LOCK, RLOCK)
def wrap_lock(ctx: World, obj: Any, source: Source) -> Value:
    """Whichever it is."""
    ctx.guard(source, "type", type(obj))
    return LockValue(type(obj), obj, source)


# -- iterators ---------------------------------------------------------------------------------------------------


_MADE_IN_C: tuple[Iterator[Any], ...] = (
    iter([]),
    reversed([]),
    iter(()),
    iter(""),
    iter(b""),
    iter(range(0)),
    iter(set()),
    iter(int, 1),
)
_OF_DICTS: tuple[Any, ...] = ({}.keys(), {}.values(), {}.items(), collections.OrderedDict().items())


@wraps(*(type(iterator) for iterator in _MADE_IN_C), *(type(iter(view)) for view in _OF_DICTS))
@wraps(*(type(reversed(view)) for view in _OF_DICTS), type(iter(range(1 << 64))), type(iter(collections.deque())))
@wraps(zip, enumerate, map, filter, reversed, GeneratorType)
@wraps(*(cls for cls in vars(itertools).values() if isinstance(cls, type) and hasattr(cls, "__next__")))
def wrap_iterator(ctx: World, obj: Any, source: Source) -> Value:
    ctx.guard(source, "type", type(obj))
    return OutsideIterator(type(obj), source)


@wraps(TracebackType)
def wrap_traceback(ctx: World, obj: TracebackType, source: Source) -> Value:
    """Another one every time; it is only ever handed on."""
    ctx.guard(source, "type", TracebackType)
    return UserObject(TracebackType, obj, source)


# -- objects -----------------------------------------------------------------------------------------------------


def wrap_module(ctx: World, obj: torch.nn.Module, source: Source) -> Value:
    ctx.guard(source, "type", type(obj))
    return ModuleValue(type(obj), obj, source)


def wrap_exception(ctx: World, obj: BaseException, source: Source) -> Value:
    ctx.guard(source, "type", type(obj))
    kind = ExceptionGroupValue if issubclass(type(obj), BaseExceptionGroup) else ExceptionValue
    return kind(type(obj), (), obj, source)


def wrap_user_object(ctx: World, obj: Any, source: Source) -> Value:
    ctx.guard(source, "type", type(obj))
    if instance_dict(obj) is None and trusted(type(obj)) and _is_opaque(type(obj)) and not _is_passing(type(obj)):
        ctx.guard(source, "is", obj)  # opaque: all that is known of it is which one it is
    return UserObject(type(obj), obj, source)


def wrap_of_triton(ctx: World, obj: Any, source: Source) -> Value:
    ctx.guard(source, "is", obj)
    return (KernelValue if is_kernel(obj) else HostFunction)(type(obj), obj, source)


def _is_opaque(cls: type) -> bool:
    """A type made in C, of which nothing is known but what its rules say."""
    return cls.__flags__ & (1 << 9) == 0 and cls is not weakref.ref


def _is_passing(cls: Any) -> bool:
    """An iterator that nothing can refer to weakly: a guard would keep it, and what it goes over, for good."""
    return cls.__weakrefoffset__ == 0 and hasattr(cls, "__next__")


_FALLBACKS: tuple[tuple[Any, Rule], ...] = (
    (torch.Tensor, wrap_tensor),
    (torch.nn.Module, wrap_module),
    (enum.Enum, wrap_enum),
    (type, wrap_class),
    (ModuleType, wrap_python_module),
    (BaseException, wrap_exception),
    (tuple, wrap_tuple_subclass),
    ((dict, list, set, collections.deque), wrap_container_object),
    (
        (BuiltinFunctionType, type(len), type(str.join), type(object.__init__), type({}.__contains__)),
        wrap_builtin,
    ),
    ((OpOverload, OpOverloadPacket, functools._lru_cache_wrapper), wrap_builtin),
)


def global_source(namespace: NamespaceValue, name: str) -> Source:
    """Where a global of ``namespace`` is read: the frame's own by name, another module's through its dict."""
    if namespace.source is None:
        return GlobalSource(name)
    return KeySource(namespace.source, name)
