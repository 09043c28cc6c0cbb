/* The steps of decoding on a CPU, one call each: computes the same as `decode/torch_engine.py`, without overhead per
   operation. `kernels/build.py` compiles this file for the machine it runs on; `decode/kernel_engine.py` calls it.

   Each row is computed independently and each sum in a fixed order, so a row's bits do not depend on the other rows.

   All sizes are padded to whole panels: weights, biases and rows have zeros there, and zeros stay zeros. Rows are
   stored one after the other, without gaps.

   Names: R rows, d the model's width, h the width of all heads together. The keys and values of a position are
   contiguous, h keys and then h values; a query attends to a list of such pieces.
*/

#include "norms.h"
#include "products.h"
#include "room.h"
#include "vectors.h"

enum { BLOCK = 64 }; /* tokens compared at once */

/* The model, and working memory. */

typedef struct {
    Matrix query, memory, output;
    Norm norm;
} Attention;

typedef struct {
    Attention past, source; /* an encoder layer has only the first */
    Matrix inner, outer;
    Norm norm;
} Layer;

typedef struct {
    const Layer *encoder, *decoder;
    Norm encoder_norm, decoder_norm; /* of pre-norm models */
    Matrix projection;
    const float *embedding; /* (vocabulary, d) */
    float embedding_scale;
    int32_t is_pre_norm, is_int8;
    long encoder_layers, decoder_layers, d_model, padded_d_model, d_ff, heads, head_width, all_heads, vocabulary;
    long attention_width; /* of restricted self-attention; 0: full */
} Model;

typedef struct { /* a running sum of e^(logit - largest) */
    float largest;
    floats sum;
} Total;

typedef struct {
    Total *totals;
    float *best; /* (R, count): logits, best first */
    int64_t *best_tokens;
    float *normal, *query, *context, *inner, *scale, *scores, *logits;
    const float **past;
    int32_t *surplus;
    int8_t *rounded;
} Work;

static long widest(const Model *m) {
    long width = m->padded_d_model > m->all_heads ? m->padded_d_model : m->all_heads;
    return width > m->d_ff ? width : m->d_ff;
}

enum { MOST = 64 }; /* the most extensions that can be found per row */
enum { LOGITS = 1 << 17 }; /* computed at once, and used while they are still in the cache */

static long columns_at_once(const Model *m, long rows) {
    long columns = LOGITS / rows / BLOCK * BLOCK;
    return shorter(columns < BLOCK ? BLOCK : columns, m->projection.outputs);
}

static uintptr_t lay_out(const Model *m, long rows, long positions, uintptr_t room, Work *w) {
    long padded = (positions + LANES - 1) / LANES * LANES;
    w->totals = take(&room, rows * sizeof(Total));
    w->best = take(&room, rows * MOST * 4);
    w->best_tokens = take(&room, rows * MOST * 8);
    w->normal = take(&room, rows * m->padded_d_model * 4);
    w->query = take(&room, rows * m->all_heads * 4);
    w->context = take(&room, rows * m->all_heads * 4);
    w->inner = take(&room, rows * m->d_ff * 4);
    w->scale = take(&room, rows * 4);
    w->scores = take(&room, m->heads * padded * 4);
    w->logits = take(&room, (rows * BLOCK > LOGITS ? rows * BLOCK : LOGITS) * 4);
    w->past = take(&room, positions * sizeof(float *));
    w->surplus = take(&room, rows * 4);
    w->rounded = take(&room, rows * widest(m));
    return room;
}

/* Return the bytes of working memory for this many rows, each of which attends to this many positions. */
long room_for(const Model *m, long rows, long positions) {
    Work work;
    return lay_out(m, rows, positions, 0, &work);
}

static Rows rows_of(const Model *m, const Work *w, const float *x, long count, long width) {
    if (m->is_int8)
        for (long r = 0; r < count; r++)
            round_row(x + r * width, width, w->rounded + r * width, w->scale + r, w->surplus + r);
    return (Rows){x, w->rounded, w->scale, w->surplus, count, width};
}

/* Layers. */

