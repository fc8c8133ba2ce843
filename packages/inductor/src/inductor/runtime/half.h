// float16 and bfloat16 are kept in memory only: these turn their bits into floats and back, in registers.
#pragma once

typedef u16 bf16;
typedef u16 f16;

// The vector of the given element with as many lanes as V, or the element itself where V is a scalar.
template <class T, int lanes> struct VectorOf { typedef T type __attribute__((vector_size(sizeof(T) * lanes))); };
template <class T, class V, bool = is_vector<V>> struct AsWide { typedef typename VectorOf<T, lanes_of<V>>::type type; };
template <class T, class V> struct AsWide<T, V, false> { typedef T type; };
template <class T, class V> using Like = typename AsWide<T, V>::type;

template <class V, class U> INLINE V widen(U x) {
    if constexpr (is_vector<V>) return __builtin_convertvector(x, V);
    else return (V)x;
}
#if GCC_BUILTINS && defined(__AVX512F__)  // one instruction each, where compilers take the vectors apart
template <> INLINE u32x16 widen<u32x16>(u16x16 x) { return (u32x16)__builtin_ia32_pmovzxwd512_mask((i16x16)x, i32x16{}, -1); }
template <> INLINE u16x16 widen<u16x16>(u32x16 x) { return (u16x16)__builtin_ia32_pmovdw512_mask((i32x16)x, i16x16{}, -1); }
#endif

template <class V, class H> INLINE V from_bf16(H bits) {
    typedef Like<u32, V> Wide;
    return bits_as<V>(widen<Wide>(bits) << 16);
}

template <class H, class V> INLINE H to_bf16_rounded(V x) {
    typedef Like<u32, V> Wide;
    const Wide bits = bits_as<Wide>(x);
    const Wide rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;  // to nearest, halves to even
    return widen<H>(where(x != x, splat<Wide>(0x7fc0u), rounded));
}
template <class H, class V> INLINE H to_bf16(V x) { return to_bf16_rounded<H>(x); }

#if GCC_BUILTINS && defined(__AVX512BF16__)
// The instruction takes numbers below the normal ones for 0, so it is for vectors without any (class 0x20).
template <> INLINE u16x16 to_bf16(f32x16 x) {
    if (__builtin_expect(__builtin_ia32_fpclassps512_mask(x, 0x20, (u16)-1), 0)) return to_bf16_rounded<u16x16>(x);
    return (u16x16)__builtin_ia32_cvtneps2bf16_v16sf(x);
}
#endif

template <class V, class H> INLINE V from_f16(H bits) {
    typedef Like<u32, V> Wide;
    const Wide wide = widen<Wide>(bits);
    const Wide magnitude = (wide & 0x7fffu) << 13;
    // Multiplying by 2**112 moves the exponent's bias, and makes normal numbers of denormal ones.
    const Wide finite = bits_as<Wide>(bits_as<V>(magnitude) * splat<V>(0x1p112f));
    const Wide special = magnitude | 0x7f800000u;
    const Wide value = where((wide & 0x7c00u) == 0x7c00u, special, finite);
    return bits_as<V>(value | ((wide & 0x8000u) << 16));
}

template <class H, class V> INLINE H to_f16(V x) {
    typedef Like<u32, V> Wide;
    const Wide bits = bits_as<Wide>(x);
    const Wide magnitude = bits & 0x7fffffffu;
    const Wide sign = (bits >> 16) & 0x8000u;
    const Wide normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Below 2**-14, adding 0.5 lines the mantissa up with the half's, and rounds it.
    const Wide small = bits_as<Wide>(bits_as<V>(magnitude) + splat<V>(0.5f)) - 0x3f000000u;
    Wide value = where(magnitude < (113u << 23), small, normal);
    value = where(magnitude >= 0x477ff000u, splat<Wide>(0x7c00u), value);
    value = where(magnitude > 0x7f800000u, splat<Wide>(0x7e00u), value);
    return widen<H>(value | sign);
}

#if GCC_BUILTINS && defined(__F16C__)
template <> INLINE f32x8 from_f16(u16x8 bits) { return __builtin_ia32_vcvtph2ps256((i16x8)bits); }
template <> INLINE u16x8 to_f16(f32x8 x) { return (u16x8)__builtin_ia32_vcvtps2ph256(x, 8); }
#endif
#if GCC_BUILTINS && defined(__AVX512F__)
template <> INLINE f32x16 from_f16(u16x16 bits) { return __builtin_ia32_vcvtph2ps512_mask((i16x16)bits, f32x16{}, -1, 4); }
template <> INLINE u16x16 to_f16(f32x16 x) { return (u16x16)__builtin_ia32_vcvtps2ph512_mask(x, 8, i16x16{}, -1); }
#endif

template <class V> INLINE V round_bf16(V x) { return from_bf16<V>(to_bf16<Like<u16, V>>(x)); }
template <class V> INLINE V round_f16(V x) { return from_f16<V>(to_f16<Like<u16, V>>(x)); }
