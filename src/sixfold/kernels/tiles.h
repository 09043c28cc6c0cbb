/* Shared by the kernels of attention and activations: vectors, small matrix products, and powers of two. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LANES 16
#define ROWS 6 /* rows of a product computed at once */
#ifdef __AVX512F__
#define WIDEST 4 /* vectors of a row computed at once, so that all sums fit in registers */
#else
#define WIDEST 1
#endif

typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4)));

/* Some rows of a product, and `wide` vectors of each; see below. Each number is summed in the order of k, however
many rows and vectors are computed at once. */
static inline __attribute__((always_inline)) void
multiply_tile(int rows, int wide, long k, const float *a, long a_row, long a_column, const float *b, long b_row, float *c,
              long c_row, int adds) {
    Vector sum[ROWS][WIDEST];
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < wide; v++)
            sum[i][v] = adds ? *(Vector *)(c + i * c_row + v * LANES) : (Vector){0};
    for (long l = 0; l < k; l++) {
        Vector right[WIDEST];
        for (int v = 0; v < wide; v++)
            right[v] = *(const Vector *)(b + l * b_row + v * LANES);
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < wide; v++)
                sum[i][v] += a[i * a_row + l * a_column] * right[v];
    }
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < wide; v++)
            *(Vector *)(c + i * c_row + v * LANES) = sum[i][v];
}

static inline __attribute__((always_inline)) void
multiply_rows(int rows, long n, long k, const float *a, long a_row, long a_column, const float *b, long b_row,
              float *c, long c_row, int adds) {
    long j = 0;
    for (; j + WIDEST * LANES <= n; j += WIDEST * LANES)
        multiply_tile(rows, WIDEST, k, a, a_row, a_column, b + j, b_row, c + j, c_row, adds);
    for (; WIDEST > 2 && j + 2 * LANES <= n; j += 2 * LANES)
        multiply_tile(rows, 2, k, a, a_row, a_column, b + j, b_row, c + j, c_row, adds);
    for (; j < n; j += LANES)
        multiply_tile(rows, 1, k, a, a_row, a_column, b + j, b_row, c + j, c_row, adds);
}

/* C (m × n) = or += A (m × k) · B (k × n). B and C are rows of contiguous numbers, n a multiple of LANES; A has any
   strides, so that it can stand for its transpose. */
static inline void multiply(long m, long n, long k, const float *a, long a_row, long a_column, const float *b, long b_row,
                     float *c, long c_row, int adds) {
    long i = 0;
    for (; i + ROWS <= m; i += ROWS)
        multiply_rows(ROWS, n, k, a + i * a_row, a_row, a_column, b, b_row, c + i * c_row, c_row, adds);
    a += i * a_row, c += i * c_row;
    switch (m - i) {
    case 5: multiply_rows(5, n, k, a, a_row, a_column, b, b_row, c, c_row, adds); break;
    case 4: multiply_rows(4, n, k, a, a_row, a_column, b, b_row, c, c_row, adds); break;
    case 3: multiply_rows(3, n, k, a, a_row, a_column, b, b_row, c, c_row, adds); break;
    case 2: multiply_rows(2, n, k, a, a_row, a_column, b, b_row, c, c_row, adds); break;
    case 1: multiply_rows(1, n, k, a, a_row, a_column, b, b_row, c, c_row, adds); break;
    }
}

/* The elements with these indices of two concatenated vectors. GCC before 12 has this only under an older name. */
#if !defined(__has_builtin)
#define __has_builtin(name) 0
#endif
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLE(first, second, ...) __builtin_shufflevector(first, second, __VA_ARGS__)
#else
typedef int32_t Places __attribute__((vector_size(4 * LANES)));
#define SHUFFLE(first, second, ...) __builtin_shuffle(first, second, (Places){__VA_ARGS__})
#endif

/* Transpose a square of LANES vectors by swapping off-diagonal blocks of one, two, four and eight numbers. */
#define EXCHANGE(rows, size, low, high)                                     \
    for (int i = 0; i < LANES; i++)                                         \
        if (!(i & size)) {                                                  \
            Vector first = rows[i], second = rows[i + size];                \
            rows[i] = SHUFFLE(first, second, low);                          \
            rows[i + size] = SHUFFLE(first, second, high);                  \
        }
#define LOW_1 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW_2 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_4 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31

/* Write `count` positions as columns: `width` rows of `padded` numbers, with zeros after the last column. */
static inline void transpose(const float *positions, long stride, long count, long padded, long width, float *out) {
    for (long first = 0; first < padded; first += LANES)
        for (long d = 0; d < width; d += LANES) {
            Vector rows[LANES];
            for (int i = 0; i < LANES; i++)
                rows[i] = first + i < count ? *(const Vector *)(positions + (first + i) * stride + d) : (Vector){0};
            EXCHANGE(rows, 1, LOW_1, HIGH_1)
            EXCHANGE(rows, 2, LOW_2, HIGH_2)
            EXCHANGE(rows, 4, LOW_4, HIGH_4)
            EXCHANGE(rows, 8, LOW_8, HIGH_8)
            for (int i = 0; i < LANES; i++)
                *(Vector *)(out + (d + i) * padded + first) = rows[i];
        }
}

/* 2^x, accurate to the last bit or two, for x clamped to -64 … 64: relative to 1, powers outside are negligible or
dominant, and clamping avoids subnormal numbers, which are a hundred times slower. It has no branches, so that
compilers vectorise it: adding 1.5 · 2^23 rounds x to an integer, which is then in the lowest bits. */
static inline float power_of_two(float x) {
    x = x < -64.0f ? -64.0f : x;
    x = x > 64.0f ? 64.0f : x;
    float rounded = x + 12582912.0f;
    float r = x - (rounded - 12582912.0f);
    float p = 1.3276472e-3f;
    p = p * r + 9.67554133e-3f;
    p = p * r + 5.55071327e-2f;
    p = p * r + 2.40221197e-1f;
    p = p * r + 6.93146967e-1f;
    p = p * r + 1.0f;
    uint32_t whole, power;
    memcpy(&whole, &rounded, 4);
    memcpy(&power, &p, 4);
    power += whole << 23;
    memcpy(&p, &power, 4);
    return p;
}