INLINE float product(const float *a, const float *b, long width) {
    floats sum = load(a) * load(b);
    for (long i = LANES; i < width; i += LANES) sum = fused(load(a + i), load(b + i), sum);
    return sum_of(sum);
}

/* The weighted sum of the pieces beginning at `offset`, times `scale`. */
INLINE void mix(
    const float *const *pieces, long offset, const float *weights, long count, float scale, float *out, int vectors
) {
    floats sum[4];
    UNROLL for (int j = 0; j < vectors; j++) sum[j] = all(0);
    for (long i = 0; i < count; i++)
        UNROLL for (int j = 0; j < vectors; j++)
            sum[j] = fused(load(pieces[i] + offset + j * LANES), all(weights[i]), sum[j]);
    UNROLL for (int j = 0; j < vectors; j++) store(out + j * LANES, sum[j] * scale);
}

/* softmax(q k) v of one query, for each head; 1/sqrt(d_k) is in the weights of the query. */
static void attend(
    const Model *m, float *scores, const float *query, const float *const *past, long count, float *context
) {
    long padded = (count + LANES - 1) / LANES * LANES, width = m->head_width;
    memset(context + m->heads * width, 0, (m->all_heads - m->heads * width) * sizeof *context);
    for (long i = 0; i < count; i++)
        for (long h = 0; h < m->heads; h++)
            scores[h * padded + i] = product(query + h * width, past[i] + h * width, width);
    for (long h = 0; h < m->heads; h++, scores += padded) {
        float inverse = exponentiate(scores, count);
        long done = h * width, end = done + width, values = m->all_heads;
        for (; done + 4 * LANES <= end; done += 4 * LANES)
            mix(past, values + done, scores, count, inverse, context + done, 4);
        for (; done < end; done += LANES) mix(past, values + done, scores, count, inverse, context + done, 1);
    }
}

/* A sublayer begins with its input rows and ends when its result has been added to x. */
static Rows begin(const Model *m, const Work *w, const Norm *norm, const float *x, long rows) {
    if (m->is_pre_norm) normalise(norm, x, w->normal, rows, m->d_model, m->padded_d_model);
    return rows_of(m, w, m->is_pre_norm ? w->normal : x, rows, m->padded_d_model);
}

static void end(const Model *m, const Norm *norm, float *x, long rows) {
    if (!m->is_pre_norm) normalise(norm, x, x, rows, m->d_model, m->padded_d_model);
}

static void join_heads(const Model *m, const Work *w, const Attention *a, float *x, long rows) {
    Rows context = rows_of(m, w, w->context, rows, m->all_heads);
    multiply(&a->output, &context, x, x, 0);
    end(m, &a->norm, x, rows);
}

static void feed_forward(const Model *m, const Work *w, const Layer *layer, float *x, long rows) {
    Rows input = begin(m, w, &layer->norm, x, rows);
    multiply(&layer->inner, &input, w->inner, NULL, 1);
    Rows inner = rows_of(m, w, w->inner, rows, m->d_ff);
    multiply(&layer->outer, &inner, x, x, 0);
    end(m, &layer->norm, x, rows);
}

static void embed(const Model *m, int64_t token, const float *position, float *x) {
    const float *vector = m->embedding + token * m->padded_d_model;
    for (long i = 0; i < m->padded_d_model; i += LANES)
        store(x + i, load(vector + i) * m->embedding_scale + load(position + i));
}

/* The encoder. The tokens of the sentences follow each other, without padding. */

typedef struct {
    const int64_t *tokens; /* of all sentences */
    const int64_t *begins, *lengths; /* of each sentence */
    const float *positions; /* (longest, d) */
    long sentences, rows, longest;
    float *x; /* (R, d) */
    float *memory; /* (decoder layers, R, 2h): keys and values for the decoder */
    void *room;
} Source;

static void attend_to_source(const Model *m, const Work *w, const Source *s, const float *memory) {
    for (long k = 0; k < s->sentences; k++) {
        long begin = s->begins[k], length = s->lengths[k], reach = m->attention_width;
        for (long i = 0; i < length; i++) w->past[i] = memory + (begin + i) * 2 * m->all_heads;
        for (long i = 0; i < length; i++) {
            long first = reach && i > reach ? i - reach : 0, last = reach ? shorter(i + reach + 1, length) : length;
            long place = (begin + i) * m->all_heads;
            attend(m, w->scores, w->query + place, w->past + first, last - first, w->context + place);
        }
    }
}

