/* Products of weights of 8 bits with inputs of 16.

   GROUP inputs of an output share a scale, and each row of inputs has its own. Two inputs of an output stand side by
   side, because the processor multiplies pairs. Where all rows are known at once, as in an encoder, this costs twice as
   much as inputs of 8 bits, and leaves a tenth of the error. */

#ifndef WORDS_H
#define WORDS_H

#include "products.h"

enum { GROUP = 64 };

typedef int16_t words __attribute__((vector_size(4 * LANES)));
typedef int8_t narrow_words __attribute__((vector_size(2 * LANES)));

typedef struct {
    const int16_t *values;
    const float *scale; /* of each row */
    long count;
} WordRows;

INLINE words widen(const int8_t *from) {
    narrow_words v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, words);
}

/* Add the products of the two weights in each lane with two inputs. */
INLINE ints add_pair(ints sum, words weights, int32_t inputs) {
#if defined(__AVX512VNNI__)
    return (ints)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)weights, (__m512i)all_ints(inputs));
#elif defined(__AVX512BW__)
    return sum + (ints)_mm512_madd_epi16((__m512i)weights, (__m512i)all_ints(inputs));
#elif defined(__AVX2__)
    return sum + (ints)_mm256_madd_epi16((__m256i)weights, (__m256i)all_ints(inputs));
#else
    int32_t first = (int16_t)inputs, second = inputs >> 16;
    for (int i = 0; i < LANES; i++) sum[i] += weights[2 * i] * first + weights[2 * i + 1] * second;
    return sum;
#endif
}

/* The product of `rows` rows from `row` on with the panel from `column` on, which goes to `place`. */
INLINE void multiply_words(
    const Matrix *m, const WordRows *x, const Result *result, long row, long column, long place, int rows
) {
    const int8_t *w = (const int8_t *)m->weight + column * m->inputs;
    const int16_t *inputs = x->values + row * m->inputs;
    const float *scale = m->scale + column * ((m->inputs + GROUP - 1) / GROUP);
    floats total[ROWS][2];
    UNROLL for (int r = 0; r < rows; r++) total[r][0] = total[r][1] = all(0);
    for (long first = 0; first < m->inputs; first += GROUP, scale += PANEL) {
        ints sum[ROWS][2];
        UNROLL for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = all_ints(0);
        for (long i = first, end = shorter(first + GROUP, m->inputs); i < end; i += 2, w += 2 * PANEL) {
            words left = widen(w), right = widen(w + 2 * LANES);
            UNROLL for (int r = 0; r < rows; r++) {
                int32_t two;
                memcpy(&two, inputs + r * m->inputs + i, sizeof two);
                sum[r][0] = add_pair(sum[r][0], left, two);
                sum[r][1] = add_pair(sum[r][1], right, two);
            }
        }
        floats left = load(scale), right = load(scale + LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            total[r][0] = fused(__builtin_convertvector(sum[r][0], floats), left, total[r][0]);
            total[r][1] = fused(__builtin_convertvector(sum[r][1], floats), right, total[r][1]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) {
        float of_row = x->scale[row + r];
        finish(total[r][0] * of_row, m, column, result, place + r * result->stride);
        finish(total[r][1] * of_row, m, column + LANES, result, place + r * result->stride + LANES);
    }
}

/* Multiply with the columns from `begin` to `end`; the first goes to the first place of a row. */
static inline void multiply_word_columns(
    const Matrix *m, const WordRows *x, const Result *result, long begin, long end
) {
    for (long column = begin; column < end; column += PANEL)
        for (long row = 0; row < x->count; row += ROWS) {
            long place = row * result->stride + column - begin;
            switch (shorter(ROWS, x->count - row)) { /* the compiler makes one version for each number of rows */
#define CASE(rows)                                                                                                    \
    case rows: multiply_words(m, x, result, row, column, place, rows); break;
                CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
#undef CASE
            }
        }
}

/* Round a row to -32767 … 32767 steps of its own. */
static inline void round_row_to_words(const float *x, long width, int16_t *rounded, float *scale) {
    floats largest = all(1e-20f);
    for (long i = 0; i < width; i += LANES) largest = larger(largest, larger(load(x + i), -load(x + i)));
    *scale = largest_of(largest) / 32767;
    float inverse = 1 / *scale;
    for (long i = 0; i < width; i += LANES) {
        ints whole = __builtin_convertvector((load(x + i) * inverse + ROUNDING) - ROUNDING, ints);
        for (int j = 0; j < LANES; j++) rounded[i + j] = (int16_t)whole[j];
    }
}

#endif
