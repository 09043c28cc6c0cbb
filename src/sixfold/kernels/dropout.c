/* Dropout for training on a CPU, in one pass and without a mask.

A hash of an element's index and the key of the call decides whether the element is kept. So the backward pass needs
no mask, only the numbers themselves go through memory, and a whole vector is decided at once. */

#include <stddef.h>
#include <stdint.h>

/* Three rounds: with two, for about one key in a hundred, elements at some distances agreed 1% too often. */
static inline int is_dropped(long place, uint64_t key, int32_t dropped) {
    uint32_t bits = (uint32_t)place ^ (uint32_t)key;
    bits = (bits ^ (bits >> 17)) * 0xed5ad4bbu;
    bits = (bits ^ (bits >> 11) ^ (uint32_t)(key >> 32)) * 0xac4c1b51u;
    bits = (bits ^ (bits >> 15)) * 0x31848babu;
    return (int32_t)((bits ^ (bits >> 14)) >> 1) < dropped;
}

/* Write x + y·scale where an element is kept and x where it is not; x is 0 if there is none. `dropped` of 2^31
   elements are dropped. */
void drop(const float *restrict x, const float *restrict y, float *restrict output, long count, uint64_t key,
          int32_t dropped, float scale) {
    if (x == NULL)
        for (long i = 0; i < count; i++) output[i] = is_dropped(i, key, dropped) ? 0.0f : y[i] * scale;
    else
        for (long i = 0; i < count; i++) output[i] = x[i] + (is_dropped(i, key, dropped) ? 0.0f : y[i] * scale);
}
