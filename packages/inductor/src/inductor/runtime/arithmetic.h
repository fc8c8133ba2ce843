// Arithmetic that C++ has no operator for, on scalars and vectors alike.
#pragma once

// -- either kind ------------------------------------------------------------------------------------------------------

template <class V> INLINE V maximum(V a, V b) { return where((a > b) | (a != a), a, b); }
template <class V> INLINE V minimum(V a, V b) { return where((a < b) | (a != a), a, b); }
template <class V> INLINE V fmaximum(V a, V b) { return where((a >= b) | (b != b), a, b); }
template <class V> INLINE V fminimum(V a, V b) { return where((a <= b) | (b != b), a, b); }

template <class V> INLINE V sign(V x) {
    const V zero = splat<V>(0), one = splat<V>(1);
    return where(x > zero, one, where(x < zero, (V)(zero - one), zero));  // small integers would become larger ones
}

// An integer as a float.  gcc takes it for a number that is never -0, and so 0 - x for -x: not through a function.
template <class F, class I> INLINE F to_float(I x) { return (F)x; }

// A float of which the compiler knows nothing.  What is too large for an integer, or not a number, becomes what the
// processor makes of it, as in torch; a constant would become what the compiler thinks best.
template <class F> INLINE F opaque(F x) {
#if defined(__AVX512F__)
    if constexpr (sizeof(F) <= 64) asm("" : "+v"(x));
    else asm("" : "+m"(x));
#elif defined(__AVX__)
    if constexpr (sizeof(F) <= 32) asm("" : "+x"(x));
    else asm("" : "+m"(x));
#elif defined(__SSE2__)
    if constexpr (sizeof(F) <= 16) asm("" : "+x"(x));
    else asm("" : "+m"(x));
#endif
    return x;
}

// A float as an integer with a sign, cut towards zero.
template <class I, class F> INLINE I to_integer(F x) { return widen<I>(opaque(x)); }

// A float as an integer of 64 bits without a sign, as torch makes it: by one with a sign, so that -1 is the largest.
template <class F> INLINE auto to_u64(F x) {
    typedef Like<u64, F> Whole;
    const F half = splat<F>(0x1p63f);
    const auto large = x >= half;
    const Whole low = bits_as<Whole>(to_integer<Like<i64, F>>(where(large, (F)(x - half), x)));
    return low ^ where(large, splat<Whole>(1ul << 63), splat<Whole>(0));
}

// -- floats: their bits -----------------------------------------------------------------------------------------------


template <class V> INLINE Bits<V> sign_of(V x) { return bits_as<Bits<V>>(x) & bits_as<Bits<V>>(-splat<V>(0)); }
template <class V> INLINE V absolute(V x) { return bits_as<V>(bits_as<Bits<V>>(x) & ~bits_as<Bits<V>>(-splat<V>(0))); }
template <class V> INLINE V copysign(V a, V b) { return bits_as<V>(bits_as<Bits<V>>(absolute(a)) | sign_of(b)); }
template <class V> INLINE auto sign_bit(V x) { return bits_as<Bits<V>>(x) < 0; }
template <class V> INLINE auto is_inf(V x) { return absolute(x) == splat<V>(__builtin_inf()); }

template <class V> INLINE auto is_nan(V x) { return x != x; }
template <class V> INLINE V magnitude(V x) { return where(x < splat<V>(0), (V)-x, x); }

// a * b + c, rounded once.
INLINE f32 fma(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
INLINE f64 fma(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
template <class V> INLINE V fma(V a, V b, V c) {
    return each<V>([&](i32 lane) { return fma(a[lane], b[lane], c[lane]); });
}
#define INDUCTOR_FMA(type, expression) template <> INLINE type fma(type a, type b, type c) { return expression; }
#if GCC_BUILTINS && defined(__FMA__)
INDUCTOR_FMA(f32x4, __builtin_ia32_vfmaddps(a, b, c))
INDUCTOR_FMA(f64x2, __builtin_ia32_vfmaddpd(a, b, c))
INDUCTOR_FMA(f32x8, __builtin_ia32_vfmaddps256(a, b, c))
INDUCTOR_FMA(f64x4, __builtin_ia32_vfmaddpd256(a, b, c))
#endif
#if GCC_BUILTINS && defined(__AVX512F__)
INDUCTOR_FMA(f32x16, __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4))
INDUCTOR_FMA(f64x8, __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4))
#endif
#undef INDUCTOR_FMA

#include "instructions.h"

// -- division ---------------------------------------------------------------------------------------------------------

inline f32 fmod(f32 a, f32 b) { return __builtin_fmodf(a, b); }
inline f64 fmod(f64 a, f64 b) { return __builtin_fmod(a, b); }

