// What the processor has an instruction for and the vector extension no operator, where it has it; elsewhere the same
// by other means.  Included last before the functions that build on it.
#pragma once

// -- square roots and rounding ----------------------------------------------------------------------------------------

#define INDUCTOR_LANEWISE(name, single, twofold) \
    INLINE f32 name(f32 x) { return single(x); } \
    INLINE f64 name(f64 x) { return twofold(x); } \
    template <class V> INLINE V name(V x) { return each<V>([&](i32 lane) { return name(x[lane]); }); }
INDUCTOR_LANEWISE(floor, __builtin_floorf, __builtin_floor)
INDUCTOR_LANEWISE(ceil, __builtin_ceilf, __builtin_ceil)
INDUCTOR_LANEWISE(trunc, __builtin_truncf, __builtin_trunc)
INDUCTOR_LANEWISE(round_even, __builtin_nearbyintf, __builtin_nearbyint)
INDUCTOR_LANEWISE(sqrt, __builtin_sqrtf, __builtin_sqrt)

#define INDUCTOR_AS(type, name, expression) template <> INLINE type name(type x) { return (type)(expression); }
#if GCC_BUILTINS && defined(__AVX__)
INDUCTOR_AS(f32x8, sqrt, __builtin_ia32_sqrtps256(x))
INDUCTOR_AS(f64x4, sqrt, __builtin_ia32_sqrtpd256(x))
#define INDUCTOR_ROUNDED(name, way) \
    INDUCTOR_AS(f32x8, name, __builtin_ia32_roundps256(x, way)) INDUCTOR_AS(f64x4, name, __builtin_ia32_roundpd256(x, way))
INDUCTOR_ROUNDED(round_even, 8)
INDUCTOR_ROUNDED(floor, 9)
INDUCTOR_ROUNDED(ceil, 10)
INDUCTOR_ROUNDED(trunc, 11)
#undef INDUCTOR_ROUNDED
#endif
#if GCC_BUILTINS && defined(__AVX512F__)
INDUCTOR_AS(f32x16, sqrt, __builtin_ia32_sqrtps512_mask(x, x, -1, 4))
INDUCTOR_AS(f64x8, sqrt, __builtin_ia32_sqrtpd512_mask(x, x, -1, 4))
#define INDUCTOR_ROUNDED(name, way) \
    INDUCTOR_AS(f32x16, name, __builtin_ia32_rndscaleps_mask(x, way, x, -1, 4)) \
    INDUCTOR_AS(f64x8, name, __builtin_ia32_rndscalepd_mask(x, way, x, -1, 4))
INDUCTOR_ROUNDED(round_even, 8)
INDUCTOR_ROUNDED(floor, 9)
INDUCTOR_ROUNDED(ceil, 10)
INDUCTOR_ROUNDED(trunc, 11)
#undef INDUCTOR_ROUNDED
#endif
#undef INDUCTOR_AS

// -- bounds: a NaN stays ----------------------------------------------------------------------------------------------

template <class V> INLINE V at_most(V x, f32 high) { return where(x > splat<V>(high), splat<V>(high), x); }
template <class V> INLINE V at_least(V x, f32 low) { return where(x < splat<V>(low), splat<V>(low), x); }
#if GCC_BUILTINS && defined(__AVX512F__)
template <> INLINE f32x16 at_most(f32x16 x, f32 high) { return __builtin_ia32_minps512_mask(splat<f32x16>(high), x, x, -1, 4); }
template <> INLINE f32x16 at_least(f32x16 x, f32 low) { return __builtin_ia32_maxps512_mask(splat<f32x16>(low), x, x, -1, 4); }
#endif
template <class V> INLINE V clamp(V x, f32 low, f32 high) { return at_most(at_least(x, low), high); }

// -- powers of two ----------------------------------------------------------------------------------------------------

// 2**n for integers n in [-126, 127], made of its bits.
template <class V> INLINE V power_of_two(Bits<V> n) { return bits_as<V>((n + 127) << 23); }

// x * 2**n for whole n, where 2**n itself may be out of range.
template <class V> INLINE V scale_by_power(V x, V n) {
    const Bits<V> whole = convert<Bits<V>>(n), half = whole >> 1;
    return x * power_of_two<V>(half) * power_of_two<V>(whole - half);
}
#if GCC_BUILTINS && defined(__AVX512F__)
template <> INLINE f32x16 scale_by_power(f32x16 x, f32x16 n) { return __builtin_ia32_scalefps512_mask(x, n, x, -1, 4); }
#endif

// -- 1 / x for x in [1, 2**60], to one unit in the last place: a division costs as much as all the rest of a function ----

// ``rough_reciprocal`` is good to 14 bits.

template <class V> INLINE V rough_reciprocal(V x) { return 1.0f / x; }
template <class V> INLINE V quick_reciprocal(V x) { return 1.0f / x; }
#if GCC_BUILTINS && defined(__AVX512VL__)
#define INDUCTOR_RECIPROCAL(type, estimate) \
    template <> INLINE type rough_reciprocal(type x) { return estimate; } \
    template <> INLINE type quick_reciprocal(type x) { \
        const type near = rough_reciprocal(x); \
        return fma(near, fma((type)-x, near, splat<type>(1.0f)), near); \
    }
INDUCTOR_RECIPROCAL(f32x4, __builtin_ia32_rcp14ps128_mask(x, x, -1))
INDUCTOR_RECIPROCAL(f32x8, __builtin_ia32_rcp14ps256_mask(x, x, -1))
INDUCTOR_RECIPROCAL(f32x16, __builtin_ia32_rcp14ps512_mask(x, x, -1))
#undef INDUCTOR_RECIPROCAL
#endif

// -- a table of sixteen -----------------------------------------------------------------------------------------------

template <class V> INLINE V lookup(const f32 (&table)[16], Bits<V> place) {
    return each<V>([&](i32 lane) { return table[place[lane] & 15]; });
}
#if GCC_BUILTINS && defined(__AVX2__)
template <> INLINE f32x8 lookup<f32x8>(const f32 (&table)[16], i32x8 place) {
    const f32x8 low = __builtin_ia32_permvarsf256(load<f32x8>(table), place);
    return where((place & 8) == 0, low, (f32x8)__builtin_ia32_permvarsf256(load<f32x8>(table + 8), place));
}
#endif
#if GCC_BUILTINS && defined(__AVX512F__)
template <> INLINE f32x16 lookup<f32x16>(const f32 (&table)[16], i32x16 place) {
    return __builtin_ia32_permvarsf512_mask(load<f32x16>(table), place, f32x16{}, -1);
}
#endif