void encode(const Model *m, const Source *s) {
    Work work, *w = &work;
    lay_out(m, s->rows, s->longest, (uintptr_t)s->room, w);
    for (long k = 0; k < s->sentences; k++)
        for (long i = 0; i < s->lengths[k]; i++) {
            long row = s->begins[k] + i;
            embed(m, s->tokens[row], s->positions + i * m->padded_d_model, s->x + row * m->padded_d_model);
        }
    for (const Layer *layer = m->encoder; layer < m->encoder + m->encoder_layers; layer++) {
        Rows input = begin(m, w, &layer->past.norm, s->x, s->rows);
        multiply(&layer->past.query, &input, w->query, NULL, 0);
        multiply(&layer->past.memory, &input, s->memory, NULL, 0); /* used as temporary memory */
        attend_to_source(m, w, s, s->memory);
        join_heads(m, w, &layer->past, s->x, s->rows);
        feed_forward(m, w, layer, s->x, s->rows);
    }
    if (m->is_pre_norm) normalise(&m->encoder_norm, s->x, s->x, s->rows, m->d_model, m->padded_d_model);
    Rows output = rows_of(m, w, s->x, s->rows, m->padded_d_model);
    for (long l = 0; l < m->decoder_layers; l++)
        multiply(&m->decoder[l].source.memory, &output, s->memory + l * s->rows * 2 * m->all_heads, NULL, 0);
}

/* A step of the decoder.

   Keys and values stay where their step wrote them; the history of a row says which row of each earlier step it
   continues. Reordering hypotheses only reorders histories. */

typedef struct {
    const int64_t *tokens; /* the newest token of each row */
    const float *position; /* (d): this step's */
    long rows, width, step; /* `width` rows belong to the same sentence */
    int64_t *history; /* (R, capacity) */
    long capacity;
    float *const *blocks; /* of each step so far and this one: (decoder layers, its rows, 2h) */
    const int64_t *block_rows;
    const float *memory; /* (decoder layers, memory rows, 2h) */
    long memory_rows, longest;
    const int64_t *begins, *lengths; /* of each sentence, in the memory */
    float *x; /* (R, d): the result */
    void *room;
} Step;

static void attend_to_past(const Model *m, const Work *w, const Step *s, long layer) {
    long first = m->attention_width && s->step > m->attention_width ? s->step - m->attention_width : 0;
    for (long r = 0; r < s->rows; r++) {
        const int64_t *history = s->history + r * s->capacity;
        for (long t = first; t <= s->step; t++)
            w->past[t] = s->blocks[t] + (layer * s->block_rows[t] + history[t]) * 2 * m->all_heads;
        long place = r * m->all_heads;
        attend(m, w->scores, w->query + place, w->past + first, s->step + 1 - first, w->context + place);
    }
}

static void attend_to_memory(const Model *m, const Work *w, const Step *s, long layer) {
    for (long k = 0; k < s->rows / s->width; k++) {
        const float *memory = s->memory + (layer * s->memory_rows + s->begins[k]) * 2 * m->all_heads;
        for (long i = 0; i < s->lengths[k]; i++) w->past[i] = memory + i * 2 * m->all_heads;
        for (long r = k * s->width; r < (k + 1) * s->width; r++) {
            long place = r * m->all_heads;
            attend(m, w->scores, w->query + place, w->past, s->lengths[k], w->context + place);
        }
    }
}

