// Elementary functions.  Single precision is computed here, a vector at a time, to at most 2 units in the last place;
// double precision goes lane by lane to the C library.  A scalar takes the same path as a vector, so an element's value
// does not depend on where the vectors end.
//
// The polynomials are minimax fits over the reduced ranges named beside them.
#pragma once

// c0 + c1 * x + c2 * x * x ...
template <class V, class C> INLINE V polynomial(V, C c) { return splat<V>(c); }
template <class V, class C, class... Rest> INLINE V polynomial(V x, C c, Rest... rest) {
    return fma(polynomial(x, rest...), x, splat<V>(c));
}

// -- exponentials -----------------------------------------------------------------------------------------------------

// x = n * log(2) + r with |r| <= log(2) / 2; gives e**r - 1.
template <class V> struct Reduced { V r, n; };
template <class V> INLINE Reduced<V> reduce_by_log2(V x) {
    const V magic = splat<V>(0x1.8p23f);  // adding it rounds to an integer, found in the low bits
    const V shifted = fma(x, splat<V>(1.44269502f), magic);
    const V n = shifted - magic;
    const V r = fma(n, splat<V>(-1.42860677e-06f), fma(n, splat<V>(-0.693145752f), x));
    return {r, n};
}
// e**r for such an r.
template <class V> INLINE V exp_reduced(V r) {
    const V tail = polynomial(r, 0.5f, 0.166665182f, 0.041666206f, 0.00836891774f, 0.00139505381f);
    return fma(r, fma(r, tail, splat<V>(1.0f)), splat<V>(1.0f));
}
template <class V> INLINE V expm1_reduced(V r) {
    const V tail = polynomial(r, 0.5f, 0.166666672f, 0.0416662544f, 0.00833326485f, 0.00139472308f, 0.000199180708f);
    return fma(r * r, tail, r);
}

// Results that round to 0 are not computed: multiplying down to them costs the processor hundreds of cycles, and masked
// softmax is full of them.
template <class V> INLINE V exp_single(V x) {
    const V zero = splat<V>(0);
    const auto vanishes = x < splat<V>(-104.0f);
    const Reduced<V> part = reduce_by_log2(where(vanishes, zero, at_most(x, 89.0f)));
    return where(vanishes, zero, scale_by_power(exp_reduced(part.r), part.n));
}

template <class V> INLINE V exp2_single(V x) {
    const V zero = splat<V>(0);
    const auto vanishes = x < splat<V>(-150.0f);
    const V bounded = where(vanishes, zero, at_most(x, 129.0f));
    const V magic = splat<V>(0x1.8p23f);
    const V shifted = bounded + magic;
    const V n = shifted - magic, r = bounded - n;
    const V scaled = fma(r, splat<V>(0.693147182f), r * -1.90465421e-09f);
    return where(vanishes, zero, scale_by_power(exp_reduced(scaled), n));
}

template <class V> INLINE V expm1_single(V x) {
    const Reduced<V> part = reduce_by_log2(clamp(x, -30.0f, 89.0f));
    const V half_power = scale_by_power(splat<V>(0.5f), part.n);  // half of 2**n, which may overflow
    const V doubled = fma(half_power, expm1_reduced(part.r), half_power - 0.5f);
    return where(absolute(x) < splat<V>(1e-10f), x, doubled * 2.0f);
}

template <class V> INLINE V sigmoid_single(V x) {
    const V small = exp_single(-absolute(x));
    const V positive = where(x < splat<V>(0), small, splat<V>(1));
    const V below = 1.0f + small, above = where(x < splat<V>(-88.7228394f), splat<V>(0), positive);  // 1 / infinity
    const V lost = small - (below - 1.0f);  // what rounding the sum lost
    const V reciprocal = rough_reciprocal(below), rough = above * reciprocal;
    return fma(fma(-rough, lost, fma(-rough, below, above)), reciprocal, rough);
}

