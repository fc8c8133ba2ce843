// Functions of single precision that go through double precision: what would lose digits in single precision, and takes
// more instructions to save than twice the width costs.  Results are good to about 2**-30 before they are rounded.
#pragma once

#if defined(__AVX512F__)
constexpr i32 DOUBLE_LANES = 8;
#elif defined(__AVX__)
constexpr i32 DOUBLE_LANES = 4;
#else
constexpr i32 DOUBLE_LANES = 2;
#endif

template <class V> using HalfOf = typename VectorOf<Element<V>, lanes_of<V> / 2>::type;
template <class V> INLINE HalfOf<V> half_of(const V& x, i32 which) {
    return load<HalfOf<V>>((const char*)&x + which * sizeof(HalfOf<V>));
}

// A function of double precision on the lanes of single precision vectors, as many at a time as a register holds.
template <class V, class F, class... More> INLINE V in_double(F function, V x, More... more) {
    if constexpr (lanes_of<V> > DOUBLE_LANES) {
        const HalfOf<V> halves[2] = {in_double(function, half_of(x, 0), half_of(more, 0)...),
                                     in_double(function, half_of(x, 1), half_of(more, 1)...)};
        return load<V>(halves);
    } else {
        typedef Like<f64, V> Double;
        return convert<V>(function(convert<Double>(x), convert<Double>(more)...));
    }
}

// -- powers and logarithms --------------------------------------------------------------------------------------------

// 2**x, where single precision can tell it from 0 and infinity.
template <class D> INLINE D exp2_twofold(D x) {
    const D low = splat<D>(-160.0), high = splat<D>(130.0), magic = splat<D>(0x1.8p52);
    x = where(x < low, low, where(x > high, high, x));
    const D shifted = x + magic;
    const D r = (x - (shifted - magic)) * 0.69314718055994530942;
    const D power = polynomial(r, 0.9999999999595618, 0.999999999995509, 0.5000000107729166, 0.16666666786308587,
                               0.041666218319291945, 0.008333283538708528, 0.0013948578326459795, 0.00019907569310848288);
    const Bits<D> n = bits_as<Bits<D>>(shifted) - bits_as<Bits<D>>(magic);
    return power * bits_as<D>((n + 1023) << 52);
}
template <class D> INLINE D exp_twofold(D x) { return exp2_twofold(x * 1.44269504088896340736); }

// x = 2**exponent * (1 + s) / (1 - s) with |s| < 0.172, for normal positive x; log(x) = exponent * log(2) + s * series
template <class D> struct Ratio { D exponent, s, series; };
template <class D> INLINE Ratio<D> split_into_ratio(D x) {
    typedef Like<u64, D> Unsigned;
    const Unsigned root = splat<Unsigned>(0x3fe6a09e667f3bcdUL), whole = splat<Unsigned>(0x3ff0000000000000UL);  // sqrt(1/2), 1
    const Unsigned bits = bits_as<Unsigned>(x) + (whole - root);
    const D m = bits_as<D>((bits & 0xfffffffffffffUL) + root);
    const D exponent = bits_as<D>((bits >> 52) | 0x4330000000000000UL) - splat<D>(0x1p52 + 1023);
    const D s = (m - 1.0) / (m + 1.0);
    return {exponent, s, polynomial(s * s, 1.9999999999999472, 0.6666666667957926, 0.3999999489183238, 0.28572166145875727,
                                    0.2217424991007749, 0.19608095639753054)};
}
template <class D> INLINE D log_twofold(D x) {
    const Ratio<D> part = split_into_ratio(x);
    return fma(part.exponent, splat<D>(0.69314718055994530942), part.s * part.series);
}
template <class D> INLINE D log2_twofold(D x) {
    const Ratio<D> part = split_into_ratio(x);
    return fma(part.s * part.series, splat<D>(1.44269504088896340736), part.exponent);
}

// |x|**y, with the signs of powers of negative numbers; for x and y that are finite.
template <class D> INLINE D pow_twofold(D x, D y) {
    const D zero = splat<D>(0), size = absolute(x);
    const D exponent = where(size == zero, splat<D>(-1e60), log2_twofold(size)) * y;
    const D power = exp2_twofold(exponent);
    const auto negative = bits_as<Bits<D>>(x) < 0;
    const D half = y * 0.5;
    const auto whole = round_even(y) == y, odd = whole & (round_even(half) != half);
    const D sure = where((x < zero) & ~whole, splat<D>(__builtin_nan("")), power);
    return where(negative & odd, -sure, sure);
}

