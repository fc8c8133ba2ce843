"""Rules for operators that must be met above autograd, because below it the choice that they influence is made already.

A table of rules keyed by the torch-level function; everything else passes.
Must not know: recording.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch.nn import functional as nnf
from torch.overrides import TorchFunctionMode

from aotgrad import recurrent
from aotgrad.errors import FailsOnFakes, Unsupported
from aotgrad.pre_autograd.autocast_of_writes import as_torch_casts
from aotgrad.pre_autograd.drawn_slopes import sloped
from aotgrad.pre_autograd.eigenvector_gradients import eigenvectors
from aotgrad.pre_autograd.expanded_views import plainly
from aotgrad.pre_autograd.extremum_gradients import extreme
from aotgrad.pre_autograd.fixed_statistics import with_fixed_statistics
from aotgrad.pre_autograd.inner_gradients import refuse_gradients_from_outside
from aotgrad.pre_autograd.kept_windows import in_copied_memory
from aotgrad.pre_autograd.mismatched_operands import refuse_misfits
from aotgrad.pre_autograd.new_layouts import NEW_LAYOUT, NewLayouts
from aotgrad.pre_autograd.outs import Args, Named
from aotgrad.pre_autograd.overlapping_writes import refuse_overlaps, refuse_shared_operands
from aotgrad.pre_autograd.own_results import as_operators_give, own
from aotgrad.pre_autograd.product_gradients import product
from aotgrad.pre_autograd.written_to_out import written_as_they_lie
from aotgrad.recording.custom_ops import call_functional, parted, writing_overload
from aotgrad.recording.histories import Histories
from aotgrad.recording.memory_order import (
    has_known_layout,
    lies_in_order,
    refuse_normal,
    symbolic_out_of_order,
)
from aotgrad.recording.watched_views import Watched
from aotgrad.tensors import functional
from aotgrad.torch_versions import (
    DisablePythonDispatcher,
    DisableTorchDispatch,
    TensorBase,
    engine_run_backward,
    is_any_autocast_enabled,
    make_grads,
    native_batch_norm_legit,
    pytree,
    set_grad_enabled,
    version_of,
)

Rule = Callable[..., Any]
Writing = Callable[[Sequence[torch.Tensor]], AbstractContextManager[None]]

# torch's own checks of the sizes that batch and instance norm take in training; private, and untyped where torch is.
_check_batch: Callable[..., None] = getattr(nnf, "_verify_batch_size")  # noqa: B009
_check_spatial: Callable[..., None] = getattr(nnf, "_verify_spatial_size")  # noqa: B009

RULES: dict[Callable[..., Any], Rule] = {}


class EarlyRules(TorchFunctionMode):
    """The mode that puts the rules of this module in force.

    `layouts` are tensors without data that stand for inputs, by id: they follow every change of layout in place, which
    a functional tensor forgets when its data is replaced.  `arrived` are inputs with a history outside of the graph, by
    the node at which that begins.  `writing` is told of the values in which an operator writes in place.  `versions`
    are those that views had when they were made, by id.  `histories` are told the operands of operators.
    `by_rules`: torch's rules in Python run instead of its kernels' own.
    """

    def __init__(
        self,
        layouts: Mapping[int, torch.Tensor],
        arrived: Mapping[object, torch.Tensor],
        writing: Writing,
        versions: dict[int, tuple[torch.Tensor, int]],
        histories: Histories,
        watched: Watched,
        by_rules: bool,
    ) -> None:
        super().__init__()
        self._layouts, self._arrived, self._writing, self._versions = layouts, arrived, writing, versions
        self._histories, self._watched, self._by_rules = histories, watched, by_rules
        self._new_layouts = NewLayouts()

    def __torch_function__(
        self,
        func: object,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        # They compute and change nothing, and tracing asks them for every input and result.
        if func in QUESTIONS:
            return func(*args, **(kwargs or {}))  # type: ignore[operator]
        func, kwargs = _torchs_own(func), dict(kwargs or {})
        apart = torch.is_inference_mode_enabled() and func is not set_grad_enabled  # which is to last
        with (
            functional.taken_apart() if apart else nullcontext(),
            as_torch_casts(_name(func), kwargs, in_place=_writes_in_place(func) and not isinstance(func, FunctionType))
            if is_any_autocast_enabled()
            else nullcontext(),
        ):
            result = self._run(func, args, kwargs)
        if func != _FORGETS_HOOKS:
            self._watched.look()
        return result

    def _run(self, func: Any, args: Args, kwargs: Named) -> Any:
        if func == _FORGETS_HOOKS:
            return func(*args, **kwargs)
        refuse_overlaps(func, args, kwargs)
        refuse_misfits(func, args, kwargs, by_rules=self._by_rules)
        _refuse_out_with_gradients(args, kwargs)
        _refuse_write_to_inference(func, args, kwargs)
        if self._new_layouts and args and (_writes_in_place(func) or _told_to_write(func, args, kwargs)):
            self._new_layouts.refuse_write(args[0], (args[1:], kwargs))
        if _name(func) in ("randn", "normal") and isinstance(kwargs.get("out"), torch.Tensor):
            refuse_normal(kwargs["out"])
        if func is set_grad_enabled:
            self._histories.switch(*args)
        elif self._histories.leaves and _takes_values(func):
            args, kwargs = self._histories.arguments(args, kwargs, written=_writes_in_place(func))
        if self._histories.goes_back and func == _DATA:
            func = torch.Tensor.detach  # which the graph shows, and `.data` does not
        written = written_as_they_lie(func, args, kwargs, self._called, self._copy)
        return self._called(func, args, kwargs) if written is NotImplemented else written

    def _called(self, func: Any, args: Args, kwargs: Named) -> Any:
        rule = RULES.get(func)
        if _name(func) in _LAID_OUT_ANEW and functional.is_functional(args[0]) and symbolic_out_of_order(args[0]):
            rule = partial(_written_by_a_copy, rule or func)
        if rule is not None:
            with self._keeping_layout(func, args, {}):  # a rule sees to what it does in place, or leaves it
                result = rule(*args, **kwargs)
            if result is not NotImplemented:
                return self._made(func, args, kwargs, result)
        if func is torch.autograd.grad:
            refuse_gradients_from_outside(self._arrived, *args[:2])
        # The mode is off within its own handler; what backward calls, such as hooks, is to be met here, too.
        if func is torch.autograd.grad and not (kwargs["is_grads_batched"] or kwargs["materialize_grads"]):
            with self:
                return _gradients(*args, **kwargs)
        self._follow(func, args, kwargs)
        writing = writing_overload(func, args, kwargs)
        if writing is not None:
            refuse_shared_operands(str(writing), *parted(writing, args, kwargs))
            return call_functional(writing, args, kwargs)
        with self._keeping_layout(func, args, kwargs):
            result = func(*args, **kwargs)
        _count_writes_to_list(func, args)
        return self._made(func, args, kwargs, result)

    def _made(self, func: Rule, args: Args, kwargs: Named, result: object) -> object:
        """The result, of which the views that are made by the program are noted."""
        if self._by_rules and func not in _NO_OPERATORS:
            result = as_operators_give(func, args, kwargs, result)
        for view in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(view, torch.Tensor) and view._is_view() and not view.is_inference():
                self._versions.setdefault(id(view), (view, int(version_of(view))))
        return result

    def _keeping_layout(
        self, func: object, args: Sequence[object], kwargs: Mapping[str, object]
    ) -> AbstractContextManager[None]:
        """Keeps the layout of tensors written in place, where functionalization puts a new value in their place."""
        targets = args[0] if args and (_writes_in_place(func) or _told_to_write(func, args, kwargs)) else ()
        targets = targets if isinstance(targets, (list, tuple)) else (targets,)
        if not all(isinstance(target, torch.Tensor) and functional.is_functional(target) for target in targets):
            return nullcontext()
        if all(map(lies_in_order, targets)):
            return nullcontext()
        return self._writing([functional.current(target) for target in targets])

    def _copy(self, tensor: torch.Tensor, value: torch.Tensor) -> None:
        with self._keeping_layout(torch.Tensor.copy_, (tensor,), {}):
            tensor.copy_(value)

    def _follow(self, func: object, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        name = _name(func)
        if name not in NEW_LAYOUT or not args:
            return
        self._new_layouts.note(args[0], (view for view, _ in self._versions.values()))
        if id(args[0]) in self._layouts:
            with DisableTorchDispatch(), torch.no_grad():
                getattr(self._layouts[id(args[0])], name)(*args[1:], **kwargs)


_DATA = torch.Tensor.data.__get__

_FORGETS_HOOKS = TensorBase._backward_hooks.__set__
"""The setter that autograd calls while it gives a view its new history: asking for that here would wait for it for
ever."""

QUESTIONS = frozenset((
    *(getattr(TensorBase, name) for name in (
        "size", "dim", "stride", "numel", "storage_offset", "is_contiguous", "is_floating_point", "is_complex",
        "is_inference", "is_conj", "is_neg", "_is_view",
    )),
    *(getattr(TensorBase, name).__get__ for name in (
        "shape", "ndim", "dtype", "device", "layout", "requires_grad", "is_leaf", "_version",
    )),
))  # fmt: skip
"""Functions that compute and change nothing.  Tracing itself calls most of them for each input and result."""

_NO_OPERATORS = frozenset((torch.autograd.grad, torch.autograd.backward, torch.Tensor.grad.__set__))
"""Functions of tensors that are no operators: to them it matters which object a tensor is."""

_ASKS = frozenset(("size", "dim", "stride", "numel", "is_contiguous", "is_floating_point", "is_complex", "__len__"))


def _takes_values(func: Any) -> bool:
    """True if a function computes with the contents of tensors, or gives them away."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return func.__self__ is torch.Tensor.data
    return name not in _ASKS and func not in _NO_OPERATORS


