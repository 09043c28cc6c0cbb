/* Products with weights.

A panel of outputs is stored input by input, so that a product reads the weights sequentially, once. 8-bit weights
have four inputs of an output next to each other, and 128 is added to each, because the processor multiplies unsigned
by signed bytes; the effect of that is computed from the sum of a row. */

#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "vectors.h"

typedef struct {
    const void *weight; /* floats, or bytes if there are scales */
    const float *scale; /* of each output, or NULL */
    const float *bias;
    long inputs, outputs;
} Matrix;

typedef struct { /* rows to multiply, in float32 and quantised to 8 bits */
    const float *values;
    const int8_t *rounded;
    const float *scale;
    const int32_t *surplus; /* the effect of adding 128 */
    long count;
    long group; /* adjacent numbers of a row that share a scale */
} Rows;

/* Add the products of the four bytes in each lane of the weights with four inputs. */
#if defined(__AVX512VNNI__)
INLINE ints add_products(ints sum, ints weights, int32_t inputs) {
    return (ints)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)weights, (__m512i)all_ints(inputs));
}
#elif defined(__AVXVNNI__) && !defined(__AVX512F__)
INLINE ints add_products(ints sum, ints weights, int32_t inputs) {
    return (ints)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)weights, (__m256i)all_ints(inputs));
}
#elif defined(__AVX512BW__) || defined(__AVX2__)
INLINE ints add_pairs(ints sum, ints weights, int first, int second) { /* bytes 0 and 2 of each lane */
    ints inputs = all_ints((first & 65535) | (int32_t)((uint32_t)second << 16)), pairs = weights & 0x00ff00ff;
#if defined(__AVX512BW__)
    return sum + (ints)_mm512_madd_epi16((__m512i)pairs, (__m512i)inputs);
#else
    return sum + (ints)_mm256_madd_epi16((__m256i)pairs, (__m256i)inputs);
#endif
}
INLINE ints add_products(ints sum, ints weights, int32_t inputs) {
    sum = add_pairs(sum, weights, (int8_t)inputs, (int8_t)(inputs >> 16));
    return add_pairs(sum, weights >> 8, (int8_t)(inputs >> 8), (int8_t)(inputs >> 24));
}
#else
INLINE ints add_products(ints sum, ints weights, int32_t inputs) {
    for (int i = 0; i < 4; i++) sum += ((weights >> (8 * i)) & 255) * (int32_t)(int8_t)(inputs >> (8 * i));
    return sum;
}
#endif

INLINE void prefetch(const void *weights, int size) { /* some time before they are used */
    for (int i = 0; i < size; i += 64) __builtin_prefetch((const char *)weights + 4096 + i);
}

typedef struct { /* the destination of a product: to = x W + bias + add, in rows of `stride` numbers */
    float *to;
    long stride;
    const float *add; /* or NULL */
    int is_rectified; /* negative numbers become 0 (ReLU) */
} Result;

INLINE void finish(floats sum, const Matrix *m, long column, const Result *result, long place) {
    sum += load(m->bias + column);
    if (result->add) sum += load(result->add + place);
    store(result->to + place, result->is_rectified ? larger(sum, all(0)) : sum);
}