// Integer division by zero would stop the process; lanes whose result nobody uses may try it, so it gives 0.
template <class T> inline T truncate_divide(T a, T b) {
    if constexpr ((T)0.5 != 0) return trunc(a / b);
    else return b == 0 ? 0 : (T)-1 < 0 && b == (T)-1 ? (T)(0 - a) : (T)(a / b);
}
template <class T> inline T fmodulo(T a, T b) {
    if constexpr ((T)0.5 != 0) return fmod(a, b);
    else return b == 0 || b == (T)-1 ? ((T)-1 > 0 && b != 0 ? (T)(a % b) : 0) : (T)(a % b);
}
template <class T> inline T modulo(T a, T b) {
    const T rest = fmodulo(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;
}
template <class T> inline T floor_divide(T a, T b) {
    if constexpr ((T)0.5 != 0) {
        if (b == 0) return a / b;
        const T rest = fmod(a, b);
        T quotient = (a - rest) / b;
        if (rest != 0 && (rest < 0) != (b < 0)) quotient = quotient - 1;
        if (quotient == 0) return copysign((T)0, a / b);
        const T whole = floor(quotient);
        return quotient - whole > (T)0.5 ? whole + 1 : whole;
    } else {
        const T quotient = truncate_divide(a, b);
        return fmodulo(a, b) != 0 && (a < 0) != (b < 0) ? (T)(quotient - 1) : quotient;
    }
}
// The rest of a division of floats, exact: the quotient cut off is off by one at most where it has fewer bits than a
// float holds, and then the fused multiplication rounds nothing.
template <class V> INLINE V fmod_of_small_quotient(V a, V b, V quotient) {
    const V size = absolute(b), rest = fma(-quotient, size, absolute(a));
    return copysign(where(rest < splat<V>(0), rest + size, rest), a);
}
template <class V> RARE V fmod_by_lane(V a, V b) { return each<V>([&](i32 lane) { return fmod(a[lane], b[lane]); }); }
template <class V> INLINE V fmod_lanes(V a, V b) {
    const V quotient = absolute(a / b), limit = splat<V>(sizeof(Element<V>) == 4 ? 0x1p23 : 0x1p52);
    const auto plain = (quotient < limit) & (absolute(b) < splat<V>(__builtin_inf()));
    if (__builtin_expect(!all_lanes(plain), 0)) return fmod_by_lane(a, b);
    return fmod_of_small_quotient(a, b, trunc(quotient));
}

#define INDUCTOR_BY_LANE(name, floats) \
    template <class V> INLINE V name##_lanes(V a, V b) { \
        if constexpr ((Element<V>)0.5 != 0) return floats; \
        else return each<V>([&](i32 lane) { return name(a[lane], b[lane]); }); \
    }
template <class V> INLINE V modulo_of_floats(V a, V b) {
    const V zero = splat<V>(0), rest = fmod_lanes(a, b);
    return where((rest != zero) & ((rest < zero) != (b < zero)), rest + b, rest);
}
template <class V> INLINE V floor_divide_floats(V a, V b) {
    const V zero = splat<V>(0), one = splat<V>(1), rest = fmod_lanes(a, b), exact = a / b;
    const V cut = (a - rest) / b;
    const V quotient = where((rest != zero) & ((rest < zero) != (b < zero)), cut - one, cut);
    const V whole = floor(quotient), nearest = where(quotient - whole > splat<V>(0.5), whole + one, whole);
    return where(b == zero, exact, where(quotient == zero, copysign(zero, exact), nearest));
}
INDUCTOR_BY_LANE(truncate_divide, trunc(a / b))
INDUCTOR_BY_LANE(fmodulo, fmod_lanes(a, b))
INDUCTOR_BY_LANE(modulo, modulo_of_floats(a, b))
INDUCTOR_BY_LANE(floor_divide, floor_divide_floats(a, b))
#undef INDUCTOR_BY_LANE

// -- shifts -----------------------------------------------------------------------------------------------------------

template <class V> INLINE V shift_left(V a, V b) {
    const V zero = splat<V>(0), widest = splat<V>(8 * sizeof(Element<V>) - 1);
    return where((b >= zero) & (b <= widest), (V)(a << (b & widest)), zero);
}
template <class V> INLINE V shift_right(V a, V b) {
    const V zero = splat<V>(0), widest = splat<V>(8 * sizeof(Element<V>) - 1);
    const V beyond = where(splat<V>(-1) > zero, zero, (V)(a >> widest));
    return where((b >= zero) & (b <= widest), (V)(a >> (b & widest)), beyond);
}

// An index outside its axis is noted in `outside`, for the caller to raise, and moved inside so that nothing is read there.
INLINE bool any_lane(i32 truth) { return truth != 0; } // what | makes of two scalar truths
template <class V> INLINE V check_index(V index, V size, i64* outside) {
    const V zero = splat<V>(0), last = size - splat<V>(1);
    if (any_lane((index < zero) | (index > last))) *outside = 1;
    return where(index < zero, zero, where(index > last, last, index));
}
// A negative index counts from the end.
template <class V> INLINE V wrap_index(V index, V size, i64* outside) {
    return check_index<V>(where(index < splat<V>(0), (V)(index + size), index), size, outside);
}
