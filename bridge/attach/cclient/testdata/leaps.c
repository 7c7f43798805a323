#include <p2pdiloco_attach.h>

/* A trainer that counts its steps two by two. */
int main(void) {
    static const struct p2pa_tensor tensors[] = {{"w", 0, 1, {2}}};
    static float params[2];
    struct p2pa_config c = {0};
    struct p2pa a;
    c.tensors = tensors, c.count = 1, c.params = params;
    int status = p2pa_attach(&a, &c);
    if (status == P2PA_OK) status = p2pa_border(&a, NULL);
    while (status == P2PA_OK) {
        struct p2pa_offer done = {0};
        while (done.steps < a.train.steps) {
            const struct timespec step = {0, 1000000};
            uint64_t left = a.train.steps - done.steps;
            nanosleep(&step, NULL);
            done.steps += left < 2 ? left : 2;
            if (p2pa_step(&a, done.steps) != P2PA_GO_ON) break;
        }
        status = p2pa_border(&a, &done);
    }
    fprintf(stderr, "attach: %s\n", a.error);
    return status != P2PA_ENDED;
}
