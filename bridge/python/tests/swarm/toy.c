/* box_peer.py's model and steps in C, for a peer that p2pdiloco join --run RUN -- COMMAND starts. It prints its peer
 * ID, a line for each slot with the part of the data that it trained on, and its last model. */
#include <p2pdiloco_attach.h>

enum { ELEMENTS = 28 };

static void print_id(const struct p2pa *a) { /* the line of its own among those of the members */
    const char *line = a->member_ids;
    for (uint64_t i = 0; i < a->train.member; i++) line = strchr(line, '\n') + 1;
    printf("toy peer %.*s\n", (int)strcspn(line, "\n"), line);
}

int main(void) {
    static const struct p2pa_tensor tensors[] = {{"w", 0, 2, {5, 4}}, {"b", 0, 1, {7}}, {"s", 0, 0, {0}}};
    static float params[ELEMENTS];
    struct p2pa_config c = {0};
    struct p2pa a;
    for (int i = 0; i < ELEMENTS; i++) params[i] = 0.5f + (float)i / 64;
    c.tensors = tensors, c.count = 3, c.params = params;
    int status = p2pa_attach(&a, &c);
    if (status == P2PA_OK) status = p2pa_border(&a, NULL);
    if (status == P2PA_OK) print_id(&a);
    while (status == P2PA_OK) {
        struct p2pa_offer done = {0};
        float base = 0.25f + 0.125f * (float)(a.train.part % 3);
        printf("toy slot %llu %llu\n", (unsigned long long)a.train.slot, (unsigned long long)a.train.part);
        while (done.steps < a.train.steps) {
            for (int i = 0; i < ELEMENTS; i++) params[i] -= 0.01f * (0.5f * params[i] + base);
            if (p2pa_step(&a, ++done.steps) != P2PA_GO_ON) break;
        }
        done.tokens = done.steps;
        status = p2pa_border(&a, &done);
    }
    if (status != P2PA_ENDED) {
        fprintf(stderr, "toy: %s\n", a.error);
        return 1;
    }
    printf("toy last");
    for (int i = 0; i < ELEMENTS; i++) printf(" %a", params[i]);
    printf("\n");
    return 0;
}
