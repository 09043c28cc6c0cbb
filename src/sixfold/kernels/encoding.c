/* An encoder on a CPU, one call for many texts: what `decode/torch_encoder.py` computes, with all cores.
   `kernels/build.py` compiles this file for the machine it runs on; `decode/kernel_encoder.py` calls it.

   The tokens of all texts are rows, one after the other, without padding. A thread takes a batch of texts, so few that
   they stay in its cache, through all layers by itself: nobody waits for anybody. Every row is computed by itself and
   every sum in one fixed order, so a text has the same bits in any company and with any number of threads.

   All sizes are padded to whole panels, heads to whole vectors: weights, biases and rows have zeros there, and zeros
   stay zeros.

   Names: R rows, d the model's width.
*/

#include "activations.h"
#include "layer.h"
#include "room.h"
#include "team.h"
#include "words.h"

enum { TILE = LANES == 16 ? 8 : 4 }; /* queries that look at the keys together: as many sums stay in registers */
enum { COLUMNS = 8 * PANEL }; /* of the feed-forward network that are activated while they are in the cache */

typedef struct {
    const Layer *layers;
    Norm first_norm, last_norm; /* of the embeddings, and of a pre-norm model; without weights: none */
    const float *embedding; /* (vocabulary, d) */
    const float *positions; /* (positions, d), that of a text's first token first */
    const float *types; /* (types, d), or NULL */
    float embedding_scale;
    int32_t is_pre_norm, is_rms, is_int8, activation;
    long num_layers, d_model, padded_d_model, heads, head_width;
} Model;

typedef struct {
    const int64_t *tokens, *types; /* of all texts */
    const int64_t *begins; /* (texts + 1): the first token of each text */
    const int64_t *batches; /* (batches + 1): the first text of each batch */
    long num_batches, most_rows, longest, threads; /* most_rows: of a batch; longest: of a text */
    float *hidden; /* (R, d): the vectors of all tokens, or NULL */
    float *vectors; /* (texts, d): one of length 1 for each text, or NULL */
    int32_t is_mean; /* whether that is of all tokens, or of the first */
    void *room;
} Texts;

typedef struct {
    float *x, *normal, *inputs, *heads, *inner, *gate, *scale;
    float *keys; /* (head width, longest): of one head */
    float *scores; /* (TILE, longest) */
    int16_t *rounded;
} Work;

static long longer(long a, long b) { return a > b ? a : b; }

static long whole_vectors(long count) { return (count + LANES - 1) / LANES * LANES; }

static uintptr_t lay_out(const Model *m, long rows, long longest, uintptr_t room, Work *w) {
    const Layer *layer = m->layers;
    w->x = take(&room, rows * m->padded_d_model * 4);
    w->normal = take(&room, rows * m->padded_d_model * 4);
    w->inputs = take(&room, rows * layer->inputs.outputs * 4);
    w->heads = take(&room, rows * layer->output.inputs * 4);
    w->inner = take(&room, rows * layer->inner.outputs * 4);
    w->gate = take(&room, rows * layer->gate.outputs * 4);
    w->scale = take(&room, rows * 4);
    w->keys = take(&room, m->head_width * whole_vectors(longest) * 4);
    w->scores = take(&room, TILE * whole_vectors(longest) * 4);
    w->rounded = take(&room, rows * longer(m->padded_d_model, longer(layer->output.inputs, layer->outer.inputs)) * 2);
    return room;
}

/* Return the bytes of room that one thread needs for so many rows, of texts of at most so many tokens. */
long room_for(const Model *m, long rows, long longest) {
    Work work;
    return lay_out(m, rows, longest, 0, &work);
}

/* Rows. */

static void normalise_all(const Model *m, const Norm *norm, const float *from, float *to, long rows) {
    long width = m->padded_d_model;
    if (!m->is_rms) normalise(norm, from, to, rows, m->d_model, width);
    for (long r = 0; m->is_rms && r < rows; r++)
        normalise_by_size(norm, from + r * width, to + r * width, m->d_model, width);
}

/* Rows to multiply, rounded to 16 bits if weights have 8. */
typedef struct {
    Rows floats;
    WordRows words;
} Inputs;

static Inputs inputs_of(const Model *m, const Work *w, const float *x, long count, long width) {
    for (long r = 0; m->is_int8 && r < count; r++)
        round_row_to_words(x + r * width, width, w->rounded + r * width, w->scale + r);
    return (Inputs){{x, NULL, NULL, NULL, count, width}, {w->rounded, w->scale, count}};
}

/* Multiply with the columns from `begin` to `end`; the first goes to the first place of a row. */
static void multiply_some(const Matrix *matrix, const Inputs *x, const Result *result, long begin, long end) {
    if (matrix->scale) multiply_word_columns(matrix, &x->words, result, begin, end);
    else multiply_columns(matrix, &x->floats, result, begin, end);
}

