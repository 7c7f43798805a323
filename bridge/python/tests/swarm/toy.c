/* attach_peer.py's model and steps in C, for a peer that p2pdiloco join RUN -- COMMAND starts. */
#include <p2pdiloco_attach.h>

enum { ELEMENTS = 28 };

int main(void) {
    static const struct p2pa_tensor tensors[] = {{"w", 0, 2, {5, 4}}, {"b", 0, 1, {7}}, {"s", 0, 0, {0}}};
    static float params[ELEMENTS];
    struct p2pa_config c = {0};
    struct p2pa a;
    for (int i = 0; i < ELEMENTS; i++) params[i] = 0.5f;
    c.tensors = tensors, c.count = 3, c.params = params;
    int status = p2pa_attach(&a, &c);
    if (status == P2PA_OK) status = p2pa_border(&a, NULL);
    while (status == P2PA_OK) {
        struct p2pa_offer done = {0};
        while (done.steps < a.train.steps) {
            float step = 0.01f * (0.25f + 0.125f * (float)(a.train.part % 3));
            for (int i = 0; i < ELEMENTS; i++) params[i] -= step;
            if (p2pa_step(&a, ++done.steps) != P2PA_GO_ON) break;
        }
        done.tokens = done.steps;
        status = p2pa_border(&a, &done);
    }
    if (status != P2PA_ENDED) {
        fprintf(stderr, "toy: %s\n", a.error);
        return 1;
    }
    for (int i = 0; i < ELEMENTS; i++) printf("%a%s", params[i], i == ELEMENTS - 1 ? "\n" : " ");
    return 0;
}
