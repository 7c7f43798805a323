/* storm N: attaches N times to a node that may say anything, trains as it is told, and prints for each time how that
 * ended: the status, and the error. */
#include <p2pdiloco_attach.h>

int main(int argc, char **argv) {
    static const struct p2pa_tensor tensors[] = {{"w", 0, 2, {3, 2}}, {"b", 0, 1, {4}}};
    if (argc != 2) return 2;
    for (int n = atoi(argv[1]); n > 0; n--) {
        float *params = (float *)malloc(10 * sizeof(float)); /* of the heap, where a byte beyond it is seen */
        struct p2pa_config c = {0};
        struct p2pa a;
        if (!params) return 2;
        for (int i = 0; i < 10; i++) params[i] = 0;
        c.tensors = tensors, c.count = 2, c.params = params, c.timeout = 1e-9;
        c.rank = 1, c.world = 2, c.set = "storm"; /* it prints no notices */
        int status = p2pa_attach(&a, &c);
        if (status == P2PA_OK) status = p2pa_border(&a, NULL);
        while (status == P2PA_OK) {
            struct p2pa_offer done = {0};
            while (done.steps < a.train.steps && done.steps < 3)
                if (p2pa_step(&a, ++done.steps) != P2PA_GO_ON) break;
            status = p2pa_border(&a, &done);
        }
        for (char *p = a.error; *p; p++)
            if (*p == '\n' || *p == '\r') *p = ' '; /* a line each */
        printf("%d %s\n", status, a.error);
        fflush(stdout);
        free(params);
    }
    return 0;
}