void decode(const Model *m, const Step *s) {
    Work work, *w = &work;
    lay_out(m, s->rows, s->longest, (uintptr_t)s->room, w);
    for (long r = 0; r < s->rows; r++) {
        s->history[r * s->capacity + s->step] = r;
        embed(m, s->tokens[r], s->position, s->x + r * m->padded_d_model);
    }
    for (long l = 0; l < m->decoder_layers; l++) {
        const Layer *layer = m->decoder + l;
        Rows input = begin(m, w, &layer->past.norm, s->x, s->rows);
        multiply(&layer->past.query, &input, w->query, NULL, 0);
        multiply(&layer->past.memory, &input, s->blocks[s->step] + l * s->rows * 2 * m->all_heads, NULL, 0);
        attend_to_past(m, w, s, l);
        join_heads(m, w, &layer->past, s->x, s->rows);
        input = begin(m, w, &layer->source.norm, s->x, s->rows);
        multiply(&layer->source.query, &input, w->query, NULL, 0);
        attend_to_memory(m, w, s, l);
        join_heads(m, w, &layer->source, s->x, s->rows);
        feed_forward(m, w, layer, s->x, s->rows);
    }
    if (m->is_pre_norm) normalise(&m->decoder_norm, s->x, s->x, s->rows, m->d_model, m->padded_d_model);
}

/* The vocabulary: logits, the log of the sum of their exponentials, and the best extensions. */

typedef struct {
    const float *x; /* (R, d): the decoder's output */
    long rows, width; /* `width` rows belong to the same sentence */
    const int64_t *never_chosen; /* special tokens that no output may contain */
    long num_never_chosen, eos;
    const int64_t *forbidden; /* tokens that may not follow a row, ascending, row after row; or NULL */
    int64_t *next_forbidden; /* (R): where the tokens of a row begin; advanced while its logits are scanned */
    const int64_t *end_forbidden; /* (R): where they end */
    const float *before; /* (R): log-probability of all tokens before */
    float *log_totals; /* (R) */
    float *ends; /* (R): log-probability of the end token */
    int64_t *most_probable; /* (R): tokens */
    long count; /* of extensions to find, at most MOST */
    float *scores; /* (S, count): log-probability of all tokens, best first */
    int64_t *parents, *tokens; /* (S, count): the row of the sentence, and its next token */
    void *room;
} Prediction;

INLINE floats best_of_block(const float *logits) {
    floats best = load(logits);
    for (int i = LANES; i < BLOCK; i += LANES) best = larger(best, load(logits + i));
    return best;
}

/* Insert a better one; among equals the earlier comes first. */
static void insert(float *best, int64_t *tokens, long count, float logit, int64_t token) {
    long place = count - 1;
    for (; place > 0 && best[place - 1] < logit; place--) {
        best[place] = best[place - 1];
        tokens[place] = tokens[place - 1];
    }
    best[place] = logit;
    tokens[place] = token;
}

static void insert_better(float *best, int64_t *tokens, long count, const float *logits, long begin) {
    for (long i = 0; i < BLOCK; i += LANES)
        if (largest_of(load(logits + i)) > best[count - 1])
            for (long j = i; j < i + LANES; j++)
                if (logits[j] > best[count - 1]) insert(best, tokens, count, logits[j], begin + j);
}

INLINE void add_block(Total *total, const float *logits, float largest) {
    if (largest > total->largest) {
        total->sum *= exponential(all(total->largest - largest));
        total->largest = largest;
    }
    for (int i = 0; i < BLOCK; i += LANES) total->sum += exponential(load(logits + i) - total->largest);
}

INLINE int is_inside(int64_t token, long begin) { return token >= begin && token < begin + BLOCK; }

/* Exclude from a block the tokens that are never chosen, and the padding of the vocabulary. */
static void erase(const Model *m, const Prediction *p, float *logits, long begin) {
    for (long i = 0; i < p->num_never_chosen; i++)
        if (is_inside(p->never_chosen[i], begin)) logits[p->never_chosen[i] - begin] = -INFINITY;
    for (long i = m->vocabulary - begin; i < BLOCK; i++) logits[i] = -INFINITY;
}

/* Exclude the tokens of a block that may not follow row r; blocks are scanned in ascending order. */
static void forbid(const Prediction *p, long r, float *logits, long begin) {
    int64_t *next = p->next_forbidden + r;
    for (; *next < p->end_forbidden[r] && p->forbidden[*next] < begin + BLOCK; ++*next)
        logits[p->forbidden[*next] - begin] = -INFINITY;
}

