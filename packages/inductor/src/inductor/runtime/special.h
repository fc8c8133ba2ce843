// Functions that are rare, or hard: the C library's, lane by lane, and a few of our own.
#pragma once

INDUCTOR_LANEWISE(tan, __builtin_tanf, __builtin_tan)
INDUCTOR_LANEWISE(asin, __builtin_asinf, __builtin_asin)
INDUCTOR_LANEWISE(acos, __builtin_acosf, __builtin_acos)
INDUCTOR_LANEWISE(sinh, __builtin_sinhf, __builtin_sinh)
INDUCTOR_LANEWISE(cosh, __builtin_coshf, __builtin_cosh)
INDUCTOR_LANEWISE(asinh, __builtin_asinhf, __builtin_asinh)
INDUCTOR_LANEWISE(acosh, __builtin_acoshf, __builtin_acosh)
INDUCTOR_LANEWISE(atanh, __builtin_atanhf, __builtin_atanh)
INDUCTOR_LANEWISE(erfc, __builtin_erfc, __builtin_erfc)      // the library's single precision ones lose digits
INDUCTOR_LANEWISE(lgamma, __builtin_lgamma, __builtin_lgamma)

// Newton's steps on erf from a rough first guess (Winitzki's).
inline f64 erfinv(f64 x) {
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
inline f32 erfinv(f32 x) { return (f32)erfinv((f64)x); }

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
template <class V> INLINE V erfinv(V x) { return each<V>([&](i32 lane) { return erfinv(x[lane]); }); }
template <class V> INLINE V digamma(V x) { return each<V>([&](i32 lane) { return digamma(x[lane]); }); }

#define INDUCTOR_LANEWISE2(name, single, twofold) \
    INLINE f32 name(f32 a, f32 b) { return single(a, b); } \
    INLINE f64 name(f64 a, f64 b) { return twofold(a, b); } \
    template <class V> INLINE V name(V a, V b) { return each<V>([&](i32 lane) { return name(a[lane], b[lane]); }); }
INDUCTOR_LANEWISE2(atan2, __builtin_atan2f, __builtin_atan2)
INDUCTOR_LANEWISE2(hypot, __builtin_hypotf, __builtin_hypot)
INDUCTOR_LANEWISE2(nextafter, __builtin_nextafterf, __builtin_nextafter)

// -- powers -----------------------------------------------------------------------------------------------------------

// Positive, normal, finite x and finite y, through double precision: y * log2(x) keeps 40 bits, which is plenty for 24.
template <class V> INLINE Like<f64, V> log2_twofold(V x) {
    typedef Like<f64, V> Double;
    const Bits<V> bits = bits_as<Bits<V>>(x) - 0x3f3504f3;
    const Double m = widen<Double>(bits_as<V>((bits & 0x007fffff) + 0x3f3504f3));
    const Double s = (m - 1.0) / (m + 1.0);  // log(m) = 2 * atanh(s), |s| < 0.172
    const Double series = polynomial(s * s, 1.0, 1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15);
    return widen<Double>(bits >> 23) + s * series * 2.88539008177792681472;
}
template <class V> INLINE V exp2_twofold(Like<f64, V> x) {
    typedef Like<f64, V> Double;
    const Double low = splat<Double>(-160.0), high = splat<Double>(130.0);
    x = where(x < low, low, where(x > high, high, x));
    const Double magic = splat<Double>(0x1.8p52);
    const Double shifted = x + magic;
    const Double r = (x - (shifted - magic)) * 0.69314718055994530942;
    const Double power = polynomial(r, 1.0, 1.0, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320);
    const Bits<Double> n = bits_as<Bits<Double>>(shifted) - bits_as<Bits<Double>>(magic);
    return widen<V>(power * bits_as<Double>((n + 1023) << 52));
}
template <class V> RARE V pow_by_lane(V x, V y) {
    return each<V>([&](i32 lane) { return __builtin_powf(x[lane], y[lane]); });
}
template <class V> INLINE V pow_single(V x, V y) {
    const V infinity = splat<V>(__builtin_inff());
    const auto plain = (x >= splat<V>(0x1p-126f)) & (x < infinity) & (absolute(y) < infinity);
    if (__builtin_expect(!all_lanes(plain), 0)) return pow_by_lane(x, y);
    return exp2_twofold<V>(widen<Like<f64, V>>(y) * log2_twofold(x));
}

template <class V> CALLED V pow(V a, V b) {
    if constexpr (sizeof(Element<V>) == 8) {
        if constexpr (is_vector<V>) return each<V>([&](i32 lane) { return __builtin_pow(a[lane], b[lane]); });
        else return __builtin_pow(a, b);
    } else {
        if constexpr (is_vector<V>) return pow_single(a, b);
        else return pow_single(splat<f32x4>(a), splat<f32x4>(b))[0];
    }
}

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
