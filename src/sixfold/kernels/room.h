/* Memory that the caller lends for the time of a call. */

#ifndef ROOM_H
#define ROOM_H

#include <stdint.h>

static inline void *take(uintptr_t *room, long size) { /* the next piece of the room */
    void *piece = (void *)*room;
    *room += (size + 63) / 64 * 64;
    return piece;
}

#endif
