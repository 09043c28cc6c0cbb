/* Activations of the form z·σ(a·z + b·z³), forward and backward, for training on a CPU: GELU in its tanh form, SiLU
and quick GELU. Adding the bias before (z = x + bias) and, in a gated network, multiplying by the gate after are done
in the same pass.

Shapes: N rows, F columns, C chunks of rows. */

#include "tiles.h"

#define LN_2 0.693147181f
#define CHUNK 64 /* rows over which gradients of the bias are summed, the same for any number of threads */

typedef struct {
    const float *x, *bias, *gate; /* (N, F), (F) and (N, F); gate: NULL if there is none */
    float *output;                /* (N, F) */
    long rows, columns;
    float linear, cubic; /* a and b, times log₂ e */
} Activation;

typedef struct {
    Activation forward;
    const float *output_gradient;
    float *gradient, *bias_gradient, *gate_gradient; /* of x, of the bias for each chunk, of the gate */
} Gradients;

static inline float sigmoid(float z, float linear, float cubic) {
    return 1 / (1 + power_of_two(-z * (linear + cubic * z * z)));
}

static inline __attribute__((always_inline)) void
activate_row(const Activation *o, long first, const float *restrict bias, long count, int is_gated) {
    const float *restrict x = o->x + first, *restrict gate = o->gate + (is_gated ? first : 0);
    float *restrict output = o->output + first;
    float linear = o->linear, cubic = o->cubic;
    for (long i = 0; i < count; i++) {
        float z = x[i] + bias[i];
        output[i] = z * sigmoid(z, linear, cubic) * (is_gated ? gate[i] : 1);
    }
}

/* With s = σ(t) and t = a·z + b·z³, the derivative of z·s is s + z·s·(1 - s)·(a + 3b·z²). */
static inline __attribute__((always_inline)) void
differentiate_row(const Gradients *g, long first, const float *restrict bias, float *restrict bias_gradient, long count,
                  int is_gated) {
    const Activation *o = &g->forward;
    const float *restrict x = o->x + first, *restrict gate = o->gate + (is_gated ? first : 0);
    const float *restrict output_gradient = g->output_gradient + first;
    float *restrict gradient = g->gradient + first, *restrict gate_gradient = g->gate_gradient + (is_gated ? first : 0);
    float linear = o->linear, cubic = o->cubic, a = linear * LN_2, three_b = 3 * cubic * LN_2;
    for (long i = 0; i < count; i++) {
        float z = x[i] + bias[i], s = sigmoid(z, linear, cubic), of_product = output_gradient[i];
        if (is_gated)
            gate_gradient[i] = of_product * z * s;
        float of_x = of_product * (is_gated ? gate[i] : 1) * (s + z * s * (1 - s) * (a + three_b * z * z));
        gradient[i] = of_x;
        bias_gradient[i] += of_x;
    }
}

static long chunk_end(const Activation *o, long chunk) {
    return (chunk + 1) * CHUNK < o->rows ? (chunk + 1) * CHUNK : o->rows;
}

/* Process the chunks of rows from `begin` to `end`. */
int activate(const Activation *o, long begin, long end) {
    for (long row = begin * CHUNK; row < chunk_end(o, end - 1); row++) {
        long first = row * o->columns;
        o->gate ? activate_row(o, first, o->bias, o->columns, 1) : activate_row(o, first, o->bias, o->columns, 0);
    }
    return 1;
}

int differentiate(const Gradients *g, long begin, long end) {
    const Activation *o = &g->forward;
    for (long chunk = begin; chunk < end; chunk++) {
        float *sums = g->bias_gradient + chunk * o->columns;
        memset(sums, 0, o->columns * sizeof(float));
        for (long row = chunk * CHUNK; row < chunk_end(o, chunk); row++) {
            long first = row * o->columns;
            o->gate ? differentiate_row(g, first, o->bias, sums, o->columns, 1)
                    : differentiate_row(g, first, o->bias, sums, o->columns, 0);
        }
    }
    return 1;
}
