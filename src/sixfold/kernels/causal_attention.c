/* Causal attention, forward and backward, for training decoder-only models on a CPU.

The queries of one head are processed in blocks, with only the keys up to the last query of the block. On the
diagonal, squares of LANES keys and queries that are masked entirely are skipped too. As in attention.c, scores have
one row per key and one column per query. The backward pass recomputes the probabilities from the logarithm of their
sum, a chunk of keys at a time, so that memory grows linearly with the length.

Rows are copied before they are processed: to be contiguous, with the bias added, rotated if positions are rotary, and
padded to whole vectors. The copies after the last position are zeros; as they come last, no real query attends to
them.

Shapes: B texts, T positions, H heads, G key-value heads, each shared by H / G adjacent query heads, D head width, a
multiple of LANES. */

#include "tiles.h"

#include <math.h>

#define BLOCK 64        /* queries, or keys in the backward pass, that are processed at once */
#define UNSEEN (-1e30f) /* the score of a key that a query may not attend to */

typedef struct {
    const float *projected;     /* (B, T, (H + 2G)·D): queries, keys and values side by side */
    const float *bias;          /* ((H + 2G)·D), added to each position; NULL: none */
    const float *cosine, *sine; /* (T, D / 2) of rotary positions; NULL: none */
    float *output;              /* (B, T, H·D) */
    float *log_totals;          /* (B, H, T), to base 2 */
    long positions, heads, key_heads, width;
    float scale; /* of the scores, times log₂ e, because probabilities are computed as powers of two */
} Attention;

typedef struct {
    Attention forward;
    const float *output_gradient; /* (B, T, H·D) */
    float *gradient;              /* of `projected` */
} Gradients;

/* A block of queries of one head; the chunk of keys that begins at the same position is on the diagonal. */
typedef struct {
    long batch, head, first, count, padded; /* padded: the count, rounded up to whole vectors */
} Block;

/* The working memory of one thread. Rows are (positions, D), columns (D, positions). */
typedef struct {
    float *keys, *values, *key_gradients, *value_gradients; /* rows of the whole text */
    float *queries, *query_columns, *output, *gradients, *gradient_columns; /* of a block */
    float *scores, *score_gradients; /* (keys, queries) of a block */
} Room;

static long rounded_up(long count) { return (count + LANES - 1) / LANES * LANES; }

static long columns_of(const Attention *o) { return (o->heads + 2 * o->key_heads) * o->width; }

/* Return the location of a head in projected positions: query heads come first, then those of keys, then of values.
*/
static long place(const Attention *o, long batch, long head, long position) {
    return (batch * o->positions + position) * columns_of(o) + head * o->width;
}

static long place_of_output(const Attention *o, Block block) {
    return ((block.batch * o->positions + block.first) * o->heads + block.head) * o->width;
}

static float *log_totals_of(const Attention *o, Block block) {
    return o->log_totals + (block.batch * o->heads + block.head) * o->positions + block.first;
}

/* Copy rows times a factor; if positions are rotary, rotate them forward (direction 1) or back (-1). */
static void turn(const Attention *o, const float *from, long from_row, const float *bias, float *to, long to_row, long first,
                 long count, float direction, float factor) {
    long half = o->width / 2;
    for (long i = 0; i < count; i++, from += from_row, to += to_row) {
        const float *cosine = o->cosine + (first + i) * half, *sine = o->sine + (first + i) * half;
        for (long d = 0; d < half; d++) {
            float one = from[d] + (bias ? bias[d] : 0), other = from[half + d] + (bias ? bias[half + d] : 0);
            float turned = direction * sine[d];
            to[d] = (one * cosine[d] - other * turned) * factor;
            to[half + d] = (other * cosine[d] + one * turned) * factor;
        }
    }
}

static void copy(const Attention *o, const float *from, long from_row, const float *bias, float *to, long to_row, long count,
                 float factor) {
    for (long i = 0; i < count; i++, from += from_row, to += to_row)
        for (long d = 0; d < o->width; d++)
            to[d] = (from[d] + (bias ? bias[d] : 0)) * factor;
}

