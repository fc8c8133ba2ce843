// Accumulators: what a reduction keeps while it runs, for one element at a time or for a vector of them.
//
// Every accumulator has add(), which takes an element (per lane), and take(), which takes over what a vector of partial
// accumulators, or another accumulator of its own kind, has gathered.
#pragma once

template <class T> constexpr T lowest_value() {
    if constexpr ((T)0.5 != 0) return (T)-__builtin_inf();
    else if constexpr ((T)-1 > 0) return 0;
    else return (T)((u64)1 << (8 * sizeof(T) - 1));
}
template <class T> constexpr T highest_value() {
    if constexpr ((T)0.5 != 0) return (T)__builtin_inf();
    else return (T)~lowest_value<T>();
}
template <class T> INLINE T lowest() {
    if constexpr (is_vector<T>) return splat<T>(lowest_value<Element<T>>());
    else return lowest_value<T>();
}
template <class T> INLINE T highest() {
    if constexpr (is_vector<T>) return splat<T>(highest_value<Element<T>>());
    else return highest_value<T>();
}

#define INDUCTOR_ACCUMULATOR(Name, start, combined) \
    template <class T> struct Name { \
        T value = start; \
        INLINE void add(T x) { const T a = value; value = combined; } \
        INLINE void take(const Name& other) { add(other.value); } \
        template <class V> INLINE void take(const Name<V>& part) { \
            for (i32 lane = 0; lane < lanes_of<V>; lane++) add((T)part.value[lane]); \
        } \
    };
INDUCTOR_ACCUMULATOR(Sum, T{}, a + x)
INDUCTOR_ACCUMULATOR(Product, splat<T>(1), a * x)
INDUCTOR_ACCUMULATOR(Max, lowest<T>(), maximum(a, x))
INDUCTOR_ACCUMULATOR(Min, highest<T>(), minimum(a, x))
INDUCTOR_ACCUMULATOR(Any, T{}, a | x)
INDUCTOR_ACCUMULATOR(All, (T) !T{}, a & x)
INDUCTOR_ACCUMULATOR(Xor, T{}, a ^ x)
#undef INDUCTOR_ACCUMULATOR

// A sum of so many that one running value would lose digits: what 256 have come to is added up apart, and 256 of these.
template <class T> struct LongSum {
    T value{}, more{}, most{};
    u32 count = 0;
    INLINE void add(T x) {
        value = value + x;
        if ((++count & 255) != 0) return;
        more = more + value;
        value = T{};
        if ((count & 65535) != 0) return;
        most = most + more;
        more = T{};
    }
    INLINE T sum() const { return most + (more + value); }
    INLINE void take(const LongSum& other) { add(other.sum()); }
    template <class V> INLINE void take(const LongSum<V>& part) {
        const V all = part.sum();
        for (i32 lane = 0; lane < lanes_of<V>; lane++) add((T)all[lane]);
    }
    template <class V> INLINE void take(const Sum<V>& part) {
        for (i32 lane = 0; lane < lanes_of<V>; lane++) add((T)part.value[lane]);
    }
};

// Truth in lanes as wide as ``model``'s.
template <class M, class U> INLINE M narrow(M, U truth) {
    if constexpr (is_vector<M>) return to_mask<M>(truth);
    else return truth;
}

// The position of the best value; of equals the first, and NaN beats everything.
#define INDUCTOR_POSITION(Name, start, better) \
    template <class T, class I> struct Name { \
        T value = start; \
        I at = splat<I>(0x7fffffffffffffffL); \
        INLINE void add(T x, I position) { \
            const auto nan = x != x, had_nan = value != value; \
            const auto same = (x == value) | (nan & had_nan); \
            const auto wins = (x better value) | (nan & (value == value)) | (same & narrow(nan, position < at)); \
            value = where(wins, x, value); \
            at = where(wins, position, at); \
        } \
        INLINE void take(const Name& other) { add(other.value, other.at); } \
        template <class V, class J> INLINE void take(const Name<V, J>& part) { \
            for (i32 lane = 0; lane < lanes_of<V>; lane++) add((T)part.value[lane], (I)part.at[lane]); \
        } \
    };
INDUCTOR_POSITION(ArgMax, lowest<T>(), >)
INDUCTOR_POSITION(ArgMin, highest<T>(), <)
#undef INDUCTOR_POSITION

// Mean and sum of squared deviations, in one stable pass.  The lanes of a vector have seen equally many elements.
template <class T> struct Welford {
    T mean{}, m2{};
    f64 count = 0;
    INLINE void add(T x) {
        count += 1;
        const T before = x - mean;
        mean = fma(before, splat<T>(1 / count), mean);
        m2 = fma(before, x - mean, m2);
    }
    INLINE void take(const Welford& other) {
        if (other.count == 0) return;
        const f64 total = count + other.count;
        const T apart = other.mean - mean;
        mean = mean + apart * splat<T>(other.count / total);
        m2 = m2 + other.m2 + apart * apart * splat<T>(count * other.count / total);
        count = total;
    }
    template <class V> INLINE void take(const Welford<V>& part) {
        Welford whole;
        whole.count = part.count * lanes_of<V>;
        for (i32 lane = 0; lane < lanes_of<V>; lane++) whole.mean += part.mean[lane];
        whole.mean /= lanes_of<V>;
        for (i32 lane = 0; lane < lanes_of<V>; lane++) {
            const T apart = part.mean[lane] - whole.mean;
            whole.m2 += part.m2[lane] + (T)part.count * apart * apart;
        }
        take(whole);
    }
};
