/* A decoder-only model on a CPU, one call per step: computes the same as `decode/torch_contexts.py`, on all cores.
`kernels/build.py` compiles this file for the machine it runs on; `decode/kernel_contexts.py` calls it.

One call reads any mix of rows: one new token of some contexts, many of others. All rows are multiplied by each matrix
together, so weights are read once. Each row is computed independently and each sum in a fixed order, so a row's bits
do not depend on the other rows or on the number of threads.

The keys and values of a context are in pages of PAGE positions; contexts with the same beginning share pages. A page
has, for each layer and key-value head, the keys (width, PAGE) and then the values (PAGE, width): scores are
vectorised over positions, and sums of values over the width.

All sizes are padded to whole panels, heads to whole vectors: weights, biases and rows have zeros there, and zeros
stay zeros.

Names: R rows, d the model's width, h the width of all query heads together. */

#include "activations.h"
#include "layer.h"
#include "room.h"
#include "team.h"
#include "vectors.h"

enum { PAGE = 32, TILE = 4 }; /* positions per page; queries that are processed together */
enum { GROUP = 32 }; /* numbers of a row that are quantised with one scale: some are a hundred times the others */
enum { TASK = 1 << 16 }; /* multiplications that make a task worthwhile */

typedef struct {
    const Layer *layers;
    Norm last_norm;
    Matrix projection;
    const float *embedding; /* (vocabulary, d) */
    const float *positions; /* (positions, d): added to embeddings; or NULL */
    const float *turns; /* (2, positions, half): cosines and sines that rotate queries and keys; or NULL */
    float embedding_scale;
    int32_t is_rms, is_int8, activation;
    long num_layers, d_model, padded_d_model;
    long heads, key_value_heads, head_width;
    long half; /* dimensions i and i + half of a head are rotated as a pair */
    long max_positions;
} Model;

typedef struct { /* consecutive tokens of one context */
    float *const *pages; /* of the whole context */
    const int64_t *tokens;
    long begin; /* the position of the first token */
    long rows;
    long first_row;
} Span;

typedef struct {
    const Span *spans;
    long num_spans, rows, longest; /* the most positions that a row attends to */
    long threads;
    float *x; /* (R, d): the result */
    void *room;
} Reading;

typedef struct {
    float *normal, *inputs, *heads, *inner, *gate, *scale;
    float *scores; /* (threads, TILE, longest) */
    int32_t *surplus;
    int8_t *rounded;
} Work;

static long longer(long a, long b) { return a > b ? a : b; }

static long whole_pages(long positions) { return (positions + PAGE - 1) / PAGE * PAGE; }

static long groups_of(long width) { return (width + GROUP - 1) / GROUP; }

static uintptr_t lay_out(const Model *m, long rows, long longest, long threads, uintptr_t room, Work *w) {
    const Layer *layer = m->layers;
    long widest = longer(m->padded_d_model, longer(layer->output.inputs, layer->outer.inputs));
    w->normal = take(&room, rows * m->padded_d_model * 4);
    w->inputs = take(&room, rows * layer->inputs.outputs * 4);
    w->heads = take(&room, rows * layer->output.inputs * 4);
    w->inner = take(&room, rows * layer->inner.outputs * 4);
    w->gate = take(&room, rows * layer->gate.outputs * 4);
    w->scale = take(&room, rows * groups_of(widest) * 4);
    w->scores = take(&room, threads * TILE * whole_pages(longest) * 4);
    w->surplus = take(&room, rows * groups_of(widest) * 4);
    w->rounded = take(&room, rows * widest);
    return room;
}

/* Return the bytes of working memory for this many rows, each of which attends to at most `longest` positions. */
long room_for(const Model *m, long rows, long longest, long threads) {
    Work work;
    return lay_out(m, rows, longest, threads, 0, &work);
}

/* The data that the tasks of a call share. */
typedef struct {
    const Model *m;
    const Reading *reading;
    const Work *w;
    const Layer *layer;
    long threads, rows, index; /* of the layer */
} Call;

/* Rows: norms and quantisation. */

typedef struct {
    const Call *call;
    const Norm *norm; /* or NULL: only quantise */
    const float *from;
    float *to;
    long width;
} Preparation;

static void round_one(const Call *c, const float *row, long r, long width) {
    const Work *w = c->w;
    long group = r * groups_of(width);
    for (long i = 0; c->m->is_int8 && i < width; i += GROUP, group++)
        round_row(row + i, shorter(GROUP, width - i), w->rounded + r * width + i, w->scale + group, w->surplus + group);
}

