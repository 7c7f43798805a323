/* One of several ranks with equal copies of a model of ROWS x 1000 parameters, from each of which a step takes 1:
 *
 *     wide RANK WORLD ROWS */
#include <p2pdiloco_attach.h>

int main(int argc, char **argv) {
    static struct p2pa_tensor tensors[] = {{"w", 0, 2, {0, 1000}}};
    struct p2pa_config c = {0};
    struct p2pa a;
    if (argc != 4) return 2;
    const int elements = 1000 * atoi(argv[3]);
    tensors[0].shape[0] = (uint64_t)elements / 1000;
    c.rank = strtoul(argv[1], NULL, 10), c.world = strtoul(argv[2], NULL, 10), c.set = "wide";
    c.tensors = tensors, c.count = 1, c.params = (float *)malloc((size_t)elements * sizeof(float));
    if (!c.params) return 2;
    for (int i = 0; i < elements; i++) c.params[i] = (float)(i % 1000);
    int status = p2pa_attach(&a, &c);
    if (status == P2PA_OK) status = p2pa_border(&a, NULL);
    while (status == P2PA_OK) {
        struct p2pa_offer done = {0};
        while (done.steps < a.train.steps) {
            for (int i = 0; i < elements; i++) c.params[i] -= 1;
            if (p2pa_step(&a, ++done.steps) != P2PA_GO_ON) break;
        }
        done.tokens = done.steps;
        status = p2pa_border(&a, &done);
    }
    if (status != P2PA_ENDED) fprintf(stderr, "wide: %s\n", a.error);
    return status != P2PA_ENDED;
}
