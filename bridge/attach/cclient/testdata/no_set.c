#include "p2pdiloco_attach.h"

/* A rank of two that says nothing that they have in common. */
int main(void) {
    struct p2pa a;
    struct p2pa_config c = {0};
    float w = 0;
    c.path = "/nowhere", c.world = 2, c.params = &w;
    printf("%d %s\n", p2pa_attach(&a, &c) == P2PA_ERROR, a.error);
    return 0;
}
