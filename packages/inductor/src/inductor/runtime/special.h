// Functions that are rare, or hard: by way of double precision, or the C library's, lane by lane.
#pragma once

INDUCTOR_LANEWISE(lgamma, __builtin_lgamma, __builtin_lgamma)  // the library's single precision one loses digits

// Newton's steps on erf from a rough first guess (Winitzki's).
inline f64 erfinv_by_steps(f64 x) {
    const f64 size = __builtin_fabs(x);
    if (!(size < 1)) return size == 1 ? __builtin_copysign(__builtin_inf(), x) : __builtin_nan("");
    if (x == 0) return x;
    const f64 tail = __builtin_log1p(-x * x), a = 2 / (3.14159265358979323846 * 0.147) + tail / 2;
    f64 y = __builtin_sqrt(__builtin_sqrt(a * a - tail / 0.147) - a);
    for (i32 step = 0; step < 4; step++) {
        const f64 miss = size > 0.5 ? (1 - size) - __builtin_erfc(y) : __builtin_erf(y) - size;
        const f64 slope = 1.12837916709551257390 * __builtin_exp(-y * y);
        const f64 ratio = miss / slope;
        y -= ratio / (1 + y * ratio);
    }
    return __builtin_copysign(y, x);
}

// Recurrence up to 10, then the asymptotic series; reflection below 0.
inline f64 digamma(f64 x) {
    const f64 pi = 3.14159265358979323846;
    if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
    if (x < 0) {
        if (x == __builtin_trunc(x)) return __builtin_nan("");
        const f64 part = x - __builtin_trunc(x);
        return digamma(1 - x) - pi / __builtin_tan(pi * part);
    }
    f64 sum = 0;
    for (; x < 10; x += 1) sum -= 1 / x;
    if (x == 10) return sum + 2.25175258906672110764;
    const f64 z = 1 / (x * x);
    const f64 series = z * (1. / 12 - z * (1. / 120 - z * (1. / 252 - z * (1. / 240 - z * (1. / 132 - z * (691. / 32760 - z / 12))))));
    return sum + __builtin_log(x) - 0.5 / x - (x < 1e17 ? series : 0);
}
inline f32 digamma(f32 x) { return (f32)digamma((f64)x); }
template <class V> INLINE V digamma(V x) { return each<V>([&](i32 lane) { return digamma(x[lane]); }); }

#define INDUCTOR_LANEWISE2(name, single, twofold) \
    INLINE f32 name(f32 a, f32 b) { return single(a, b); } \
    INLINE f64 name(f64 a, f64 b) { return twofold(a, b); } \
    template <class V> INLINE V name(V a, V b) { return each<V>([&](i32 lane) { return name(a[lane], b[lane]); }); }
INDUCTOR_LANEWISE2(nextafter, __builtin_nextafterf, __builtin_nextafter)

// -- single precision through double precision ------------------------------------------------------------------------