static void prepare_row(const void *work, long r, long thread) {
    (void)thread;
    const Preparation *p = work;
    const Call *c = p->call;
    const float *row = p->from + r * p->width;
    if (p->norm) {
        float *to = p->to + r * p->width;
        if (c->m->is_rms) normalise_by_size(p->norm, row, to, c->m->d_model, p->width);
        else normalise(p->norm, row, to, 1, c->m->d_model, p->width);
        row = to;
    }
    round_one(c, row, r, p->width);
}

static Rows rows_of(const Call *c, const float *x) {
    return (Rows){x, c->w->rounded, c->w->scale, c->w->surplus, c->rows, GROUP};
}

static Rows normalised(const Call *c, const Norm *norm, const float *x, float *to) {
    Preparation preparation = {c, norm, x, to, c->m->padded_d_model};
    share_tasks(c->threads, prepare_row, &preparation, c->rows);
    return rows_of(c, to);
}

static Rows rounded(const Call *c, const float *x, long width) {
    Preparation preparation = {c, NULL, x, NULL, width};
    if (c->m->is_int8) share_tasks(c->threads, prepare_row, &preparation, c->rows);
    return rows_of(c, x);
}

/* Products: a task computes some panels of the outputs. */

typedef struct {
    const Call *call;
    const Matrix *matrix, *gate;
    const Rows *x;
    float *to, *gate_to;
    const float *add;
    long columns; /* per task */
    int activation; /* or -1 */
} Product;

static long columns_of_task(const Matrix *m, long rows) {
    long products = m->inputs * PANEL * rows;
    return (TASK + products - 1) / products * PANEL;
}

static void multiply_some(const void *work, long index, long thread) {
    (void)thread;
    const Product *p = work;
    const Matrix *m = p->matrix;
    long begin = index * p->columns, end = shorter(begin + p->columns, m->outputs), stride = m->outputs;
    Result result = {p->to + begin, stride, p->add ? p->add + begin : NULL, 0};
    multiply_columns(m, p->x, &result, begin, end);
    if (p->gate) {
        Result gated = {p->gate_to + begin, stride, NULL, 0};
        multiply_columns(p->gate, p->x, &gated, begin, end);
    }
    for (long r = 0; p->activation >= 0 && r < p->x->count; r++) {
        long place = begin + r * stride;
        activate(p->to + place, p->gate ? p->gate_to + place : NULL, end - begin, p->activation);
    }
}

static void share_product(Product p) {
    p.columns = columns_of_task(p.matrix, p.x->count);
    share_tasks(p.call->threads, multiply_some, &p, (p.matrix->outputs + p.columns - 1) / p.columns);
}

/* Attention. */

/* The location of a head's keys in a page; the values follow them. */
INLINE float *keys_of(const Model *m, float *page, long layer, long head) {
    return page + (layer * m->key_value_heads + head) * 2 * m->head_width * PAGE;
}

static void turn(float *head, const float *cosine, const float *sine, long half) {
    for (long i = 0; i < half; i++) {
        float first = head[i], second = head[i + half];
        head[i] = first * cosine[i] - second * sine[i];
        head[i + half] = second * cosine[i] + first * sine[i];
    }
}

static const Span *span_of(const Reading *reading, long row) {
    const Span *span = reading->spans;
    while (row >= span->first_row + span->rows) span++;
    return span;
}

/* Rotate a row's queries and keys, and write its keys and values to the page. */
static void place_row(const void *work, long r, long thread) {
    (void)thread;
    const Call *c = work;
    const Model *m = c->m;
    const Span *span = span_of(c->reading, r);
    long position = span->begin + r - span->first_row, width = m->head_width, slot = position % PAGE;
    float *row = c->w->inputs + r * c->layer->inputs.outputs;
    const float *cosine = m->turns + position * m->half, *sine = cosine + m->max_positions * m->half;
    for (long h = 0; m->turns && h < m->heads + m->key_value_heads; h++) turn(row + h * width, cosine, sine, m->half);
    float *page = span->pages[position / PAGE];
    const float *key = row + m->heads * width, *value = key + m->key_value_heads * width;
    for (long h = 0; h < m->key_value_heads; h++, key += width, value += width) {
        float *keys = keys_of(m, page, c->index, h), *values = keys + width * PAGE;
        for (long i = 0; i < width; i++) keys[i * PAGE + slot] = key[i];
        memcpy(values + slot * width, value, width * sizeof *value);
    }
}

typedef struct { /* consecutive queries of one context with the same key-value head */
    const float *query[TILE];
    float *output[TILE];
    float *scores[TILE];
    long seen[TILE]; /* positions that each attends to; ascending */
    long count, width;
} Tile;