/* Write the product of `rows` rows beginning with `row` and the panel beginning with `column` to `place`. */
INLINE void multiply_floats(
    const Matrix *m, const Rows *x, const Result *result, long row, long column, long place, int rows
) {
    const float *w = (const float *)m->weight + column * m->inputs, *inputs = x->values + row * m->inputs;
    floats sum[12][2];
    UNROLL for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = all(0);
    for (long i = 0; i < m->inputs; i++, w += PANEL) {
        floats left = load(w), right = load(w + LANES);
        prefetch(w, PANEL * sizeof *w);
        UNROLL for (int r = 0; r < rows; r++) {
            floats input = all(inputs[r * m->inputs + i]);
            sum[r][0] = fused(left, input, sum[r][0]);
            sum[r][1] = fused(right, input, sum[r][1]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        finish(sum[r][0], m, column, result, place + r * result->stride);
        finish(sum[r][1], m, column + LANES, result, place + r * result->stride + LANES);
    }
}

/* Add the products of `count` inputs to the sums of `rows` rows. */
INLINE void multiply_group(
    const uint8_t *w, const int8_t *inputs, long stride, long count, ints sum[12][2], int rows
) {
    for (long i = 0; i < count; i += 4, w += 4 * PANEL) {
        ints left = load_ints(w), right = load_ints(w + 4 * LANES);
        prefetch(w, 4 * PANEL);
        UNROLL for (int r = 0; r < rows; r++) {
            int32_t four;
            memcpy(&four, inputs + r * stride + i, sizeof four);
            sum[r][0] = add_products(sum[r][0], left, four);
            sum[r][1] = add_products(sum[r][1], right, four);
        }
    }
}

/* Rows with one scale each: the sums need no room beside them, so that all stay in registers. */
INLINE void multiply_whole(
    const Matrix *m, const Rows *x, const Result *result, long row, long column, long place, int rows
) {
    const uint8_t *w = (const uint8_t *)m->weight + column * m->inputs;
    ints sum[12][2];
    UNROLL for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = all_ints(0);
    multiply_group(w, x->rounded + row * m->inputs, m->inputs, m->inputs, sum, rows);
    floats left = load(m->scale + column), right = load(m->scale + column + LANES);
    UNROLL for (int r = 0; r < rows; r++) {
        float scale = x->scale[row + r];
        int32_t surplus = x->surplus[row + r];
        floats low = __builtin_convertvector(sum[r][0] - surplus, floats) * (left * scale);
        floats high = __builtin_convertvector(sum[r][1] - surplus, floats) * (right * scale);
        finish(low, m, column, result, place + r * result->stride);
        finish(high, m, column + LANES, result, place + r * result->stride + LANES);
    }
}

/* Rows with a scale for each group of inputs: the groups are added up in float32. */
INLINE void multiply_groups(
    const Matrix *m, const Rows *x, const Result *result, long row, long column, long place, int rows
) {
    const uint8_t *w = (const uint8_t *)m->weight + column * m->inputs;
    const int8_t *inputs = x->rounded + row * m->inputs;
    long group = x->group, groups = (m->inputs + group - 1) / group;
    floats total[12][2];
    UNROLL for (int r = 0; r < rows; r++) total[r][0] = total[r][1] = all(0);
    for (long g = 0, begin = 0; g < groups; g++, begin += group) {
        ints sum[12][2];
        UNROLL for (int r = 0; r < rows; r++)
            sum[r][0] = sum[r][1] = all_ints(-x->surplus[(row + r) * groups + g]);
        long count = shorter(group, m->inputs - begin);
        multiply_group(w + begin * PANEL, inputs + begin, m->inputs, count, sum, rows);
        UNROLL for (int r = 0; r < rows; r++) {
            floats scale = all(x->scale[(row + r) * groups + g]);
            UNROLL for (int side = 0; side < 2; side++)
                total[r][side] = fused(__builtin_convertvector(sum[r][side], floats), scale, total[r][side]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++)
        UNROLL for (int side = 0; side < 2; side++) {
            long shift = side * LANES;
            floats product = total[r][side] * load(m->scale + column + shift);
            finish(product, m, column + shift, result, place + r * result->stride + shift);
        }
}

INLINE void multiply_bytes(
    const Matrix *m, const Rows *x, const Result *result, long row, long column, long place, int rows
) {
    if (x->group < m->inputs)
        multiply_groups(m, x, result, row, column, place, rows);
    else
        multiply_whole(m, x, result, row, column, place, rows);
}

/* Multiply by the columns from `begin` to `end`; the first is written to the beginning of a row. */
static inline void multiply_columns(const Matrix *m, const Rows *x, const Result *result, long begin, long end) {
    for (long column = begin; column < end; column += PANEL)
        for (long row = 0; row < x->count; row += ROWS) {
            long place = row * result->stride + column - begin;
            switch (shorter(ROWS, x->count - row)) { /* the compiler makes one version for each number of rows */
#define CASE(rows)                                                                                                    \
    case rows:                                                                                                        \
        if (m->scale) multiply_bytes(m, x, result, row, column, place, rows);                                         \
        else multiply_floats(m, x, result, row, column, place, rows);                                                 \
        break;
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#undef CASE
            }
        }
}

static inline void multiply(const Matrix *m, const Rows *x, float *to, const float *add, int is_rectified) {
    Result result = {to, m->outputs, add, is_rectified};
    multiply_columns(m, x, &result, 0, m->outputs);
}

/* Quantise some numbers to integers from -127 to 127, with a scale of their own. */
static inline void round_row(const float *x, long width, int8_t *rounded, float *scale, int32_t *surplus) {
    floats largest = all(1e-20f);
    for (long i = 0; i < width; i += LANES) largest = larger(largest, larger(load(x + i), -load(x + i)));
    *scale = largest_of(largest) / 127;
    float inverse = 1 / *scale;
    ints sum = all_ints(0);
    for (long i = 0; i < width; i += LANES) {
        ints whole = __builtin_convertvector((load(x + i) * inverse + ROUNDING) - ROUNDING, ints);
        bytes narrow = __builtin_convertvector(whole, bytes);
        memcpy(rounded + i, &narrow, sizeof narrow);
        sum += whole;
    }
    *surplus = 128 * total_of(sum);
}

#endif