template <class D> INLINE D hypot_twofold(D x, D y) {
    const D infinity = splat<D>(__builtin_inf());
    return where((absolute(x) == infinity) | (absolute(y) == infinity), infinity, sqrt(fma(x, x, y * y)));
}

// -- hyperbolic functions ---------------------------------------------------------------------------------------------

template <class D> INLINE D sinh_twofold(D x) {
    const D square = x * x, power = exp_twofold(absolute(x));
    const D small = x * polynomial(square, 0.9999999999999205, 0.16666666667239327, 0.008333333266545869, 0.00019841298317149254,
                                   2.755183485237489e-06, 2.5538205221156536e-08);
    return where(square < splat<D>(1), small, copysign((power - 1.0 / power) * 0.5, x));
}
template <class D> INLINE D cosh_twofold(D x) {
    const D power = exp_twofold(absolute(x));
    return (power + 1.0 / power) * 0.5;
}
template <class D> INLINE D asinh_twofold(D x) {
    const D size = absolute(x), square = x * x;
    const D large = log_twofold(size + sqrt(square + 1.0));
    const D small = fma(size * square, fma(square, splat<D>(0.075), splat<D>(-1.0 / 6)), size);
    return copysign(where(size < splat<D>(1e-3), small, where(size < splat<D>(__builtin_inf()), large, size)), x);
}
template <class D> INLINE D acosh_twofold(D x) {
    const D large = log_twofold(x + sqrt(x * x - 1.0));
    return where(x < splat<D>(1), splat<D>(__builtin_nan("")), where(x < splat<D>(__builtin_inf()), large, x));
}
template <class D> INLINE D atanh_twofold(D x) {
    const D size = absolute(x), square = x * x, one = splat<D>(1);
    const D large = log_twofold((one + size) / (one - size)) * 0.5;
    const D small = fma(size * square, fma(square, splat<D>(0.2), splat<D>(1.0 / 3)), size);
    const D inside = where(size < splat<D>(1e-3), small, large);
    const D edge = where(size == one, splat<D>(__builtin_inf()), splat<D>(__builtin_nan("")));
    return copysign(where(size < one, inside, edge), x);
}

// -- angles -----------------------------------------------------------------------------------------------------------

// For |x| up to 2**30.
template <class D> INLINE D tan_twofold(D x) {
    const D magic = splat<D>(0x1.8p52);
    const D shifted = fma(x, splat<D>(0.63661977236758134308), magic);
    const D n = shifted - magic;
    const D r = fma(n, splat<D>(-6.12323399573676603587e-17), fma(n, splat<D>(-1.57079632679489655800), x));
    const D square = r * r;
    const D sine = r * polynomial(square, 0.9999999999999957, -0.16666666666616686, 0.00833333332387815, -0.0001984126329839051,
                                  2.7555271893389817e-06, -2.475655877198039e-08);
    const D cosine = polynomial(square, 0.9999999999999444, -0.49999999999351113, 0.04166666654391119, -0.0013888880393776424,
                                2.4798928755323667e-05, -2.717342984102282e-07);
    const auto odd = (bits_as<Bits<D>>(shifted) & 1) != 0;
    return where(odd, -cosine, sine) / where(odd, sine, cosine);
}
template <class D> INLINE D asin_of_half(D x) {  // |x| up to 1/2
    return x * polynomial(x * x, 1.000000000000825, 0.16666666613278705, 0.07500005655821883, 0.04464056469220037,
                          0.03042811901907943, 0.02185574259984348, 0.02068132717169167, 0.0019156113431105127, 0.03295759470084881);
}
template <class D> INLINE D asin_twofold(D x) {
    const D size = absolute(x), half = splat<D>(0.5);
    const auto outer = size > half;
    const D part = asin_of_half(where(outer, sqrt((1.0 - size) * 0.5), size));
    return copysign(where(outer, 1.57079632679489655800 - 2.0 * part, part), x);
}
template <class D> INLINE D acos_twofold(D x) {
    const D size = absolute(x), half = splat<D>(0.5);
    const auto outer = size > half;
    const D part = asin_of_half(where(outer, sqrt((1.0 - size) * 0.5), x));
    const D far = where(x < splat<D>(0), 3.14159265358979311600 - 2.0 * part, 2.0 * part);
    return where(outer, far, 1.57079632679489655800 - part);
}
template <class D> INLINE D atan2_twofold(D y, D x) {
    const D high_x = absolute(x), high_y = absolute(y);
    const auto steep = high_y > high_x;
    const D low = where(steep, high_x, high_y), high = where(steep, high_y, high_x);
    const D ratio = where(low == high, splat<D>(1), low / high);  // of two infinities too
    const D t = where(high == splat<D>(0), high, ratio);
    const D angle = t * polynomial(t * t, 0.9999999999887381, -0.3333333295165722, 0.19999978336217084, -0.1428522560816021,
                                   0.11105306732424464, -0.09049179093720577, 0.07495262378099696, -0.06022196387937433,
                                   0.04364658944281667, -0.02600599597760862, 0.011427633277375594, -0.0031954252407363944,
                                   0.00041922786011272897);
    const D turned = where(steep, 1.57079632679489655800 - angle, angle);
    const D left = where(bits_as<Bits<D>>(x) < 0, 3.14159265358979311600 - turned, turned);
    return copysign(where((x != x) | (y != y), x + y, left), y);
}