/* Scan the logits of one row from token `begin` to `end`, block by block. */
static void look(const Model *m, const Work *w, const Prediction *p, long r, float *logits, long begin, long end) {
    float *best = w->best + r * p->count;
    for (long block = begin; block < end; block += BLOCK, logits += BLOCK) {
        float largest = largest_of(best_of_block(logits));
        add_block(w->totals + r, logits, largest);
        erase(m, p, logits, block);
        if (p->forbidden) forbid(p, r, logits, block);
        if (is_inside(p->eos, block)) p->ends[r] = logits[p->eos - block];
        if (p->count && largest > best[p->count - 1])
            insert_better(best, w->best_tokens + r * p->count, p->count, logits, block);
    }
}

static void start_looking(const Work *w, const Prediction *p) {
    for (long r = 0; r < p->rows; r++) w->totals[r] = (Total){-INFINITY, all(0)};
    for (long i = 0; i < p->rows * p->count; i++) w->best[i] = -INFINITY, w->best_tokens[i] = 0;
}

static void end_looking(const Work *w, const Prediction *p) {
    for (long r = 0; r < p->rows; r++) {
        p->log_totals[r] = w->totals[r].largest + logf(sum_of(w->totals[r].sum));
        p->ends[r] -= p->log_totals[r];
        if (p->count) p->most_probable[r] = w->best_tokens[r * p->count];
    }
}

/* Write all logits (R, padded vocabulary) and the log of the sum of their exponentials. */
void write_logits(const Model *m, const Prediction *p, float *logits) {
    Work work, *w = &work;
    lay_out(m, p->rows, 0, (uintptr_t)p->room, w);
    start_looking(w, p);
    Rows x = rows_of(m, w, p->x, p->rows, m->padded_d_model);
    multiply(&m->projection, &x, logits, NULL, 0);
    for (long r = 0, width = m->projection.outputs; r < p->rows; r++)
        look(m, w, p, r, logits + r * width, 0, width);
    end_looking(w, p);
}

/* Merge the best extensions of the rows of each sentence. */
static void merge(const Work *w, const Prediction *p, long sentence) {
    long first = sentence * p->width, used[p->width];
    memset(used, 0, sizeof used);
    for (long i = sentence * p->count; i < (sentence + 1) * p->count; i++) {
        p->scores[i] = -INFINITY, p->parents[i] = p->tokens[i] = 0;
        for (long j = 0; j < p->width; j++) {
            long row = first + j, place = row * p->count + used[j];
            float score = used[j] < p->count ? w->best[place] + (p->before[row] - p->log_totals[row]) : -INFINITY;
            if (score > p->scores[i]) p->scores[i] = score, p->parents[i] = j, p->tokens[i] = w->best_tokens[place];
        }
        used[p->parents[i]]++;
    }
}

/* Find the best extensions without storing all logits. */
void find_best(const Model *m, const Prediction *p) {
    Work work, *w = &work;
    lay_out(m, p->rows, 0, (uintptr_t)p->room, w);
    start_looking(w, p);
    Rows x = rows_of(m, w, p->x, p->rows, m->padded_d_model);
    long all_columns = m->projection.outputs, columns = columns_at_once(m, p->rows);
    for (long begin = 0; begin < all_columns; begin += columns) {
        long end = shorter(begin + columns, all_columns);
        Result logits = {w->logits, end - begin, NULL, 0};
        multiply_columns(&m->projection, &x, &logits, begin, end);
        for (long r = 0; r < p->rows; r++) look(m, w, p, r, w->logits + r * (end - begin), begin, end);
    }
    end_looking(w, p);
    for (long k = 0; k < p->rows / p->width; k++) merge(w, p, k);
}

/* For the caller: how sizes are padded, and the sizes of the structures, to check that both sides agree. */

long panel(void) { return PANEL; }
long lanes(void) { return LANES; }
long most_extensions(void) { return MOST; }
long size_of_structures(void) { return sizeof(Model) + sizeof(Layer) + sizeof(Source) + sizeof(Step) + sizeof(Prediction); }