/* Fetch a head of projected positions, with zeros after the last one. */
static void fetch(const Attention *o, long batch, long head, long first, long count, int is_turned, float factor,
                  float *rows) {
    const float *from = o->projected + place(o, batch, head, first), *bias = o->bias ? o->bias + head * o->width : NULL;
    if (is_turned && o->cosine)
        turn(o, from, columns_of(o), bias, rows, o->width, first, count, 1, factor);
    else
        copy(o, from, columns_of(o), bias, rows, o->width, count, factor);
    memset(rows + count * o->width, 0, (rounded_up(count) - count) * o->width * sizeof(float));
}

/* Store the gradients of rows fetched by `fetch`. */
static void store(const Gradients *g, long batch, long head, long first, long count, int is_turned, float factor,
                  const float *rows) {
    const Attention *o = &g->forward;
    float *to = g->gradient + place(o, batch, head, first);
    if (is_turned && o->cosine)
        turn(o, rows, o->width, NULL, to, columns_of(o), first, count, -1, factor);
    else
        copy(o, rows, o->width, NULL, to, columns_of(o), count, factor);
}

/* The products of a block with a chunk of keys. On the diagonal, squares of keys after the queries are skipped. */

/* Write the product of the rows of each key and query: scores, or gradients of probabilities. */
static void multiply_pairs(Block block, long width, long keys, int is_diagonal, const float *rows, const float *columns,
                           float *pairs) {
    for (long i = 0, step = is_diagonal ? LANES : keys; i < keys; i += step)
        multiply(step, block.padded - i, width, rows + i * width, width, 1, columns + i, block.padded,
                 pairs + i * block.padded + i, block.padded, 0);
}

/* Write the weighted sum of the keys' rows for each query. */
static void gather_for_queries(Block block, long width, long keys, int is_diagonal, const float *pairs, const float *rows,
                               float *sums, int adds) {
    for (long i = 0, step = is_diagonal ? LANES : block.padded; i < block.padded; i += step)
        multiply(step, width, is_diagonal ? i + LANES : keys, pairs + i, 1, block.padded, rows, width, sums + i * width,
                 width, adds);
}

/* Write the weighted sum of the queries' rows for each key. */
static void gather_for_keys(Block block, long width, long keys, int is_diagonal, const float *pairs, const float *rows,
                            float *sums, int adds) {
    for (long i = 0, step = is_diagonal ? LANES : keys; i < keys; i += step)
        multiply(step, width, block.padded - i, pairs + i * block.padded + i, block.padded, 1, rows + i * width, width,
                 sums + i * width, width, adds);
}

/* Set the elements of a square on the diagonal whose key comes after the query. */
static void set_unseen(float *square, long row, float value) {
    for (int key = 0; key < LANES; key++)
        for (int query = 0; query < LANES; query++)
            square[key * row + query] = query < key ? value : square[key * row + query];
}

/* Turn the scores of one vector of queries into exponentials, and write 1 / their sum and its logarithm. */
static void exponentiate(float *scores, long row, long keys, float *inverse, float *log_total) {
    float largest[LANES], total[LANES] = {0};
    for (int l = 0; l < LANES; l++)
        largest[l] = UNSEEN;
    for (long j = 0; j < keys; j++)
        for (int l = 0; l < LANES; l++)
            largest[l] = scores[j * row + l] > largest[l] ? scores[j * row + l] : largest[l];
    for (long j = 0; j < keys; j++)
        for (int l = 0; l < LANES; l++) {
            float weight = power_of_two(scores[j * row + l] - largest[l]);
            scores[j * row + l] = weight;
            total[l] += weight;
        }
    for (int l = 0; l < LANES; l++) {
        inverse[l] = 1 / total[l];
        log_total[l] = largest[l] + log2f(total[l]);
    }
}