// -- error functions --------------------------------------------------------------------------------------------------

// erfc(x) * exp(x * x) * (1 + 2 * x) by powers of (x - 3) / (x + 3).
template <class D> INLINE D erfc_twofold(D x) {
    const D limit = splat<D>(10.6), size = absolute(x), bounded = where(size > limit, limit, size);
    const D above = bounded + 3.0, growth = fma(bounded, splat<D>(2), splat<D>(1)), reciprocal = 1.0 / (above * growth);
    const D t = (bounded - 3.0) * growth * reciprocal;
    const D scaled = polynomial(t, 1.2530080582390708, -0.1356211069497864, -0.04756229056252612, 0.12964520447688313,
                                -0.11927371729126428, 0.06830729581240785, -0.023770635953708995, 0.0025341115126373357,
                                0.0018932805941389954, -0.0007917941657417026, -0.0001263223486044274,
                                0.00012855640133548846, 3.389440302942413e-05);
    const D tail = scaled * above * reciprocal * exp_twofold(-bounded * bounded);
    return where(x < splat<D>(0), 2.0 - tail, tail);
}

// erfinv(x) / x by powers of w = -log(1 - x * x) up to 5, which is for |x| < 0.9966, and of its square root beyond.
template <class D> INLINE D erfinv_by_log(D w) {
    return polynomial(w, 0.8862269253981395, 0.23201367024532019, 0.011549299438956629, -0.00233490579592786,
                      -0.00012851973714040642, 4.731327091702654e-05, 1.3458075851527609e-06, -5.728545735020383e-07,
                      -2.35062337802583e-07, 8.350653684004119e-08, -1.129706500238048e-08, 7.591358436857782e-10,
                      -2.1203565131819003e-11);
}
template <class D> INLINE D erfinv_by_root(D root) {
    return polynomial(root, 5.060910751960303, -19.270872801866997, 40.01328140790574, -48.54469449109768, 38.98605410360831,
                      -21.680430554271776, 8.573420746820911, -2.4377188661174483, 0.49639302888386405, -0.07081447314642886,
                      0.006734782455119341, -0.0003841577429311803, 9.954851115338003e-06);
}
template <class D> INLINE D erfinv_of_middle(D x) { return x * erfinv_by_log(-log_twofold(fma(-x, x, splat<D>(1)))); }
template <class D> INLINE D erfinv_twofold(D x) {
    const D size = absolute(x), one = splat<D>(1), infinity = splat<D>(__builtin_inf());
    const D w = -log_twofold(fma(-x, x, one));
    const D inside = x * where(w < splat<D>(5), erfinv_by_log(w), erfinv_by_root(sqrt(w)));
    return where(size < one, inside, where(size == one, copysign(infinity, x), splat<D>(__builtin_nan(""))));
}