INLINE void score_page(const Tile *t, const float *keys, long begin, int queries) {
    for (long slot = 0; slot < PAGE; slot += 2 * LANES) {
        floats sum[TILE][2];
        UNROLL for (int j = 0; j < queries; j++) sum[j][0] = sum[j][1] = all(0);
        for (long i = 0; i < t->width; i++) {
            floats left = load(keys + i * PAGE + slot), right = load(keys + i * PAGE + slot + LANES);
            UNROLL for (int j = 0; j < queries; j++) {
                floats query = all(t->query[j][i]);
                sum[j][0] = fused(left, query, sum[j][0]);
                sum[j][1] = fused(right, query, sum[j][1]);
            }
        }
        UNROLL for (int j = 0; j < queries; j++) {
            store(t->scores[j] + begin + slot, sum[j][0]);
            store(t->scores[j] + begin + slot + LANES, sum[j][1]);
        }
    }
}

/* Add the values of the positions from `first` to `end` of a page that begins at `begin`, each times its score, to
the outputs of the queries beginning with `query`; one vector of their numbers, or four. */
INLINE void mix_vectors(
    const Tile *t, const float *values, long begin, long first, long end, long place, int query, int queries, int vectors
) {
    floats sum[TILE][4];
    UNROLL for (int j = 0; j < queries; j++)
        UNROLL for (int v = 0; v < vectors; v++) sum[j][v] = load(t->output[query + j] + place + v * LANES);
    for (long i = first; i < end; i++)
        UNROLL for (int v = 0; v < vectors; v++) {
            floats value = load(values + i * t->width + place + v * LANES);
            UNROLL for (int j = 0; j < queries; j++)
                sum[j][v] = fused(value, all(t->scores[query + j][begin + i]), sum[j][v]);
        }
    UNROLL for (int j = 0; j < queries; j++)
        UNROLL for (int v = 0; v < vectors; v++) store(t->output[query + j] + place + v * LANES, sum[j][v]);
}

INLINE void mix_some(const Tile *t, const float *values, long begin, long first, long end, int query, int queries) {
    long place = 0;
    for (; place + 4 * LANES <= t->width; place += 4 * LANES)
        mix_vectors(t, values, begin, first, end, place, query, queries, 4);
    for (; place < t->width; place += LANES) mix_vectors(t, values, begin, first, end, place, query, queries, 1);
}

/* First the positions that all queries attend to, then those of the later queries only. */
INLINE void mix_page(const Tile *t, const float *values, long begin, int queries) {
    long shared = shorter(t->seen[0] - begin, PAGE);
    if (shared > 0) mix_some(t, values, begin, 0, shared, 0, queries);
    for (int j = 1; j < queries; j++)
        mix_some(t, values, begin, longer(shared, 0), shorter(t->seen[j] - begin, PAGE), j, 1);
}

INLINE void attend_as(const Call *c, const Tile *t, const Span *span, long head, int queries) {
    const Model *m = c->m;
    long seen = t->seen[queries - 1];
    for (long begin = 0; begin < seen; begin += PAGE)
        score_page(t, keys_of(m, span->pages[begin / PAGE], c->index, head), begin, queries);
    float inverse[TILE];
    for (int j = 0; j < queries; j++) {
        inverse[j] = exponentiate(t->scores[j], t->seen[j]);
        memset(t->output[j], 0, t->width * sizeof *t->output[j]);
    }
    for (long begin = 0; begin < seen; begin += PAGE)
        mix_page(t, keys_of(m, span->pages[begin / PAGE], c->index, head) + t->width * PAGE, begin, queries);
    for (int j = 0; j < queries; j++)
        for (long i = 0; i < t->width; i += LANES) store(t->output[j] + i, load(t->output[j] + i) * inverse[j]);
}

static long tiles_of(const Model *m, const Span *span) {
    return (span->rows * (m->heads / m->key_value_heads) + TILE - 1) / TILE;
}

static Tile tile_of(const Call *c, const Span *span, long head, long tile, long thread) {
    const Model *m = c->m;
    long group = m->heads / m->key_value_heads, first = tile * TILE, padded = whole_pages(c->reading->longest);
    Tile t = {.count = shorter(TILE, span->rows * group - first), .width = m->head_width};
    for (long j = 0; j < t.count; j++) {
        long row = (first + j) / group, place = (head * group + (first + j) % group) * m->head_width;
        t.query[j] = c->w->inputs + (span->first_row + row) * c->layer->inputs.outputs + place;
        t.output[j] = c->w->heads + (span->first_row + row) * c->layer->output.inputs + place;
        t.scores[j] = c->w->scores + (thread * TILE + j) * padded;
        t.seen[j] = span->begin + row + 1;
    }
    return t;
}

static void attend_some(const void *work, long index, long thread) {
    const Call *c = work;
    const Span *span = c->reading->spans;
    for (long tasks; index >= (tasks = tiles_of(c->m, span) * c->m->key_value_heads); span++) index -= tasks;
    long head = index % c->m->key_value_heads;
    Tile t = tile_of(c, span, head, index / c->m->key_value_heads, thread);
    switch (t.count) {
#define CASE(queries)                                                                                                 \
    case queries: attend_as(c, &t, span, head, queries); break;
        CASE(1) CASE(2) CASE(3) CASE(4)
#undef CASE
    }
}

