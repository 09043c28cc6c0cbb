/* A layer without a memory to attend to. */

#ifndef LAYER_H
#define LAYER_H

#include "norms.h"
#include "products.h"

typedef struct {
    Matrix inputs; /* queries, divided by the root of their width, keys, values: head by head */
    Matrix output;
    Matrix inner, gate, outer; /* only a gated network has a gate's weights */
    Norm attention_norm, feed_forward_norm;
} Layer;

#endif