def _name(func: object) -> str:
    return str(getattr(func, "__name__", "")).split(".")[0]


def _told_to_write(func: object, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """True if a function with an `inplace` parameter is told to write in place."""
    if len(args) > 1 and isinstance(func, FunctionType):
        names = func.__code__.co_varnames[: func.__code__.co_argcount]
        kwargs = {**dict(zip(names, args, strict=False)), **kwargs}
    return bool(kwargs.get("inplace"))


def _writes_in_place(func: object) -> bool:
    name = _name(func)
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__") and name not in NEW_LAYOUT)


_LAID_OUT_ANEW = frozenset((
    "masked_fill_", "masked_scatter_", "index_add_", "index_copy_", "index_reduce_", "scatter_", "scatter_add_",
    "scatter_reduce_", "tril_", "triu_", "cumsum_", "cumprod_", "addmm_", "addbmm_", "baddbmm_", "renorm_",
))  # fmt: skip
"""Operators whose functional twins return contiguous results."""


def _written_by_a_copy(rule: Rule, tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
    """The write done on a copy and copied back, which keeps the tensor's layout whatever its sizes."""
    written = tensor.clone()
    rule(written, *args, **kwargs)
    return tensor.copy_(written)


def _count_writes_to_list(func: Any, args: Sequence[Any]) -> None:
    """Counts writes to a list of tensors: functionalization leaves their versions where they were, torch's kernels do
    not."""
    name = getattr(func, "__name__", "").split(".")[0]
    if name.startswith("_foreach_") and name.endswith("_"):
        torch.autograd.graph.increment_version([tensor for tensor in args[0] if not tensor.is_inference()])


def _torchs_own(func: object) -> Any:
    """Torch's own method of this name: a mode is told what `torch.Tensor` has there, which a program may have
    replaced."""
    if not isinstance(func, FunctionType) or func.__module__.partition(".")[0] == "torch":
        return func
    name = next((name for name, value in vars(torch.Tensor).items() if value is func), "")
    return getattr(TensorBase, name, func)


def _gradients(outputs: Any, inputs: Any, *, grad_outputs: Any, only_inputs: bool, **options: Any) -> Any:
    """The result of ``torch.autograd.grad``, with the rules in force during backward: a mode that is told of a function
    is out of force while that runs."""
    outputs = (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)
    given = (grad_outputs,) if grad_outputs is None or isinstance(grad_outputs, torch.Tensor) else tuple(grad_outputs)
    given = given * len(outputs) if given == (None,) else given
    tangents = make_grads(outputs, given, is_grads_batched=False)
    create, keep, unused = (bool(options[name]) for name in ("create_graph", "retain_graph", "allow_unused"))
    return engine_run_backward(
        outputs, tangents, keep or (options["retain_graph"] is None and create), create, inputs, unused,
        accumulate_grad=False,
    )  # fmt: skip


def _refuse_out_with_gradients(args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Refuses `out` while gradients are recorded, as operators do; some that are made of others do so only on real
    tensors."""
    if kwargs.get("out") is not None and torch.is_grad_enabled():
        leaves = pytree.tree_leaves((args, dict(kwargs)))
        if any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves):
            raise Unsupported("`out` is given while gradients are recorded", "call it under no_grad")


def _refuse_write_to_inference(func: object, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Refuses writes, outside of inference mode, to tensors made in it: functionalization exchanges the data, which
    torch would allow."""
    name = _name(func)
    writes = _told_to_write(func, args, kwargs) or _writes_in_place(func) or name in NEW_LAYOUT
    written = args[0] if writes and args else kwargs.get("out")
    if isinstance(written, torch.Tensor) and written.is_inference() and not torch.is_inference_mode_enabled():
        raise Unsupported("what was made in inference mode is changed outside of it", "eager refuses that")


def early(*funcs: Callable[..., Any]) -> Callable[[Rule], Rule]:
    """Register the decorated rule in place of each of `funcs`."""

    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(funcs, rule))
        return rule

    return register


for _kind in recurrent.GATES:
    early(getattr(torch, _kind))(partial(recurrent.network, _kind))


_FAMILIES: tuple[tuple[Rule, tuple[Rule, ...]], ...] = (
    (product, (torch.prod, torch.Tensor.prod, torch.cumprod, torch.Tensor.cumprod, torch.Tensor.cumprod_)),
    (extreme, (torch.max, torch.min, torch.median, torch.nanmedian)),
    (extreme, (torch.Tensor.max, torch.Tensor.min, torch.Tensor.median, torch.Tensor.nanmedian)),
    (eigenvectors, (torch.linalg.eig, torch.linalg.eigh)),
)
for _rule, _funcs in _FAMILIES:
    for _func in _funcs:
        early(_func)(partial(_rule, _func))

for _name_of in ("as_strided_scatter", "diagonal_scatter", "select_scatter", "slice_scatter"):
    _packet = getattr(torch.ops.aten, _name_of)
    for _func in (getattr(torch, _name_of), getattr(torch.Tensor, _name_of), _packet, _packet.default):
        early(_func)(partial(in_copied_memory, _func))


@early(torch.Tensor.data.__set__)
def set_data(tensor: torch.Tensor, other: torch.Tensor) -> None:
    """Refuses to exchange a tensor's data: neither functionalization nor autograd hears of it."""
    raise Unsupported("the data of a tensor is exchanged", "write to it, or keep that out of the graph")


@early(torch.Tensor.resize_, torch.ops.aten.resize_.default)
def resize_(tensor: torch.Tensor, *size: object, **options: object) -> torch.Tensor:
    """Leaves a tensor that has the size already alone: functionalization would count a write."""
    wanted = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    keeps = not options and not tensor.requires_grad and wanted == tuple(tensor.shape)
    return tensor if keeps else tensor.resize_(*size, **options)


@early(torch.bernoulli, torch.Tensor.bernoulli)
def bernoulli(input: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
    """Draws in the order of a contiguous tensor, unlike `bernoulli_`."""
    return torch.bernoulli(input.contiguous(), *args, **kwargs)


@early(torch.dropout)
def dropout(input: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """Returns the input itself where nothing is dropped; torch's rule for dynamic sizes copies it."""
    drops = train and p != 0 and not (isinstance(count := input.numel(), int) and count == 0)
    return torch.dropout(input, p, train) if drops or not 0 <= p <= 1 else input


@early(nnf.dropout)
def functional_dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if inplace or not 0.0 <= p <= 1.0:
        return NotImplemented
    return dropout(input, p, training)


@early(torch.native_dropout, torch.ops.aten.native_dropout.default)
def native_dropout(input: torch.Tensor, p: float, train: bool | None) -> Any:
    """Refuses a probability of 1, for which this operator alone draws."""
    if train and p == 1:
        raise Unsupported("`native_dropout` is called with a probability of 1", "call `torch.dropout`")
    return NotImplemented


@early(torch.rrelu)
def rrelu(input: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
    """Makes the result contiguous, as its kernels do; the functional twin, which returns the noise, keeps the input's
    layout."""
    return sloped(torch.rrelu, input, *args, **kwargs).contiguous()  # type: ignore[arg-type]


@early(nnf.rrelu)
def functional_rrelu(
    input: torch.Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> torch.Tensor:
    result = sloped(torch.rrelu_ if inplace else torch.rrelu, input, lower, upper, training)
    return result if inplace else result.contiguous()


@early(torch.rrelu_)
def rrelu_(input: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
    """The operator in place, by the same slopes."""
    return sloped(torch.rrelu_, input, *args, **kwargs)  # type: ignore[arg-type]


def _by_its_kernel(func: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """Calls the kernel where torch would prefer a rule in Python because sizes are dynamic."""
    with DisablePythonDispatcher():
        return func(*args, **kwargs)


# The rules in Python count what stands behind the last label, too, and scores that are NaN; those of shrink functions
# have other gradients.
for _func in (
    nnf.multilabel_margin_loss,
    nnf.multi_margin_loss,
    nnf.softshrink,
    torch.hardshrink,
    torch.Tensor.hardshrink,
):
    early(_func)(partial(_by_its_kernel, _func))


@early(nnf.interpolate)
def interpolate(input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Calls the kernel for bytes, which computes in integers, as rules in Python do not."""
    if input.dtype != torch.uint8:
        return nnf.interpolate(input, *args, **kwargs)
    if any(isinstance(leaf, torch.SymInt) for leaf in pytree.tree_leaves((tuple(input.shape), args, kwargs))):
        raise FailsOnFakes("bytes are interpolated to or from sizes that vary", "run it eagerly")
    return _by_its_kernel(nnf.interpolate, input, *args, **kwargs)


@early(torch.max_pool1d, nnf.max_pool1d)
def max_pool1d(input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Matches the kernel for CPUs without gradients, which takes fewer dtypes than what is traced in its place, and
    returns contiguous results that are no views."""
    if input.device.type == "cpu" and not input.dtype.is_floating_point:
        raise FailsOnFakes(f"max_pool1d of {input.dtype}", "run it eagerly: the result or the error is its own")
    pooled = nnf.max_pool1d(input, *args, **kwargs)
    if input.device.type != "cpu" or (torch.is_grad_enabled() and input.requires_grad):
        return pooled
    if not isinstance(pooled, torch.Tensor):
        return pooled
    return own(pooled.contiguous() if has_known_layout(pooled) else pooled)


@early(nnf.one_hot)
def one_hot(tensor: torch.Tensor, num_classes: Any = -1) -> Any:
    """Scatters ones without torch's own look at the largest value; positions are checked when they are written to."""
    some = isinstance(count := tensor.numel(), torch.SymInt) or count > 0
    if not isinstance(num_classes, int) or num_classes < 1 or tensor.dtype != torch.int64 or not some:
        return nnf.one_hot(tensor, num_classes)
    zeros = torch.zeros((*tensor.shape, num_classes), dtype=torch.int64, device=tensor.device)
    return zeros.scatter(-1, tensor.unsqueeze(-1), 1)


@early(torch.linalg.matrix_rank)
def matrix_rank(*args: object, out: object = None, **kwargs: object) -> torch.Tensor:
    """Writes `out`, which torch's code forgets while tracing."""
    rank = torch.linalg.matrix_rank(*args, **kwargs)
    return rank if out is None else torch.add(rank, 0, out=out)


@early(torch.batch_norm)
def batch_norm(
    input: torch.Tensor,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn: bool,
) -> torch.Tensor:
    """Calls the form that returns the new running statistics: torch's own path ends in a kernel that updates them
    without saying so in its schema.  An empty batch has a path without them."""
    if isinstance(count := input.size(0), int) and count == 0:
        return torch.batch_norm(input, weight, bias, mean, var, training, momentum, eps, cudnn)
    if any(given is not None and given.dim() != 1 for given in (weight, bias, mean, var)):
        raise FailsOnFakes("batch norm by what is no vector", "run it eagerly: the result or the error is its own")
    plain = input.dim() >= 2 and _fit(input, (weight, bias, mean, var))
    if plain and not training and mean is not None and torch.is_grad_enabled():
        return with_fixed_statistics(input, weight, bias, mean, var, eps)
    if not training or mean is None or input.dim() < 2:
        return torch.batch_norm(input, weight, bias, mean, var, training, momentum, eps, cudnn)
    normalised: torch.Tensor = native_batch_norm_legit(input, weight, bias, mean, var, True, momentum, eps)[0]
    return normalised


def _fit(input: torch.Tensor, others: Sequence[Any]) -> bool:
    """True if torch's kernels take these dtypes beside one another: one for all, or halves beside single precision."""
    types = {given.dtype for given in others if given is not None}
    return types <= {input.dtype} or (types == {torch.float32} and input.dtype in (torch.float16, torch.bfloat16))


@early(nnf.batch_norm)
def functional_batch_norm(
    input: torch.Tensor,
    running_mean: object,
    running_var: object,
    weight: object = None,
    bias: object = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    """The function of torch.nn.functional, which a mode meets before what it calls."""
    if training:
        _check_batch(input.size())
    return batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


@early(torch.native_batch_norm, torch.ops.aten.native_batch_norm, torch.ops.aten.native_batch_norm.default)
def native_batch_norm(
    input: torch.Tensor,
    weight: object,
    bias: object,
    mean: object,
    var: object,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """Batch norm, in training by the operator that has a functional form."""
    if not training or mean is None:
        return torch.native_batch_norm(input, weight, bias, mean, var, training, momentum, eps)
    return native_batch_norm_legit(input, weight, bias, mean, var, True, momentum, eps)


@early(torch.instance_norm)
def instance_norm(
    input: torch.Tensor,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    use_input: bool,
    momentum: float,
    eps: float,
    cudnn: bool,
) -> torch.Tensor:
    """A batch norm in which each sample is a group of channels; its statistics are updated by the batch's mean."""
    if not use_input or mean is None:
        return torch.instance_norm(input, weight, bias, mean, var, use_input, momentum, eps, cudnn)
    batch, channels = input.shape[:2]
    scale, shift = (None if value is None else value.repeat(batch) for value in (weight, bias))
    # Each sample moves a copy of the statistics, of which the mean is kept, as torch's kernel does.
    means, variances = mean.repeat(batch), var.repeat(batch)
    grouped = input.contiguous().view(1, batch * channels, *input.shape[2:])
    normalised = batch_norm(grouped, scale, shift, means, variances, True, momentum, eps, cudnn)
    with torch.no_grad():
        mean.copy_(means.view(batch, channels).mean(0))
        var.copy_(variances.view(batch, channels).mean(0))
    return normalised.view(input.shape)


for _func in (torch.Tensor.expand, torch.Tensor.expand_as, torch.broadcast_to, torch.Tensor.broadcast_to,
              torch.broadcast_tensors):  # fmt: skip
    RULES[_func] = partial(plainly, _func)


@early(nnf.instance_norm)
def functional_instance_norm(
    input: torch.Tensor,
    running_mean: object = None,
    running_var: object = None,
    weight: object = None,
    bias: object = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    if use_input_stats:
        _check_spatial(input.size())
    return instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)
