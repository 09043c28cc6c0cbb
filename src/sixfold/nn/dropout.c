/* Dropout for training on a CPU, in one pass and without a mask.

   Whether an element is kept follows from its place and the key of the call alone, by a hash: so the backward pass
   need not remember it, nothing but the numbers themselves goes through the memory, and a vector of them is decided
   at once. */

#include <stddef.h>
#include <stdint.h>

static inline uint32_t mixed(uint32_t bits, uint32_t factor) {
    bits = (bits ^ (bits >> 16)) * factor;
    return bits ^ (bits >> 15);
}

/* Write x + y·scale where an element is kept and x where it is not; x is 0 if there is none. `dropped` of 2^31
   elements are dropped. */
void drop(const float *restrict x, const float *restrict y, float *restrict output, long count, uint64_t key,
          int32_t dropped, float scale) {
    const uint32_t low = (uint32_t)key, high = (uint32_t)(key >> 32);
    if (x == NULL)
        for (long i = 0; i < count; i++) {
            const uint32_t bits = mixed(mixed((uint32_t)i ^ low, 0x7feb352du) ^ high, 0x846ca68bu);
            output[i] = (int32_t)(bits >> 1) < dropped ? 0.0f : y[i] * scale;
        }
    else
        for (long i = 0; i < count; i++) {
            const uint32_t bits = mixed(mixed((uint32_t)i ^ low, 0x7feb352du) ^ high, 0x846ca68bu);
            output[i] = x[i] + ((int32_t)(bits >> 1) < dropped ? 0.0f : y[i] * scale);
        }
}
