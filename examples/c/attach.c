/* A trainer in C that attaches to the node of its machine (bridge/include/p2pdiloco_attach.h):
 *
 *     p2pdiloco join --run my-run -- ./attach
 *
 * It fits y = w x + b to points of a line, each peer to points of its own. */
#include <p2pdiloco_attach.h>

static float params[2]; /* w, b */

/* One step of gradient descent on a batch that belongs to this part of the data. */
static double inner_step(uint64_t part, uint64_t step) {
    uint64_t seed = part * 1000003 + step;
    float gw = 0, gb = 0, loss = 0;
    for (int i = 0; i < 16; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        float x = (float)(seed >> 40) / (1 << 24) * 2 - 1, y = 3 * x - 1;
        float off = params[0] * x + params[1] - y;
        gw += off * x, gb += off, loss += off * off;
    }
    params[0] -= 0.1f * gw / 16, params[1] -= 0.1f * gb / 16;
    return loss / 16;
}

static int evaluate(struct p2pa *a, double *loss) {
    (void)a;
    *loss = (params[0] - 3) * (params[0] - 3) + (params[1] + 1) * (params[1] + 1);
    return 0;
}

int main(void) {
    const struct p2pa_tensor tensors[] = {{"w", P2PA_F32, 0, {0}}, {"b", P2PA_F32, 0, {0}}};
    struct p2pa_config c = {0};
    c.tensors = tensors, c.count = 2, c.params = params, c.evaluate = evaluate;
    struct p2pa a;
    int status = p2pa_attach(&a, &c);
    if (status == P2PA_OK) status = p2pa_border(&a, NULL);
    while (status == P2PA_OK) {
        struct p2pa_offer done = {0};
        while (done.steps < a.train.steps) {
            done.loss += inner_step(a.train.part, a.train.part_done + done.steps);
            if (p2pa_step(&a, ++done.steps) != P2PA_GO_ON) break;
        }
        done.tokens = done.steps * 16, done.loss /= (double)done.steps;
        printf("slot %llu: %llu steps, loss %.6f\n", (unsigned long long)a.train.slot, (unsigned long long)done.steps,
               done.loss);
        fflush(stdout);
        status = p2pa_border(&a, &done);
    }
    if (status != P2PA_ENDED) {
        fprintf(stderr, "attach: %s\n", a.error);
        return 1;
    }
    printf("the run has ended: y = %.4f x + %.4f\n", params[0], params[1]);
    return 0;
}
