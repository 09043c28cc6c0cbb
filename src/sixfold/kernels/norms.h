/* Normalisation of rows: norms and the softmax. Rows are `width` numbers, padded with zeros. */

#ifndef NORMS_H
#define NORMS_H

#include "vectors.h"

typedef struct {
    const float *weight, *bias;
    float epsilon;
} Norm;

static inline void normalise(const Norm *norm, const float *from, float *to, long rows, long d_model, long width) {
    long surplus = width - d_model;
    for (long r = 0; r < rows; r++, from += width, to += width) {
        floats sum = all(0), squares = all(0);
        for (long i = 0; i < width; i += LANES) sum += load(from + i);
        float mean = sum_of(sum) / d_model;
        for (long i = 0; i < width; i += LANES) {
            floats offset = load(from + i) - mean;
            squares = fused(offset, offset, squares);
        }
        float variance = (sum_of(squares) - surplus * mean * mean) / d_model; /* without the padding */
        float scale = 1 / sqrtf(variance + norm->epsilon);
        for (long i = 0; i < width; i += LANES)
            store(to + i, (load(from + i) - mean) * scale * load(norm->weight + i) + load(norm->bias + i));
    }
}

static inline void normalise_by_size(const Norm *norm, const float *from, float *to, long d_model, long width) {
    floats squares = all(0);
    for (long i = 0; i < width; i += LANES) squares = fused(load(from + i), load(from + i), squares);
    float scale = 1 / sqrtf(sum_of(squares) / d_model + norm->epsilon);
    for (long i = 0; i < width; i += LANES) store(to + i, load(from + i) * scale * load(norm->weight + i));
}

/* Turn scores into e^(score - largest), and return 1 / their sum. */
static inline float exponentiate(float *scores, long count) {
    floats largest = all(-INFINITY), sum = all(0);
    long padded = (count + LANES - 1) / LANES * LANES;
    for (long i = count; i < padded; i++) scores[i] = -INFINITY;
    for (long i = 0; i < padded; i += LANES) largest = larger(largest, load(scores + i));
    floats top = all(largest_of(largest));
    for (long i = 0; i < padded; i += LANES) {
        floats weight = exponential(load(scores + i) - top);
        store(scores + i, weight);
        sum += weight;
    }
    return 1 / sum_of(sum);
}

#endif
