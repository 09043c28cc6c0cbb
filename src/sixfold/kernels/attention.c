/* Attention of short sequences, forward and backward, for training on a CPU.

softmax(Q Kᵀ / √d_k) V of one head is a few tiny products. A library call for each costs more than the product itself,
and kernels for long sequences have a similar overhead. Here a block of queries of one head is processed as a whole
while it is in the cache. Scores have one row per key and one column per query, so the softmax of all queries is
vectorised, and nothing is summed across a vector.

Shapes: B sentences, H heads, Q queries, K keys, D head width, a multiple of LANES. A tensor (B, H, positions, D) is a
pointer and three strides; the D numbers of a position are contiguous. Probabilities are not stored for the backward
pass, but recomputed from the logarithm of their sum. */

#include "tiles.h"

#include <math.h>

#define BLOCK 64         /* queries that are processed at once */
#define UNSEEN (-1e30f)  /* the score of a key that a query may not attend to */

typedef struct {
    float *data;
    long batch, head, position; /* strides */
} Tensor;

typedef struct {
    Tensor query, key, value, output;
    float *log_totals;   /* (B, H, Q) */
    const uint8_t *mask; /* (B, Q, K), with these strides; 1: may attend; NULL: all may */
    long mask_batch, mask_query;
    long heads, queries, keys, key_width, value_width;
    float scale;
} Attention;

typedef struct {
    Attention forward;
    Tensor output_gradient, query_gradient, key_gradient, value_gradient;
} Gradients;

/* A block of queries of one head. */
typedef struct {
    long batch, head, first, count, padded; /* padded: the count, rounded up to whole vectors */
} Block;

static inline float *at(const Tensor *tensor, Block block, long position) {
    return tensor->data + block.batch * tensor->batch + block.head * tensor->head + position * tensor->position;
}

/* exp(x) for x ≤ 0, accurate to the last bit or two; without branches, so that compilers vectorise it. */
static inline float exponential(float x) {
    int is_tiny = x < -87.0f;
    x = is_tiny ? -87.0f : x;
    float n = __builtin_rintf(x * 1.44269504f);
    float r = x - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 in two parts */
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    int32_t bits = ((int32_t)n + 127) << 23;
    float power;
    memcpy(&power, &bits, 4);
    return is_tiny ? 0 : p * power;
}

/* Write the mask of a block's scores (K, padded), to be added to them: 0, or UNSEEN. */
static void write_bias(const Attention *o, Block block, float *bias) {
    memset(bias, 0, o->keys * block.padded * sizeof(float));
    const uint8_t *mask = o->mask + block.batch * o->mask_batch + block.first * o->mask_query;
    for (long i = 0; o->mask && i < block.count; i++)
        for (long j = 0; j < o->keys; j++)
            if (!mask[i * o->mask_query + j])
                bias[j * block.padded + i] = UNSEEN;
}

/* Write the scores (K, padded) of a block: K Qᵀ / √d_k plus the mask. */
static void write_scores(const Attention *o, Block block, const float *queries, const float *bias, float *scores) {
    multiply(o->keys, block.padded, o->key_width, at(&o->key, block, 0), o->key.position, 1, queries, block.padded,
             scores, block.padded, 0);
    for (long j = 0; j < o->keys * block.padded; j++)
        scores[j] = scores[j] * o->scale + bias[j];
}

/* Turn scores into probabilities, and write the logarithm of the sum of their exponentials. The probabilities of a
   query that may attend to nothing are 0. */
static void normalise(const Attention *o, Block block, float *scores, float *log_totals) {
    for (long i = 0; i < block.padded; i += LANES) {
        float largest[LANES], total[LANES] = {0}, inverse[LANES];
        for (int l = 0; l < LANES; l++)
            largest[l] = UNSEEN / 2;
        for (long j = 0; j < o->keys; j++)
            for (int l = 0; l < LANES; l++) {
                float score = scores[j * block.padded + i + l];
                largest[l] = score > largest[l] ? score : largest[l];
            }
        for (long j = 0; j < o->keys; j++)
            for (int l = 0; l < LANES; l++) {
                float weight = exponential(scores[j * block.padded + i + l] - largest[l]);
                scores[j * block.padded + i + l] = weight;
                total[l] += weight;
            }
        for (int l = 0; l < LANES; l++)
            inverse[l] = total[l] > 0 ? 1 / total[l] : 0;
        for (long j = 0; j < o->keys; j++)
            for (int l = 0; l < LANES; l++)
                scores[j * block.padded + i + l] *= inverse[l];
        for (int l = 0; l < LANES && i + l < block.count; l++)
            log_totals[i + l] = total[l] > 0 ? largest[l] + logf(total[l]) : -UNSEEN;
    }
}