// Double precision itself goes lane by lane to the C library.
#define INDUCTOR_TWOFOLD(name, library) \
    template <class V> CALLED V name(V x) { \
        if constexpr (sizeof(Element<V>) == 4) { \
            if constexpr (is_vector<V>) return in_double([](auto d) { return name##_twofold(d); }, x); \
            else return name(splat<f32x4>(x))[0]; \
        } else { \
            if constexpr (is_vector<V>) return each<V>([&](i32 lane) { return library(x[lane]); }); \
            else return library(x); \
        } \
    }
INDUCTOR_TWOFOLD(asin, __builtin_asin)
INDUCTOR_TWOFOLD(acos, __builtin_acos)
INDUCTOR_TWOFOLD(sinh, __builtin_sinh)
INDUCTOR_TWOFOLD(cosh, __builtin_cosh)
INDUCTOR_TWOFOLD(asinh, __builtin_asinh)
INDUCTOR_TWOFOLD(acosh, __builtin_acosh)
INDUCTOR_TWOFOLD(atanh, __builtin_atanh)
INDUCTOR_TWOFOLD(erfc, __builtin_erfc)
#undef INDUCTOR_TWOFOLD

// The arguments that the way through double precision takes; vectors with others go lane by lane.
template <class V> INLINE auto has_tan(V x) { return absolute(x) <= splat<V>(0x1p30f); }
template <class V> INLINE auto has_pow(V x, V y) {
    const V infinity = splat<V>(__builtin_inff());
    return (absolute(x) < infinity) & (absolute(y) < infinity);
}
template <class V> INLINE auto has_pair(V x, V y) { return splat<Bits<V>>(-1); }

template <class V> RARE V tan_by_lane(V x) { return each<V>([&](i32 lane) { return __builtin_tanf(x[lane]); }); }
template <class V> CALLED V tan(V x) {
    if constexpr (!is_vector<V>) return sizeof(V) == 8 ? (V)__builtin_tan(x) : (V)tan(splat<f32x4>(x))[0];
    else if constexpr (sizeof(Element<V>) == 8) return each<V>([&](i32 lane) { return __builtin_tan(x[lane]); });
    else if (__builtin_expect(!all_lanes(has_tan(x)), 0)) return tan_by_lane(x);
    else return in_double([](auto d) { return tan_twofold(d); }, x);
}

template <class V> CALLED V erfinv(V x) {
    if constexpr (!is_vector<V>) return sizeof(V) == 8 ? (V)erfinv_by_steps(x) : (V)erfinv(splat<f32x4>(x))[0];
    else if constexpr (sizeof(Element<V>) == 8) return each<V>([&](i32 lane) { return erfinv_by_steps(x[lane]); });
    else if (all_lanes(absolute(x) < splat<V>(0.9966f))) return in_double([](auto d) { return erfinv_of_middle(d); }, x);
    else return in_double([](auto d) { return erfinv_twofold(d); }, x);
}

// Where the exponent is known to be 1/2, gcc would take the root, which is another number for -0 and -infinity.
#if defined(__clang__)
static __attribute__((noinline)) f64 power_of_library(f64 a, f64 b) { return __builtin_pow(a, b); }
#else
static __attribute__((noipa)) f64 power_of_library(f64 a, f64 b) { return __builtin_pow(a, b); }
#endif

#define INDUCTOR_TWOFOLD2(name, library, has) \
    template <class V> RARE V name##_by_lane(V a, V b) { \
        return each<V>([&](i32 lane) { return (Element<V>)library(a[lane], b[lane]); }); \
    } \
    template <class V> CALLED V name(V a, V b) { \
        if constexpr (!is_vector<V>) \
            return sizeof(V) == 8 ? (V)library(a, b) : (V)name(splat<f32x4>(a), splat<f32x4>(b))[0]; \
        else if constexpr (sizeof(Element<V>) == 8) return name##_by_lane(a, b); \
        else if (__builtin_expect(!all_lanes(has(a, b)), 0)) return name##_by_lane(a, b); \
        else return in_double([](auto x, auto y) { return name##_twofold(x, y); }, a, b); \
    }
INDUCTOR_TWOFOLD2(atan2, __builtin_atan2, has_pair)
INDUCTOR_TWOFOLD2(hypot, __builtin_hypot, has_pair)
INDUCTOR_TWOFOLD2(pow, power_of_library, has_pow)
#undef INDUCTOR_TWOFOLD2

// Integer powers wrap; a negative exponent leaves only 1 and -1 standing.
template <class T> inline T integer_power(T a, T b) {
    if (b < 0) return a == 1 ? (T)1 : a == (T)-1 ? (b & 1 ? (T)-1 : (T)1) : (T)0;
    T power = 1;
    for (; b; b >>= 1, a = (T)(a * a))
        if (b & 1) power = (T)(power * a);
    return power;
}
template <class V> INLINE V integer_power_lanes(V a, V b) {
    return each<V>([&](i32 lane) { return integer_power(a[lane], b[lane]); });
}
