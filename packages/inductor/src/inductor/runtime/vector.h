// Vector types of the compiler's vector extension (GCC and clang, any CPU) and what operators cannot say about them.
//
// f32x16 is sixteen floats; + - * / < == & work on it lane by lane, a comparison gives -1 or 0 in integer lanes.
// Truth values travel as i32 lanes whatever they were compared from: maskx16 is i32x16.
#pragma once

typedef float f32;
typedef double f64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

#define INDUCTOR_VECTOR(type, lanes) typedef type type##x##lanes __attribute__((vector_size(sizeof(type) * lanes)));
#define INDUCTOR_VECTORS(lanes) \
    INDUCTOR_VECTOR(f32, lanes) INDUCTOR_VECTOR(f64, lanes) \
    INDUCTOR_VECTOR(i8, lanes) INDUCTOR_VECTOR(i16, lanes) INDUCTOR_VECTOR(i32, lanes) INDUCTOR_VECTOR(i64, lanes) \
    INDUCTOR_VECTOR(u8, lanes) INDUCTOR_VECTOR(u16, lanes) INDUCTOR_VECTOR(u32, lanes) INDUCTOR_VECTOR(u64, lanes) \
    typedef i32x##lanes maskx##lanes;
INDUCTOR_VECTORS(2)
INDUCTOR_VECTORS(4)
INDUCTOR_VECTORS(8)
INDUCTOR_VECTORS(16)
#undef INDUCTOR_VECTORS
#undef INDUCTOR_VECTOR

// Single instructions are asked for by GCC's names.  clang has others; it finds the instruction in what is general.
#ifdef __clang__
#define GCC_BUILTINS 0
#else
#define GCC_BUILTINS 1
#endif

#define INLINE inline __attribute__((always_inline))
#define RARE static __attribute__((noinline, cold))  // compiled once however often it is called

// -- what a type is ---------------------------------------------------------------------------------------------------

template <class T> struct TypeOf { static const bool vector = true; typedef __typeof__(T{}[0]) Element; };
#define INDUCTOR_SCALAR(type) template <> struct TypeOf<type> { static const bool vector = false; typedef type Element; };
INDUCTOR_SCALAR(bool) INDUCTOR_SCALAR(f32) INDUCTOR_SCALAR(f64)
INDUCTOR_SCALAR(i8) INDUCTOR_SCALAR(i16) INDUCTOR_SCALAR(i32) INDUCTOR_SCALAR(i64)
INDUCTOR_SCALAR(u8) INDUCTOR_SCALAR(u16) INDUCTOR_SCALAR(u32) INDUCTOR_SCALAR(u64)
#undef INDUCTOR_SCALAR

template <class T> constexpr bool is_vector = TypeOf<T>::vector;
template <class T> using Element = typename TypeOf<T>::Element;
template <class V> constexpr int lanes_of = sizeof(V) / sizeof(V{}[0]);

// The integers as wide as a float type, scalar or vector: what its comparisons give, and its bits.
template <class V> struct BitsOf { typedef decltype(V{} < V{}) type; };
template <> struct BitsOf<f32> { typedef i32 type; };
template <> struct BitsOf<f64> { typedef i64 type; };
template <class V> using Bits = typename BitsOf<V>::type;

// -- making vectors ---------------------------------------------------------------------------------------------------

template <class V, class T> INLINE V splat(T x) {
    if constexpr (is_vector<V>) return (Element<V>)x - V{};
    else return (V)x;
}

template <class M> INLINE M splat_mask(bool x) { return M{} - (i32)x; }

// One lane at a time, for what has no vector form.
template <class V, class F> INLINE V each(F lane_value) {
    V out{};
#pragma GCC unroll 16
    for (i32 lane = 0; lane < lanes_of<V>; lane++) out[lane] = lane_value(lane);
    return out;
}

template <int lanes, class F> INLINE void for_each_lane(F body) {
#pragma GCC unroll 16
    for (i32 lane = 0; lane < lanes; lane++) body(lane);
}

// start, start + step, start + 2 * step...
template <class V> INLINE V ramp(i64 start, i64 step) {
    return each<V>([&](i32 lane) { return start + lane * step; });
}

INLINE i32 nearest_i32(i64 x) { return x < -0x80000000L ? -0x7fffffff - 1 : x > 0x7fffffffL ? 0x7fffffff : (i32)x; }

template <class V, class U> INLINE V convert(U x) { return __builtin_convertvector(x, V); }

template <class V, class U> INLINE V bits_as(U x) {
    static_assert(sizeof(V) == sizeof(U), "the same number of bits");
    V out;
    __builtin_memcpy(&out, &x, sizeof out);
    return out;
}

// -- memory -----------------------------------------------------------------------------------------------------------

template <class V> INLINE V load(const void* from) {
    V out;
    __builtin_memcpy(&out, from, sizeof out);
    return out;
}

template <class V> INLINE void store(void* to, V x) { __builtin_memcpy(to, &x, sizeof x); }

// Asks for what a loop comes to that many bytes further on.  Nothing waits for it, and beyond the end nothing happens.
static const i64 AHEAD = 2048;
template <int lanes, class T> INLINE void will_read(const T* at) {
    for (u64 byte = 0; byte < sizeof(T) * lanes; byte += 64) __builtin_prefetch((const char*)((u64)at + AHEAD + byte));
}
template <int lanes, class T> INLINE void will_write(const T* at) {
    for (u64 byte = 0; byte < sizeof(T) * lanes; byte += 64) __builtin_prefetch((const char*)((u64)at + AHEAD + byte), 1);
}

