/* Working memory that the caller provides for the duration of a call. */

#ifndef ROOM_H
#define ROOM_H

#include <stdint.h>

static inline void *take(uintptr_t *room, long size) { /* allocate the next piece */
    void *piece = (void *)*room;
    *room += (size + 63) / 64 * 64;
    return piece;
}

#endif