static void normalise(const Attention *o, Block block, float *scores, float *inverses) {
    float log_totals[BLOCK];
    for (long i = 0; i < block.padded; i += LANES) {
        float *square = scores + (block.first + i) * block.padded + i;
        set_unseen(square, block.padded, UNSEEN);
        exponentiate(scores + i, block.padded, block.first + i + LANES, inverses + i, log_totals + i);
        set_unseen(square, block.padded, 0);
    }
    memcpy(log_totals_of(o, block), log_totals, block.count * sizeof(float));
}

static long keys_of(Block block, long chunk) { return chunk < block.first ? BLOCK : block.padded; }

static void attend_block(const Attention *o, Block block, Room room) {
    float inverses[BLOCK], *output = o->output + place_of_output(o, block);
    fetch(o, block.batch, block.head, block.first, block.count, 1, o->scale, room.queries);
    transpose(room.queries, o->width, block.padded, block.padded, o->width, room.query_columns);
    for (long chunk = 0; chunk <= block.first; chunk += BLOCK)
        multiply_pairs(block, o->width, keys_of(block, chunk), chunk == block.first, room.keys + chunk * o->width,
                       room.query_columns, room.scores + chunk * block.padded);
    normalise(o, block, room.scores, inverses);
    for (long chunk = 0; chunk <= block.first; chunk += BLOCK)
        gather_for_queries(block, o->width, keys_of(block, chunk), chunk == block.first,
                           room.scores + chunk * block.padded, room.values + chunk * o->width, room.output, chunk > 0);
    for (long i = 0; i < block.count; i++)
        for (long d = 0; d < o->width; d++)
            output[i * o->heads * o->width + d] = room.output[i * o->width + d] * inverses[i];
}

/* Recompute probabilities from a chunk's scores, and turn gradients of probabilities into gradients of scores: the
   gradient of a score is its probability times the difference between its probability's gradient and the mean. */
static void differentiate_scores(Block block, long keys, int is_diagonal, const float *log_totals, const float *means,
                                 float *scores, float *score_gradients) {
    for (long i = 0; i < block.padded; i += LANES) {
        for (long j = 0, seen = is_diagonal ? i + LANES : keys; j < seen; j++)
            for (int l = 0; l < LANES; l++) {
                float *score = scores + j * block.padded + i + l, *slope = score_gradients + j * block.padded + i + l;
                *score = power_of_two(*score - log_totals[i + l]);
                *slope = *score * (*slope - means[i + l]);
            }
        if (is_diagonal) {
            set_unseen(scores + i * block.padded + i, block.padded, 0);
            set_unseen(score_gradients + i * block.padded + i, block.padded, 0);
        }
    }
}

/* Fetch the gradients of a block's outputs, and write the mean of the probabilities' gradients for each query, which
is the product of the output and its gradient. */
static void fetch_gradients(const Gradients *g, Block block, float *rows, float *means) {
    const Attention *o = &g->forward;
    long row = o->heads * o->width, place = place_of_output(o, block);
    memset(rows, 0, block.padded * o->width * sizeof(float));
    memset(means, 0, block.padded * sizeof(float));
    for (long i = 0; i < block.count; i++) {
        const float *gradient = g->output_gradient + place + i * row, *output = o->output + place + i * row;
        float sum[LANES] = {0};
        memcpy(rows + i * o->width, gradient, o->width * sizeof(float));
        for (long d = 0; d < o->width; d += LANES)
            for (int l = 0; l < LANES; l++)
                sum[l] += gradient[d + l] * output[d + l];
        for (int l = 0; l < LANES; l++)
            means[i] += sum[l];
    }
}

