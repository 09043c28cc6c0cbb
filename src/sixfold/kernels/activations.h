/* What stands between the two products of the position-wise network. */

#ifndef ACTIVATIONS_H
#define ACTIVATIONS_H

#include "vectors.h"

enum { RELU, GELU, GELU_TANH, QUICK_GELU, SILU };

INLINE floats sigmoid(floats x) { return 1 / (1 + exponential(-larger(x, all(-87.0f)))); }

/* The error function, to 2e-7 (Abramowitz and Stegun, 7.1.26). */
INLINE floats error_function(floats x) {
    floats size = larger(x, -x), t = 1 / fused(all(0.3275911f), size, all(1.0f)), curve = all(1.061405429f);
    curve = fused(curve, t, all(-1.453152027f));
    curve = fused(curve, t, all(1.421413741f));
    curve = fused(curve, t, all(-0.284496736f));
    curve = fused(curve, t, all(0.254829592f));
    floats result = 1 - curve * t * exponential(-size * size);
    ints is_negative = x < 0;
    return (floats)((is_negative & (ints)-result) | (~is_negative & (ints)result));
}

INLINE floats activated(floats x, int activation) {
    switch (activation) {
    case RELU: return larger(x, all(0));
    case GELU: return x * 0.5f * (1 + error_function(x * 0.707106781f));
    case GELU_TANH: return x * sigmoid(1.595769122f * fused(x * x * 0.044715f, x, x)); /* 2 sqrt(2 / pi) */
    case QUICK_GELU: return x * sigmoid(1.702f * x);
    default: return x * sigmoid(x);
    }
}

/* Activate `count` numbers, and multiply them by the gate's if there is one. */
INLINE void activate_all(float *x, const float *gate, long count, int activation) {
    for (long i = 0; i < count; i += LANES) {
        floats y = activated(load(x + i), activation);
        store(x + i, gate ? y * load(gate + i) : y);
    }
}

static void activate(float *x, const float *gate, long count, int activation) {
    switch (activation) { /* the compiler makes one loop for each */
#define CASE(name)                                                                                                    \
    case name: activate_all(x, gate, count, name); break;
        CASE(RELU) CASE(GELU) CASE(GELU_TANH) CASE(QUICK_GELU) CASE(SILU)
#undef CASE
    }
}

#endif