template <class V> INLINE V tanh_single(V x) {
    const V size = absolute(x), square = x * x;
    const V tail = polynomial(square, -0.333333313f, 0.133332103f, -0.0539472327f, 0.021703111f, -0.00818299875f, 0.00214781333f);
    const V near_zero = fma(x * square, tail, x);  // below 0.625
    const V large = at_most(size, 10.0f);
    const V beyond = 1.0f - 2.0f * quick_reciprocal(exp_single(large + large) + 1.0f);
    return copysign(where(size < splat<V>(0.625f), near_zero, beyond), x);
}

// -- logarithms -------------------------------------------------------------------------------------------------------

// x = 2**exponent * (1 + f) with f in [sqrt(1/2) - 1, sqrt(2) - 1].
template <class V> struct Split { V f, exponent; };
template <class V> INLINE Split<V> split_exponent(V x) {
    const auto tiny = x < splat<V>(0x1p-126f);
    const Bits<V> bits = bits_as<Bits<V>>(where(tiny, x * 0x1p25f, x)) - 0x3f3504f3;  // sqrt(1/2)
    const V exponent = widen<V>(bits >> 23) - where(tiny, splat<V>(25.0f), splat<V>(0.0f));
    return {bits_as<V>((bits & 0x007fffff) + 0x3f3504f3) - 1.0f, exponent};
}
// log(1 + f) = f + tail
template <class V> INLINE V log1p_tail(V f) {
    const V cubic = polynomial(f, 0.333333343f, -0.249999657f, 0.200000361f, -0.166694298f, 0.142869502f, -0.124251708f,
                               0.110120356f, -0.1079356f, 0.107431985f, -0.0615210719f);
    return f * f * fma(f, cubic, splat<V>(-0.5f));
}
template <class V> INLINE V log_special(V x, V regular) {
    const V infinity = splat<V>(__builtin_inff());
    const V positive = where(x == infinity, infinity, regular);
    const V zero = where(x == splat<V>(0), -infinity, positive);
    return where((x < splat<V>(0)) | (x != x), splat<V>(__builtin_nanf("")), zero);
}

template <class V> INLINE V log_single(V x) {
    const Split<V> part = split_exponent(x);
    const V low = fma(part.exponent, splat<V>(1.42860677e-06f), log1p_tail(part.f));
    return log_special(x, fma(part.exponent, splat<V>(0.693145752f), part.f + low));
}
template <class V> INLINE V log2_single(V x) {
    const Split<V> part = split_exponent(x);
    const V tail = log1p_tail(part.f);
    const V low = fma(part.f + tail, splat<V>(1.92596303e-08f), tail * 1.44269502f);
    return log_special(x, part.exponent + fma(part.f, splat<V>(1.44269502f), low));
}
template <class V> INLINE V log10_single(V x) {
    const Split<V> part = split_exponent(x);
    const V tail = log1p_tail(part.f);
    const V low = fma(part.exponent, splat<V>(4.60503907e-06f), fma(part.f, splat<V>(-1.010305e-08f), tail * 0.434294492f));
    return log_special(x, fma(part.exponent, splat<V>(0.301025391f), fma(part.f, splat<V>(0.434294492f), low)));
}
template <class V> INLINE V log1p_single(V x) {
    const V u = 1.0f + x;
    const V lost = where(x > splat<V>(1.0f), 1.0f - (u - x), x - (u - 1.0f));  // what rounding 1 + x lost
    const Split<V> part = split_exponent(u);
    const V low = fma(part.exponent, splat<V>(1.42860677e-06f), log1p_tail(part.f) + lost / u);
    const V regular = fma(part.exponent, splat<V>(0.693145752f), part.f + low);
    return where(absolute(x) < splat<V>(1e-7f), x, log_special(u, regular));
}

// -- sine and cosine --------------------------------------------------------------------------------------------------

