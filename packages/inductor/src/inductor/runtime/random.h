// Random numbers from a counter: Philox 4x32 with ten rounds.  The key is the seed, the counter the element's offset, so
// a number depends on nothing but those two.
#pragma once

struct PhiloxBlock { u32 word[4]; };

inline PhiloxBlock philox(u64 seed, u64 offset) {
    u32 c0 = (u32)offset, c1 = (u32)(offset >> 32), c2 = 0, c3 = 0;
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    for (i32 round = 0; round < 10; round++) {
        const u64 a = (u64)0xD2511F53u * c0, b = (u64)0xCD9E8D57u * c2;
        const u32 n0 = (u32)(b >> 32) ^ c1 ^ k0, n2 = (u32)(a >> 32) ^ c3 ^ k1;
        c1 = (u32)b, c3 = (u32)a, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return {{c0, c1, c2, c3}};
}

INLINE f32 unit_interval(u32 word) { return (f32)(word >> 8) * 0x1p-24f; }

template <class T> inline T random_uniform(i64 seed, i64 offset) { return (T)unit_interval(philox(seed, offset).word[0]); }

// Box and Muller's transformation of the first two words.
template <class T> inline T random_normal(i64 seed, i64 offset) {
    const PhiloxBlock block = philox(seed, offset);
    const f32 radius = __builtin_sqrtf(-2.0f * __builtin_logf(1.0f - unit_interval(block.word[0])));
    return (T)(radius * __builtin_cosf(6.28318548f * unit_interval(block.word[1])));
}

template <class T> inline T random_integer(i64 seed, i64 offset, i64 low, i64 high) {
    const PhiloxBlock block = philox(seed, offset);
    const u64 bits = (u64)block.word[0] << 32 | block.word[1];
    return (T)(low + (i64)(bits % (u64)(high - low)));
}
