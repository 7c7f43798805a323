#include "p2pdiloco_attach.h"

/* Ranks that the client refuses itself: one of two that says nothing that they have in common, and one that has a
 * part of the model, and no function that exports it. */
int main(void) {
    struct p2pa a;
    struct p2pa_config c = {0};
    const struct p2pa_tensor tensor = {"w", 0, 1, {4}};
    const struct p2pa_piece half = {0, 1, {0}, {2}};
    float w[4] = {0};
    c.path = "/nowhere", c.world = 2, c.params = w;
    printf("%d %s\n", p2pa_attach(&a, &c) == P2PA_ERROR, a.error);
    c.world = 1, c.timeout = 1e-9;
    c.tensors = &tensor, c.count = 1, c.pieces = &half, c.piece_count = 1;
    printf("%d %s\n", p2pa_attach(&a, &c) == P2PA_ERROR, a.error);
    return 0;
}