// x = quarter * pi / 2 + r with |r| <= pi / 4; good for |x| up to 2**15.
template <class V> struct Turned { V r; Bits<V> n; };
template <class V> INLINE Turned<V> reduce_by_half_pi(V x) {
    const V magic = splat<V>(0x1.8p23f);
    const V shifted = fma(x, splat<V>(0.636619747f), magic);
    const V n = shifted - magic;
    V r = fma(n, splat<V>(-1.57079637f), x);
    r = fma(n, splat<V>(4.37113883e-08f), r);
    return {fma(n, splat<V>(1.71512451e-15f), r), bits_as<Bits<V>>(shifted)};
}
template <class V> INLINE V sine_of_quarter(V r, Bits<V> quarter) {
    const V square = r * r;
    const V sine = fma(r * square, polynomial(square, -0.166666672f, 0.00833332911f, -0.000198393158f, 2.71812542e-06f), r);
    const V tail = polynomial(square, 0.0416666679f, -0.00138890126f, 2.48300366e-05f, -2.94957658e-07f);
    const V cosine = fma(square * square, tail, fma(square, splat<V>(-0.5f), splat<V>(1.0f)));
    const V value = where((quarter & 1) != 0, cosine, sine);
    return bits_as<V>(bits_as<Bits<V>>(value) ^ ((quarter & 2) << 30));
}
template <class V> INLINE bool beyond_reduction(V x) { return !all_lanes(absolute(x) <= splat<V>(32768.0f)); }
template <class V> RARE V sin_by_lane(V x) { return each<V>([&](i32 lane) { return __builtin_sinf(x[lane]); }); }
template <class V> RARE V cos_by_lane(V x) { return each<V>([&](i32 lane) { return __builtin_cosf(x[lane]); }); }

template <class V> INLINE V sin_single(V x) {
    if (__builtin_expect(beyond_reduction(x), 0)) return sin_by_lane(x);
    const Turned<V> part = reduce_by_half_pi(x);
    return where(x == splat<V>(0), x, sine_of_quarter(part.r, part.n));
}
template <class V> INLINE V cos_single(V x) {
    if (__builtin_expect(beyond_reduction(x), 0)) return cos_by_lane(x);
    const Turned<V> part = reduce_by_half_pi(x);
    return sine_of_quarter(part.r, part.n + 1);
}

// -- error function, arc tangent --------------------------------------------------------------------------------------

// erf(x) / x by powers of the distance to the middle of one of 16 stretches.  Their width has few bits, so that the
// distance is exact.  From 3.95 on the result is 1, and that is what the last stretch gives there.
static const f32 ERF_WIDTH = 0.2578125f;
static const f32 ERF[6][16] = {
    {1.1283791f, 1.1038698f, 1.035875f, 0.9386147f, 0.82935447f, 0.7227718f, 0.62791246f, 0.5481813f,
     0.48313394f, 0.4305313f, 0.38777548f, 0.35259572f, 0.3232284f, 0.29836765f, 0.2770562f, 0.25858584f},
    {0.0f, -0.18638624f, -0.33149645f, -0.4114552f, -0.42645112f, -0.39453757f, -0.33927163f, -0.2796772f,
     -0.22647332f, -0.18331665f, -0.14984167f, -0.12420336f, -0.104452446f, -0.08901899f, -0.076759465f, -0.06686645f},
    {-0.37612224f, -0.3328616f, -0.22204512f, -0.08839972f, 0.023949008f, 0.09187588f, 0.11622546f, 0.111521974f,
     0.09377315f, 0.07382613f, 0.056655616f, 0.043433487f, 0.03368374f, 0.026545495f, 0.021264194f, 0.017290372f},
    {0.0f, 0.10748064f, 0.1687988f, 0.1668051f, 0.11868486f, 0.057408344f, 0.008971274f, -0.017543545f,
     -0.026011735f, -0.024549505f, -0.019647105f, -0.0146722095f, -0.010733948f, -0.007888467f, -0.0058856388f, -0.0044701463f},
    {0.112170696f, 0.08717112f, 0.028478459f, -0.02880133f, -0.05798897f, -0.055861186f, -0.036477607f, -0.015822703f,
     -0.0022044126f, 0.003815969f, 0.0050843656f, 0.0043785125f, 0.0032605345f, 0.0023087098f, 0.001623841f, 0.0011561478f},
    {0.0f, -0.036557317f, -0.049750157f, -0.035606857f, -0.009389251f, 0.010719384f, 0.017247124f, 0.013783337f,
     0.0073431833f, 0.002396505f, -0.000072613846f, -0.0008344583f, -0.0008357939f, -0.00063263136f, -0.00043761637f, -0.00029667412f},
};
template <class V> INLINE V erf_single(V x) {
    const V magic = splat<V>(0x1.8p23f);  // adding it rounds to an integer, found in the low bits
    const V size = at_most(absolute(x), 3.95f);
    const V shifted = fma(size, splat<V>(1 / ERF_WIDTH), magic);
    const Bits<V> place = bits_as<Bits<V>>(shifted);
    const V distance = fma(shifted - magic, splat<V>(-ERF_WIDTH), size);
    V slope = lookup<V>(ERF[5], place);
    for (i32 power = 4; power > 0; power--) slope = fma(slope, distance, lookup<V>(ERF[power], place));
    const V value = fma(size, lookup<V>(ERF[0], place), size * (slope * distance));
    return bits_as<V>(bits_as<Bits<V>>(value) | sign_of(x));
}