static void multiply_all(const Matrix *matrix, const Inputs *x, float *to, const float *add) {
    Result result = {to, matrix->outputs, add, 0};
    multiply_some(matrix, x, &result, 0, matrix->outputs);
}

/* What goes into a sub-layer. */
static Inputs begin(const Model *m, const Work *w, const Norm *norm, const float *x, long rows) {
    if (m->is_pre_norm) normalise_all(m, norm, x, w->normal, rows);
    return inputs_of(m, w, m->is_pre_norm ? w->normal : x, rows, m->padded_d_model);
}

/* Add the product of a sub-layer's last rows to x. */
static void end(const Model *m, const Matrix *matrix, const Inputs *inputs, const Norm *norm, float *x) {
    multiply_all(matrix, inputs, x, x);
    if (!m->is_pre_norm) normalise_all(m, norm, x, x, inputs->floats.count);
}

/* Attention. */

typedef struct { /* one head of one text */
    const float *query, *key, *value; /* of the first token */
    float *output;
    long stride, output_stride; /* from one token to the next */
    long count, padded, width;
} Head;

static void transpose_keys(const Head *h, float *keys) {
    for (long i = 0; i < h->width; i++) {
        for (long t = 0; t < h->count; t++) keys[i * h->padded + t] = h->key[t * h->stride + i];
        for (long t = h->count; t < h->padded; t++) keys[i * h->padded + t] = 0;
    }
}

/* The scores of TILE queries at one or two vectors of positions. */
INLINE void score(const Head *h, const float *const *query, const float *keys, float *scores, int vectors) {
    floats sum[TILE][2];
    UNROLL for (int j = 0; j < TILE; j++) sum[j][0] = sum[j][1] = all(0);
    for (long i = 0; i < h->width; i++, keys += h->padded) {
        floats key[2];
        UNROLL for (int v = 0; v < vectors; v++) key[v] = load(keys + v * LANES);
        UNROLL for (int j = 0; j < TILE; j++) {
            floats number = all(query[j][i]);
            UNROLL for (int v = 0; v < vectors; v++) sum[j][v] = fused(key[v], number, sum[j][v]);
        }
    }
    UNROLL for (int j = 0; j < TILE; j++)
        UNROLL for (int v = 0; v < vectors; v++) store(scores + j * h->padded + v * LANES, sum[j][v]);
}

/* One or two vectors of the outputs of TILE queries: the values, each times its score. */
INLINE void mix(const Head *h, const float *scores, const float *inverse, float *const *output, long place, int vectors) {
    floats sum[TILE][2];
    UNROLL for (int j = 0; j < TILE; j++) sum[j][0] = sum[j][1] = all(0);
    for (long t = 0; t < h->count; t++) {
        floats value[2];
        UNROLL for (int v = 0; v < vectors; v++) value[v] = load(h->value + t * h->stride + place + v * LANES);
        UNROLL for (int j = 0; j < TILE; j++) {
            floats share = all(scores[j * h->padded + t]);
            UNROLL for (int v = 0; v < vectors; v++) sum[j][v] = fused(value[v], share, sum[j][v]);
        }
    }
    UNROLL for (int j = 0; j < TILE; j++)
        UNROLL for (int v = 0; v < vectors; v++) store(output[j] + place + v * LANES, sum[j][v] * inverse[j]);
}

/* softmax(q k) v of the queries from `first` on; where the text ends, the last query stands for those that are missing. */
static void attend_tile(const Head *h, const float *keys, float *scores, long first) {
    const float *query[TILE];
    float *output[TILE], inverse[TILE];
    for (long j = 0; j < TILE; j++) {
        long token = shorter(first + j, h->count - 1);
        query[j] = h->query + token * h->stride;
        output[j] = h->output + token * h->output_stride;
    }
    long t = 0;
    for (; t + 2 * LANES <= h->padded; t += 2 * LANES) score(h, query, keys + t, scores + t, 2);
    if (t < h->padded) score(h, query, keys + t, scores + t, 1);
    for (int j = 0; j < TILE; j++) inverse[j] = exponentiate(scores + j * h->padded, h->count);
    long place = 0;
    for (; place + 2 * LANES <= h->width; place += 2 * LANES) mix(h, scores, inverse, output, place, 2);
    if (place < h->width) mix(h, scores, inverse, output, place, 1);
}

/* All heads of a text whose first token is row `row`. */
static void attend(const Model *m, const Work *w, long row, long count) {
    const Layer *layer = m->layers;
    long stride = layer->inputs.outputs, output_stride = layer->output.inputs, all_heads = m->heads * m->head_width;
    const float *inputs = w->inputs + row * stride;
    float *heads = w->heads + row * output_stride;
    for (long t = 0; t < count; t++)
        memset(heads + t * output_stride + all_heads, 0, (output_stride - all_heads) * sizeof *heads);
    for (long place = 0; place < all_heads; place += m->head_width) {
        const float *query = inputs + place, *key = query + all_heads, *value = key + all_heads;
        Head h = {query, key, value, heads + place, stride, output_stride, count, whole_vectors(count), m->head_width};
        transpose_keys(&h, w->keys);
        for (long first = 0; first < count; first += TILE) attend_tile(&h, w->keys, w->scores, first);
    }
}