// from[0], from[2], from[4]...; nothing behind the last of them is read.
template <class V> INLINE V load_every_second(const void* from) {
    const Element<V>* at = (const Element<V>*)from;
#ifdef __clang__
    return each<V>([&](i32 lane) { return at[2 * lane]; });
#else
    constexpr i32 lanes = lanes_of<V>;
    Bits<V> places{};
    for (i32 lane = 0; lane < lanes; lane++) places[lane] = 2 * lane < lanes ? 2 * lane : 2 * lane + 1;
    return __builtin_shuffle(load<V>(at), load<V>(at + lanes - 1), places);
#endif
}

// A square of elements: rows[k][lane] = from[lane * step + k].  Rows are read whole, and exchange halves of halves of
// halves... with their neighbours.
template <class V, int lanes> INLINE void turn(V (&rows)[lanes], const void* from, i64 step) {
    const Element<V>* at = (const Element<V>*)from;
#ifdef __clang__
    for (i32 k = 0; k < lanes; k++) rows[k] = each<V>([&](i32 lane) { return at[lane * step + k]; });
#else
    V now[lanes];
#pragma GCC unroll 16
    for (i32 k = 0; k < lanes; k++) now[k] = load<V>(at + k * step);
#pragma GCC unroll 4
    for (i32 half = 1; half < lanes; half *= 2) {
        Bits<V> low{}, high{};
        for (i32 lane = 0; lane < lanes; lane++) {
            low[lane] = lane & half ? lanes + lane - half : lane;
            high[lane] = lane & half ? lanes + lane : lane + half;
        }
#pragma GCC unroll 16
        for (i32 k = 0; k < lanes; k++)
            if (!(k & half)) {
                const V a = now[k], b = now[k + half];
                now[k] = __builtin_shuffle(a, b, low);
                now[k + half] = __builtin_shuffle(a, b, high);
            }
    }
#pragma GCC unroll 16
    for (i32 k = 0; k < lanes; k++) rows[k] = now[k];
#endif
}

template <int lanes> struct Bytes { typedef u8 type __attribute__((vector_size(lanes))); typedef i8 truth __attribute__((vector_size(lanes))); };

template <class M> INLINE M load_mask(const bool* from) {
    return convert<M>(load<typename Bytes<lanes_of<M>>::type>(from) != 0);
}

template <class M> INLINE void store_mask(bool* to, M x) {
    store(to, convert<typename Bytes<lanes_of<M>>::truth>(x) & 1);
}

// -- truth ------------------------------------------------------------------------------------------------------------

template <class M, class U> INLINE M to_mask(U x) {
    if constexpr (sizeof(M) == sizeof(U)) return (M)x;
    else return convert<M>(x);
}

template <class M> INLINE bool any_lane(M mask) {
    bool any = false;
    for (i32 lane = 0; lane < lanes_of<M>; lane++) any |= mask[lane] != 0;
    return any;
}

#if GCC_BUILTINS && defined(__AVX512F__)
template <> INLINE bool any_lane(maskx16 mask) { return __builtin_ia32_ptestmd512(mask, mask, -1) != 0; }
#endif
#if GCC_BUILTINS && defined(__AVX__)
typedef long long Quads __attribute__((vector_size(32)));
template <> INLINE bool any_lane(maskx8 mask) { return !__builtin_ia32_ptestz256((Quads)mask, (Quads)mask); }
#endif

template <class M> INLINE bool all_lanes(M mask) { return !any_lane(~mask); }

template <class M, class V> INLINE V where(M mask, V a, V b) {
    if constexpr (!is_vector<V>) return mask ? a : b;
    else if constexpr (sizeof(M) == sizeof(V)) return (decltype(V{} < V{}))mask ? a : b;
    else return convert<decltype(V{} < V{})>(mask) ? a : b;
}

// A vector of which only the lanes in ``mask`` may be read; the others are 0.
template <class V, class M> INLINE V load_where(M mask, const void* from) {
    if (all_lanes(mask)) return load<V>(from);
    V out{};
    if (!any_lane(mask)) return out;
    for (i32 lane = 0; lane < lanes_of<V>; lane++)
        if (mask[lane]) __builtin_memcpy((char*)&out + lane * sizeof(out[0]), (const char*)from + lane * sizeof(out[0]), sizeof(out[0]));
    return out;
}

template <class V, class M> INLINE V load_every_second_where(M mask, const void* from) {
    if (all_lanes(mask)) return load_every_second<V>(from);
    V out{};
    for (i32 lane = 0; lane < lanes_of<V>; lane++)
        if (mask[lane]) out[lane] = ((const Element<V>*)from)[2 * lane];
    return out;
}

template <class M> INLINE M load_mask_where(M mask, const bool* from) {
    typedef typename Bytes<lanes_of<M>>::type Packed;
    return convert<M>(load_where<Packed>(mask, from) != 0);
}

template <class V, class M> INLINE void store_where(M mask, void* to, V x) {
    if (all_lanes(mask)) return store(to, x);
    for (i32 lane = 0; lane < lanes_of<V>; lane++)
        if (mask[lane]) __builtin_memcpy((char*)to + lane * sizeof(x[0]), (const char*)&x + lane * sizeof(x[0]), sizeof(x[0]));
}

template <class V, class M, class F> INLINE V each_where(M mask, F lane_value) {
    V out{};
#pragma GCC unroll 16
    for (i32 lane = 0; lane < lanes_of<V>; lane++)
        if (mask[lane]) out[lane] = lane_value(lane);
    return out;
}

// Adds to a place that other threads may be adding to.
template <class T> inline void atomic_add(T* place, T x) { __atomic_fetch_add(place, x, __ATOMIC_RELAXED); }
