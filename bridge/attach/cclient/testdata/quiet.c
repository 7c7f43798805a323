/* quiet TIMEOUT: a rank that waits at a border for a node that may stand still, and prints how that ended. */
#define P2PA_QUIET 2
#include <p2pdiloco_attach.h>

int main(int argc, char **argv) {
    static const struct p2pa_tensor tensors[] = {{"w", 0, 2, {3, 2}}, {"b", 0, 1, {4}}};
    static float params[10];
    struct p2pa_config c = {0};
    struct p2pa a;
    if (argc != 2) return 2;
    c.tensors = tensors, c.count = 2, c.params = params, c.timeout = atof(argv[1]);
    int status = p2pa_attach(&a, &c);
    if (status == P2PA_OK) status = p2pa_border(&a, NULL);
    printf("%d %s\n", status, a.error);
    p2pa_close(&a);
    return 0;
}