/* The position-wise network. */

static void feed_forward(const Model *m, const Work *w, const Layer *layer, const Inputs *x) {
    long stride = layer->inner.outputs;
    for (long begin = 0; begin < stride; begin += COLUMNS) {
        long end = shorter(begin + COLUMNS, stride);
        Result inner = {w->inner + begin, stride, NULL, 0}, gate = {w->gate + begin, stride, NULL, 0};
        multiply_some(&layer->inner, x, &inner, begin, end);
        if (layer->gate.weight) multiply_some(&layer->gate, x, &gate, begin, end);
        for (long r = 0; r < x->floats.count; r++)
            activate(inner.to + r * stride, layer->gate.weight ? gate.to + r * stride : NULL, end - begin, m->activation);
    }
}

/* Texts. */

static void embed(const Model *m, const Texts *t, long text, float *x) {
    long width = m->padded_d_model, first = t->begins[text];
    for (long row = first; row < t->begins[text + 1]; row++, x += width) {
        const float *vector = m->embedding + t->tokens[row] * width, *position = m->positions + (row - first) * width;
        const float *type = m->types ? m->types + t->types[row] * width : NULL;
        for (long i = 0; i < width; i += LANES) {
            floats sum = load(vector + i) * m->embedding_scale + load(position + i);
            store(x + i, type ? sum + load(type + i) : sum);
        }
    }
}

/* One vector of length 1 for a text of so many rows: the mean of length 1 is the sum of length 1. */
static void pool(const Model *m, const float *x, long rows, int is_mean, float *vector) {
    floats squares = all(0);
    for (long i = 0; i < m->padded_d_model; i += LANES) {
        floats sum = load(x + i);
        for (long r = 1; is_mean && r < rows; r++) sum += load(x + r * m->padded_d_model + i);
        store(vector + i, sum);
        squares = fused(sum, sum, squares);
    }
    float length = sqrtf(sum_of(squares)), inverse = 1 / (length > 1e-12f ? length : 1e-12f);
    for (long i = 0; i < m->padded_d_model; i += LANES) store(vector + i, load(vector + i) * inverse);
}

typedef struct {
    const Model *m;
    const Texts *texts;
} Call;

static void encode_batch(const void *work, long index, long thread) {
    const Model *m = ((const Call *)work)->m;
    const Texts *t = ((const Call *)work)->texts;
    const int64_t *begins = t->begins;
    long from = t->batches[index], to = t->batches[index + 1], first = begins[from], rows = begins[to] - first;
    Work work_here, *w = &work_here;
    lay_out(m, t->most_rows, t->longest, (uintptr_t)t->room + thread * room_for(m, t->most_rows, t->longest), w);
    float *x = t->hidden ? t->hidden + first * m->padded_d_model : w->x;
    for (long k = from; k < to; k++) embed(m, t, k, x + (begins[k] - first) * m->padded_d_model);
    if (m->first_norm.weight) normalise_all(m, &m->first_norm, x, x, rows);
    for (const Layer *layer = m->layers; layer < m->layers + m->num_layers; layer++) {
        Inputs input = begin(m, w, &layer->attention_norm, x, rows);
        multiply_all(&layer->inputs, &input, w->inputs, NULL);
        for (long k = from; k < to; k++) attend(m, w, begins[k] - first, begins[k + 1] - begins[k]);
        Inputs heads = inputs_of(m, w, w->heads, rows, layer->output.inputs);
        end(m, &layer->output, &heads, &layer->attention_norm, x);
        input = begin(m, w, &layer->feed_forward_norm, x, rows);
        feed_forward(m, w, layer, &input);
        Inputs inner = inputs_of(m, w, w->inner, rows, layer->outer.inputs);
        end(m, &layer->outer, &inner, &layer->feed_forward_norm, x);
    }
    if (m->last_norm.weight) normalise_all(m, &m->last_norm, x, x, rows);
    for (long k = from; t->vectors && k < to; k++) {
        const float *text = x + (begins[k] - first) * m->padded_d_model;
        pool(m, text, begins[k + 1] - begins[k], t->is_mean, t->vectors + k * m->padded_d_model);
    }
}

void encode(const Model *m, const Texts *texts) {
    Call call = {m, texts};
    long threads = join_team(texts->threads);
    share_tasks(threads, encode_batch, &call, texts->num_batches);
    leave_team(threads);
}

/* For the one who calls: how sizes are padded, and whether the structures are what they are thought to be. */

long panel(void) { return PANEL; }
long lanes(void) { return LANES; }
long group(void) { return GROUP; }
long size_of_structures(void) { return sizeof(Model) + sizeof(Layer) + sizeof(Texts); }
