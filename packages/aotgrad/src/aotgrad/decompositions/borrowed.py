"""Decompositions of torch's that need no improvement, named one by one.

Must not know: our own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotgrad.torch_versions import OpOverload, aten, get_decompositions, overloadname_of, schema_of

_CHOSEN = (
    # activations
    aten.celu, aten.elu, aten.elu_backward, aten.glu, aten.glu_backward, aten.hardshrink, aten.hardsigmoid,
    aten.hardsigmoid_backward, aten.hardswish, aten.hardswish_backward, aten.hardtanh, aten.hardtanh_backward,
    aten.leaky_relu, aten.leaky_relu_backward, aten.log_sigmoid_backward, aten.log_sigmoid_forward, aten.mish,
    aten._prelu_kernel, aten._prelu_kernel_backward, aten.softplus, aten.softplus_backward, aten.softshrink,
    aten.threshold,
    # losses
    aten.binary_cross_entropy, aten.binary_cross_entropy_backward, aten.huber_loss, aten.huber_loss_backward,
    aten.smooth_l1_loss, aten.smooth_l1_loss_backward, aten.soft_margin_loss, aten.soft_margin_loss_backward,
    aten.nll_loss2d_forward, aten.nll_loss2d_backward, aten.l1_loss, aten.binary_cross_entropy_with_logits,
    # pointwise
    aten.addcdiv, aten.frac, aten.heaviside, aten.logit, aten.logit_backward, aten.nan_to_num, aten.sgn,
    aten.sinc, aten.special_entr, aten.special_log_ndtr, aten.special_xlog1py,
    aten.xlogy, aten.logaddexp, aten.logaddexp2,
    aten.isneginf, aten.isposinf, aten.rad2deg, aten.deg2rad, aten.trunc, aten._lazy_clone, aten.isin,
    # reductions
    aten.aminmax, aten.std, aten.std_mean, aten.var_mean, aten.dist, aten.linalg_vector_norm, aten.norm,
    # norms
    aten.native_group_norm_backward, aten._fused_rms_norm, aten._fused_rms_norm_backward,
    # views and indexing
    aten.diagonal_backward, aten.select_backward, aten.slice_backward, aten.unfold_backward, aten.trace, aten.tril,
    aten.triu, aten.rot90, aten.pixel_shuffle, aten.pixel_unshuffle, aten.block_diag, aten.diag_embed,
    aten.index_add, aten.index_copy, aten.masked_fill, aten.narrow_copy, aten.take,
    aten.unsafe_chunk, aten.unsafe_split,
    aten.select_scatter, aten.stack, aten.unbind, aten.split_with_sizes_copy, aten.t_copy,
    aten._reshape_alias, aten._unsafe_view,
    # fresh tensors
    aten.eye, aten.linspace, aten.logspace, aten.new_empty, aten.new_full, aten.new_ones, aten.new_zeros,
    aten.ones, aten.ones_like, aten.zeros, aten.zeros_like, aten.arange,
    # sums of products
    aten.addmv, aten.addr, aten.baddbmm, aten.dot, aten.vdot, aten.mv,
    # losses and layers of images
    aten.im2col, aten.col2im, aten.upsample_bilinear2d, aten.upsample_nearest1d, aten.upsample_nearest2d,
)  # fmt: skip


def borrowed() -> dict[OpOverload, Callable[..., Any]]:
    """torch's decompositions for the operators above, as far as this version of torch has them."""
    found: dict[OpOverload, Callable[..., Any]] = get_decompositions(_CHOSEN)
    return {op: rule for op, rule in found.items() if not schema_of(op).is_mutable and "out" not in overloadname_of(op)}
