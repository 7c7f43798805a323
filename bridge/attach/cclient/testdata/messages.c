/* messages pack NAME: writes the message of the golden file of that name, as the client packs it.
 * messages read FILE: reads a message and prints what the client takes from it. */
#include <p2pdiloco_attach.h>

static const struct p2pa_tensor boxes[] = {{"wte", 0, 2, {256, 96}}, {"b", P2PA_BF16, 0, {0}}};
static const struct p2pa_piece half[] = {{0, 0, {128, 0}, {128, 96}}, {1, 0, {0}, {0}}};
static const struct p2pa_tensor flat[] = {{"w", P2PA_F16, 1, {10}}};
static const struct p2pa_piece last[] = {{0, 1, {7}, {3}}};

static int pack(const char *name) {
    struct p2pa_bytes b = {NULL, 0, 0};
    struct p2pa_config c;
    memset(&c, 0, sizeof c);
    if (!strcmp(name, "hello")) {
        c.rank = 1, c.world = 2, c.set = "set-1", c.run = "my-run";
        p2pa_pack_hello(&b, 1, &c, "python 0.1");
    } else if (!strcmp(name, "hello-rank-0")) {
        c.set = "pid 71";
        p2pa_pack_hello(&b, 1, &c, NULL);
    } else if (!strcmp(name, "layout-boxes")) {
        c.tensors = boxes, c.count = 2, c.pieces = half, c.piece_count = 2;
        p2pa_pack_layout(&b, 2, &c);
    } else if (!strcmp(name, "layout-flat")) {
        c.tensors = flat, c.count = 1, c.pieces = last, c.piece_count = 1;
        p2pa_pack_layout(&b, 2, &c);
    } else if (!strcmp(name, "offer")) {
        struct p2pa_offer o = {500, 64000, 2000, 3.25, 0.5, 12.75};
        p2pa_pack_offer(&b, 8, &o);
    } else if (!strcmp(name, "done-evaluated")) {
        p2pa_pack_done(&b, 5, 0, NULL, 2.5);
    } else if (!strcmp(name, "done-unsupported")) {
        p2pa_pack_done(&b, 6, 1, NULL, 0);
    } else if (!strcmp(name, "done-failed")) {
        p2pa_pack_done(&b, 6, 2, "no space left", 0);
    } else if (!strcmp(name, "done")) {
        p2pa_pack_done(&b, 7, 0, NULL, 0);
    } else if (!strcmp(name, "at")) {
        p2pa_pack_at(&b, 9, 8, 12);
    } else if (!strcmp(name, "leave")) {
        p2pa_pack_leave(&b, 11, "the training loop has ended", 1);
    } else {
        fprintf(stderr, "no message %s\n", name);
        return 2;
    }
    int whole = fwrite(b.p, 1, b.n, stdout) == b.n;
    free(b.p);
    return whole ? 0 : 1;
}

/* Prints the numbers and texts of a message, tag by tag, as the client reads them. */
static int show(const char *file) {
    static unsigned char raw[1 << 16];
    FILE *f = fopen(file, "rb");
    size_t n = f ? fread(raw, 1, sizeof raw, f) : 0;
    struct p2pa_message m;
    uint32_t size;
    char text[1024];
    if (n < 16) return 1;
    fclose(f);
    memcpy(&size, raw, 4);
    memcpy(&m.type, raw + 4, 2);
    memcpy(&m.id, raw + 8, 8);
    if (size != n - 16 || !p2pa_parse(&m, raw + 16, size)) {
        printf("no message\n");
        return 0;
    }
    printf("%d %llu", m.type, (unsigned long long)m.id);
    for (int tag = 1; tag < 16; tag++) {
        if (!m.value[tag]) continue;
        uint64_t v = p2pa_get(&m, tag);
        p2pa_get_text(&m, tag, text, sizeof text);
        if (m.twice[tag]) printf(" %d:twice", tag);
        else if (m.bad) printf(" %d:%s", tag, text);
        else printf(" %d=%llu", tag, (unsigned long long)v);
        m.bad = 0;
    }
    printf("\n");
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    return strcmp(argv[1], "pack") ? show(argv[2]) : pack(argv[2]);
}