/* Differentiate a block; `is_first` says that its head is the first that shares these keys. */
static void differentiate_block(const Gradients *g, Block block, int is_first, Room room) {
    const Attention *o = &g->forward;
    float log_totals[BLOCK] = {0}, means[BLOCK];
    long width = o->width;
    memcpy(log_totals, log_totals_of(o, block), block.count * sizeof(float));
    fetch(o, block.batch, block.head, block.first, block.count, 1, o->scale, room.queries);
    fetch_gradients(g, block, room.gradients, means);
    transpose(room.queries, width, block.padded, block.padded, width, room.query_columns);
    transpose(room.gradients, width, block.padded, block.padded, width, room.gradient_columns);
    for (long chunk = 0; chunk <= block.first; chunk += BLOCK) {
        long keys = keys_of(block, chunk), place = chunk * width;
        int is_diagonal = chunk == block.first, adds = !(is_diagonal && is_first);
        multiply_pairs(block, width, keys, is_diagonal, room.keys + place, room.query_columns, room.scores);
        multiply_pairs(block, width, keys, is_diagonal, room.values + place, room.gradient_columns, room.score_gradients);
        differentiate_scores(block, keys, is_diagonal, log_totals, means, room.scores, room.score_gradients);
        gather_for_keys(block, width, keys, is_diagonal, room.scores, room.gradients, room.value_gradients + place, adds);
        gather_for_keys(block, width, keys, is_diagonal, room.score_gradients, room.queries, room.key_gradients + place, adds);
        gather_for_queries(block, width, keys, is_diagonal, room.score_gradients, room.keys + place, room.output, chunk > 0);
    }
    store(g, block.batch, block.head, block.first, block.count, 1, o->scale * (float)M_LN2, room.output);
}

/* Process one text and the query heads that share a key-value head. */
static void work_on_keys(const Attention *o, const Gradients *g, long batch, long key_head, Room room) {
    long keys = o->heads + key_head, values = keys + o->key_heads, shared = o->heads / o->key_heads;
    fetch(o, batch, keys, 0, o->positions, 1, 1, room.keys);
    fetch(o, batch, values, 0, o->positions, 0, 1, room.values);
    Block block = {.batch = batch};
    for (long head = 0; head < shared; head++)
        for (block.first = 0; block.first < o->positions; block.first += BLOCK) {
            block.head = key_head * shared + head;
            block.count = o->positions - block.first < BLOCK ? o->positions - block.first : BLOCK;
            block.padded = rounded_up(block.count);
            g ? differentiate_block(g, block, head == 0, room) : attend_block(o, block, room);
        }
    if (g) { /* the queries in these products include the factor scale · log₂ e: ln 2 removes log₂ e */
        store(g, batch, keys, 0, o->positions, 1, (float)M_LN2, room.key_gradients);
        store(g, batch, values, 0, o->positions, 0, 1, room.value_gradients);
    }
}

static float *take(float **free_room, long count) {
    float *taken = *free_room;
    *free_room += count;
    return taken;
}

/* Process the key-value heads from `begin` to `end`, counted over all texts; return whether there was enough memory.
*/
static int work(const Attention *o, const Gradients *g, long begin, long end) {
    long text = rounded_up(o->positions) * o->width, block = BLOCK * o->width, pairs = rounded_up(o->positions) * BLOCK;
    float *memory = aligned_alloc(64, (4 * text + 5 * block + 2 * pairs) * sizeof(float)), *rest = memory;
    if (!memory)
        return 0;
    Room room = {
        .keys = take(&rest, text), .values = take(&rest, text),
        .key_gradients = take(&rest, text), .value_gradients = take(&rest, text),
        .queries = take(&rest, block), .query_columns = take(&rest, block), .output = take(&rest, block),
        .gradients = take(&rest, block), .gradient_columns = take(&rest, block),
        .scores = take(&rest, pairs), .score_gradients = take(&rest, pairs),
    };
    for (long i = begin; i < end; i++)
        work_on_keys(o, g, i / o->key_heads, i % o->key_heads, room);
    free(memory);
    return 1;
}

int attend(const Attention *o, long begin, long end) { return work(o, NULL, begin, end); }

int differentiate(const Gradients *g, long begin, long end) { return work(&g->forward, g, begin, end); }