static inline float *log_totals_of(const Attention *o, Block block) {
    return o->log_totals + (block.batch * o->heads + block.head) * o->queries + block.first;
}

static void attend_block(const Attention *o, Block block, const float *bias, float *room) {
    float *queries = room, *scores = queries + o->key_width * block.padded;
    transpose(at(&o->query, block, block.first), o->query.position, block.count, block.padded, o->key_width, queries);
    write_scores(o, block, queries, bias, scores);
    normalise(o, block, scores, log_totals_of(o, block));
    multiply(block.count, o->value_width, o->keys, scores, 1, block.padded, at(&o->value, block, 0), o->value.position,
             at(&o->output, block, block.first), o->output.position, 0);
}

/* Recompute probabilities from scores, and turn gradients of probabilities into gradients of scores, in place: the
   gradient of a score is its probability times the difference between its probability's gradient and the mean. */
static void differentiate_scores(const Attention *o, Block block, float *scores, float *score_gradients) {
    const float *log_totals = log_totals_of(o, block);
    for (long i = 0; i < block.padded; i += LANES) {
        float log_total[LANES], mean[LANES] = {0};
        for (int l = 0; l < LANES; l++)
            log_total[l] = i + l < block.count ? log_totals[i + l] : -UNSEEN;
        for (long j = 0; j < o->keys; j++)
            for (int l = 0; l < LANES; l++) {
                float *score = scores + j * block.padded + i + l;
                *score = exponential(*score - log_total[l]);
                mean[l] += *score * score_gradients[j * block.padded + i + l];
            }
        for (long j = 0; j < o->keys; j++)
            for (int l = 0; l < LANES; l++) {
                float *slope = score_gradients + j * block.padded + i + l;
                *slope = scores[j * block.padded + i + l] * (*slope - mean[l]) * o->scale;
            }
    }
}

static void differentiate_block(const Gradients *g, Block block, const float *bias, float *room) {
    const Attention *o = &g->forward;
    long key_width = o->key_width, value_width = o->value_width, padded = block.padded, adds = block.first > 0;
    float *queries = room, *gradients = queries + key_width * padded, *probabilities = gradients + value_width * padded;
    float *score_gradients = probabilities + o->keys * padded;
    const float *query = at(&o->query, block, block.first);
    const float *gradient = at(&g->output_gradient, block, block.first);
    transpose(query, o->query.position, block.count, padded, key_width, queries);
    transpose(gradient, g->output_gradient.position, block.count, padded, value_width, gradients);
    write_scores(o, block, queries, bias, probabilities);
    multiply(o->keys, padded, value_width, at(&o->value, block, 0), o->value.position, 1, gradients, padded, score_gradients,
             padded, 0);
    differentiate_scores(o, block, probabilities, score_gradients);
    multiply(block.count, key_width, o->keys, score_gradients, 1, padded, at(&o->key, block, 0), o->key.position,
             at(&g->query_gradient, block, block.first), g->query_gradient.position, 0);
    multiply(o->keys, key_width, block.count, score_gradients, padded, 1, query, o->query.position,
             at(&g->key_gradient, block, 0), g->key_gradient.position, adds);
    multiply(o->keys, value_width, block.count, probabilities, padded, 1, gradient, g->output_gradient.position,
             at(&g->value_gradient, block, 0), g->value_gradient.position, adds);
}

/* Process the sentences from `begin` to `end`; return whether there was enough memory. */
static int work(const Attention *o, const Gradients *g, long begin, long end) {
    long padded = (o->queries < BLOCK ? o->queries : BLOCK) + LANES - 1;
    long size = padded * (o->key_width + o->value_width + 3 * o->keys);
    float *bias = malloc(size * sizeof(float)), *room = bias + padded * o->keys;
    Block block = {0};
    for (block.batch = begin; bias && block.batch < end; block.batch++)
        for (block.first = 0; block.first < o->queries; block.first += BLOCK) {
            block.count = o->queries - block.first < BLOCK ? o->queries - block.first : BLOCK;
            block.padded = (block.count + LANES - 1) / LANES * LANES;
            write_bias(o, block, bias);
            for (block.head = 0; block.head < o->heads; block.head++)
                g ? differentiate_block(g, block, bias, room) : attend_block(o, block, bias, room);
        }
    free(bias);
    return bias != NULL;
}

int attend(const Attention *o, long begin, long end) { return work(o, NULL, begin, end); }

int differentiate(const Gradients *g, long begin, long end) { return work(&g->forward, g, begin, end); }
