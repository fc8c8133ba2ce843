"""Kernels whose parameters say what becomes of them: ``w...`` counts as written, ``r...`` is only read."""

import triton
import triton.language as tl


@triton.jit
def store(r, w, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(w + at, tl.load(r + at).to(w.dtype.element_ty), mask=at < n)


@triton.jit
def through_names(r_index, r, w, stride, BLOCK: tl.constexpr):
    place = tl.load(r_index + tl.arange(0, BLOCK))
    row = w + place * stride
    for _ in range(4):
        tl.store(row, tl.load(r + place))
        row += stride


@triton.jit
def block_pointers(r, w, m, n, BLOCK: tl.constexpr):
    source = tl.make_block_ptr(r, (m, n), (n, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    target = tl.make_block_ptr(
        base=w, shape=(m, n), strides=(n, 1), offsets=(0, 0), block_shape=(BLOCK, BLOCK), order=(1, 0)
    )
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    while m > 0:
        total = tl.dot(tl.load(source), tl.load(source), total)
        source = tl.advance(source, (0, BLOCK))
    tl.store(target, total)


@triton.jit
def atomics(r, w_sum, w_lock, BLOCK: tl.constexpr):
    while tl.atomic_cas(w_lock, 0, 1) == 1:
        pass
    tl.atomic_add(w_sum + tl.arange(0, BLOCK), tl.load(r + tl.arange(0, BLOCK)))
    tl.atomic_xchg(w_lock, 0)


@triton.jit
def one_of_two(r, w_a, w_b, choose, BLOCK: tl.constexpr):
    target = w_a if choose else w_b
    tl.store(target + tl.arange(0, BLOCK), tl.load(r + tl.arange(0, BLOCK)))


@triton.jit
def put(pointer, value, other):
    tl.store(pointer, value)
    return other


@triton.jit
def by_a_function(r, w, w_returned, r_also):
    back = put(w, tl.load(r), w_returned)
    put(back, value=tl.load(r_also), other=r_also)


@triton.jit
def by_a_function_that_is_given(w, r, APPLY: tl.constexpr):
    APPLY(w, tl.load(r))


@triton.jit
def by_assembly(w, r):
    tl.inline_asm_elementwise("mov $0, $1;", "=l,l", [w], dtype=tl.int64, is_pure=True, pack=1)
    tl.inline_asm_elementwise("mov $0, $1;", "=r,r", [tl.load(r)], dtype=tl.int32, is_pure=True, pack=1)


@triton.jit
def stored_by_assembly(addresses):
    address = tl.load(addresses)
    tl.inline_asm_elementwise("st.global.b32 [$1], 0;", "=r,l", [address], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def descriptors(r, w, m, n, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(r, shape=[m, n], strides=[n, 1], block_shape=[BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(w, shape=[m, n], strides=[n, 1], block_shape=[BLOCK, BLOCK])
    target.store([0, 0], source.load([0, 0]))


@triton.jit
def by_itself(w, w_too):
    by_itself(w_too, w)


@triton.jit
def strange(w, w_too):
    tl.store(sum(pointer for pointer in (w, w_too)), 1)


@triton.jit
def address_from_memory(addresses, value):
    tl.store(tl.load(addresses).to(tl.pointer_type(tl.float32)), value)


FLOATS = tl.constexpr(tl.pointer_type(tl.float32))


@triton.jit
def cast_to_a_type_from_outside(addresses, value):
    tl.store(tl.load(addresses).to(FLOATS), value)


@triton.jit
def cast_like_a_pointer(addresses, value):
    tl.store(tl.load(addresses).to(value.dtype), 1)


KERNELS = {
    each.__name__: each
    for each in (
        store, through_names, block_pointers, atomics, one_of_two, by_a_function, by_a_function_that_is_given,
        by_assembly, descriptors,
    )
}  # fmt: skip