template <class V> INLINE V atan_single(V x) {
    const V size = absolute(x), one = splat<V>(1.0f);
    const auto large = size > splat<V>(2.41421366f), middle = size > splat<V>(0.414213568f);
    const V numerator = where(large, -one, where(middle, size - 1.0f, size));
    const V denominator = where(large, size, where(middle, size + 1.0f, one));
    const V high = where(large, splat<V>(1.57079637f), where(middle, splat<V>(0.785398185f), splat<V>(0.0f)));
    const V low = where(large, splat<V>(-4.37113883e-08f), where(middle, splat<V>(-2.18556941e-08f), splat<V>(0.0f)));
    const V t = numerator / denominator, square = t * t;
    const V tail = polynomial(square, -0.333333343f, 0.199999943f, -0.142854273f, 0.111040667f, -0.0899736956f,
                              0.069934316f, -0.0379606001f);
    return copysign(high + (t + fma(t * square, tail, low)), x);
}

// -- the public names -------------------------------------------------------------------------------------------------

// Where a source calls hundreds of them, each is compiled once and called: inline they would take a minute to compile.
#ifdef INDUCTOR_MANY_CALLS
#define CALLED static __attribute__((noinline))
#else
#define CALLED INLINE
#endif

#define INDUCTOR_ELEMENTARY(name) \
    template <class V> CALLED V name(V x) { \
        if constexpr (sizeof(Element<V>) == 8) { \
            if constexpr (is_vector<V>) return each<V>([&](i32 lane) { return __builtin_##name(x[lane]); }); \
            else return __builtin_##name(x); \
        } else { \
            if constexpr (is_vector<V>) return name##_single(x); \
            else return name##_single(splat<f32x4>(x))[0]; \
        } \
    }
INDUCTOR_ELEMENTARY(exp)
INDUCTOR_ELEMENTARY(exp2)
INDUCTOR_ELEMENTARY(expm1)
INDUCTOR_ELEMENTARY(log)
INDUCTOR_ELEMENTARY(log2)
INDUCTOR_ELEMENTARY(log10)
INDUCTOR_ELEMENTARY(log1p)
INDUCTOR_ELEMENTARY(tanh)
INDUCTOR_ELEMENTARY(sin)
INDUCTOR_ELEMENTARY(cos)
INDUCTOR_ELEMENTARY(erf)
INDUCTOR_ELEMENTARY(atan)
#undef INDUCTOR_ELEMENTARY

template <class V> CALLED V sigmoid(V x) {
    if constexpr (sizeof(Element<V>) == 8) return splat<V>(1) / (splat<V>(1) + exp(-x));
    else if constexpr (is_vector<V>) return sigmoid_single(x);
    else return sigmoid_single(splat<f32x4>(x))[0];
}

template <class V> INLINE V rsqrt(V x) { return splat<V>(1) / sqrt(x); }
template <class V> INLINE V reciprocal(V x) { return splat<V>(1) / x; }
