/* Vectors of the processor's width, with the compiler's vector extensions. */

#ifndef VECTORS_H
#define VECTORS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16, ROWS = 12 }; /* ROWS are multiplied at once: their sums fit in registers */
#else
enum { LANES = 8, ROWS = 6 };
#endif
enum { PANEL = 2 * LANES }; /* outputs computed at once */

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef int8_t bytes __attribute__((vector_size(LANES)));

#define INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

INLINE floats load(const float *from) { floats v; memcpy(&v, from, sizeof v); return v; }
INLINE void store(float *to, floats v) { memcpy(to, &v, sizeof v); }
INLINE ints load_ints(const void *from) { ints v; memcpy(&v, from, sizeof v); return v; }
INLINE floats all(float x) { return x - (floats){0}; }
INLINE ints all_ints(int32_t x) { return x - (ints){0}; }
INLINE long shorter(long a, long b) { return a < b ? a : b; }

/* a b + c, rounded once. Explicit, because the compiler might fuse it for some numbers of rows only. */
INLINE floats fused(floats a, floats b, floats c) {
#if defined(__AVX512F__)
    return (floats)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_FEATURE_FMA)
    for (int i = 0; i < LANES; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
}

INLINE floats larger(floats a, floats b) {
#if defined(__AVX512F__)
    return (floats)_mm512_max_ps((__m512)a, (__m512)b);
#else
    ints is_a = a > b;
    return (floats)((is_a & (ints)a) | (~is_a & (ints)b));
#endif
}

INLINE float sum_of(floats v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#else
    float sum = 0;
    for (int i = 0; i < LANES; i++) sum += v[i];
    return sum;
#endif
}

INLINE int32_t total_of(ints v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_epi32((__m512i)v);
#else
    int32_t sum = 0;
    for (int i = 0; i < LANES; i++) sum += v[i];
    return sum;
#endif
}

INLINE float largest_of(floats v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#else
    float largest = v[0];
    for (int i = 1; i < LANES; i++) largest = v[i] > largest ? v[i] : largest;
    return largest;
#endif
}

static const float ROUNDING = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */

/* e^x for x up to 88; about 0 below -87. */
INLINE floats exponential(floats x) {
    floats power = larger(x * 1.44269504f, all(-126.0f));
    floats whole = (power + ROUNDING) - ROUNDING, part = power - whole;
    floats curve = all(1.54035304e-4f); /* 2^part for -1/2 to 1/2 */
    curve = fused(curve, part, all(1.33335581e-3f));
    curve = fused(curve, part, all(9.61812911e-3f));
    curve = fused(curve, part, all(5.55041087e-2f));
    curve = fused(curve, part, all(2.40226507e-1f));
    curve = fused(curve, part, all(6.93147181e-1f));
    curve = fused(curve, part, all(1.0f));
    return curve * (floats)((__builtin_convertvector(whole, ints) + 127) << 23);
}

#endif