static void attend(const Call *c) {
    long tasks = 0, width = c->m->heads * c->m->head_width, padded = c->layer->output.inputs;
    for (long r = 0; r < c->rows; r++) memset(c->w->heads + r * padded + width, 0, (padded - width) * sizeof(float));
    for (long s = 0; s < c->reading->num_spans; s++)
        tasks += tiles_of(c->m, c->reading->spans + s) * c->m->key_value_heads;
    share_tasks(c->threads, attend_some, c, tasks);
}

/* Layers. */

static void apply(const Call *c, float *x) {
    const Layer *layer = c->layer;
    const Work *w = c->w;
    Rows rows = normalised(c, &layer->attention_norm, x, w->normal);
    share_product((Product){c, &layer->inputs, NULL, &rows, w->inputs, NULL, NULL, 0, -1});
    share_tasks(c->threads, place_row, c, c->rows);
    attend(c);
    rows = rounded(c, w->heads, layer->output.inputs);
    share_product((Product){c, &layer->output, NULL, &rows, x, NULL, x, 0, -1});
    rows = normalised(c, &layer->feed_forward_norm, x, w->normal);
    const Matrix *gate = layer->gate.weight ? &layer->gate : NULL;
    share_product((Product){c, &layer->inner, gate, &rows, w->inner, w->gate, NULL, 0, c->m->activation});
    rows = rounded(c, w->inner, layer->outer.inputs);
    share_product((Product){c, &layer->outer, NULL, &rows, x, NULL, x, 0, -1});
}

static void embed(const Model *m, const Span *span, float *x) {
    long width = m->padded_d_model;
    for (long r = 0; r < span->rows; r++, x += width) {
        const float *vector = m->embedding + span->tokens[r] * width;
        const float *position = m->positions ? m->positions + (span->begin + r) * width : NULL;
        for (long i = 0; i < width; i += LANES) {
            floats scaled = load(vector + i) * m->embedding_scale;
            store(x + i, position ? scaled + load(position + i) : scaled);
        }
    }
}

void read_tokens(const Model *m, const Reading *reading) {
    Work work;
    lay_out(m, reading->rows, reading->longest, reading->threads, (uintptr_t)reading->room, &work);
    for (const Span *s = reading->spans; s < reading->spans + reading->num_spans; s++)
        embed(m, s, reading->x + s->first_row * m->padded_d_model);
    Call call = {m, reading, &work, m->layers, join_team(reading->threads), reading->rows, 0};
    for (; call.index < m->num_layers; call.index++, call.layer++) apply(&call, reading->x);
    normalised(&call, &m->last_norm, reading->x, reading->x);
    leave_team(call.threads);
}

/* The vocabulary. */

typedef struct {
    const float *x; /* (R, d): the result of `read_tokens` */
    float *logits; /* (R, padded vocabulary); becomes the log-probabilities */
    long rows, threads;
    void *room;
} Prediction;

static void subtract_log_total(const void *work, long r, long thread) {
    (void)thread;
    const Product *p = work;
    float *logits = p->to + r * p->matrix->outputs;
    floats largest = load(logits), sum = all(0);
    for (long i = LANES; i < p->matrix->outputs; i += LANES) largest = larger(largest, load(logits + i));
    float top = largest_of(largest);
    for (long i = 0; i < p->matrix->outputs; i += LANES) sum += exponential(load(logits + i) - top);
    float log_total = top + logf(sum_of(sum));
    for (long i = 0; i < p->matrix->outputs; i += LANES) store(logits + i, load(logits + i) - log_total);
}

void log_probabilities(const Model *m, const Prediction *p) {
    Work work;
    lay_out(m, p->rows, 0, p->threads, (uintptr_t)p->room, &work);
    Call call = {m, NULL, &work, m->layers, join_team(p->threads), p->rows, 0};
    Rows rows = rounded(&call, p->x, m->padded_d_model);
    Product product = {&call, &m->projection, NULL, &rows, p->logits, NULL, NULL, 0, -1};
    share_product(product);
    share_tasks(call.threads, subtract_log_total, &product, p->rows);
    leave_team(call.threads);
}

/* For the caller: how sizes are padded, and the sizes of the structures, to check that both sides agree. */

long panel(void) { return PANEL; }
long lanes(void) { return LANES; }
long page(void) { return PAGE; }
long size_of_structures(void) {
    return sizeof(Model) + sizeof(Layer) + sizeof(Span) + sizeof(Reading) + sizeof(Prediction);
}
