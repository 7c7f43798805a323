#include "p2pdiloco_attach.h"

/* A rank with a model of 4 TiB, which no machine has room for. */
int main(void) {
    static const struct p2pa_tensor tensors[] = {{"w", 0, 2, {1 << 20, 1 << 20}}};
    struct p2pa a;
    struct p2pa_config c = {0};
    float w = 0;
    c.tensors = tensors, c.count = 1, c.params = &w;
    int status = p2pa_attach(&a, &c);
    printf("%d %llu %s\n", status, (unsigned long long)a.code, a.error);
    return a.code != P2PA_MEMORY;
}
