/* What the tests run of p2pdiloco_attach.h:
 *
 *     client                         examples/c/attach.c
 *     client pack NAME...            packs the golden messages of these names, and prints them as hex
 *     client read FILE...            reads a message of each file, and prints what the client takes from it
 *     client refused                 what the client refuses itself
 *     client train TIMEOUT N [keep]  attaches N times, trains as it is told, and prints how that ended; keep: with a
 *                                    private state, the number of its steps, and a model of 2 MiB */
#define main example
#include "../../../examples/c/attach.c"
#undef main
#include <inttypes.h>

extern size_t __sanitizer_get_current_allocated_bytes(void);

/* A client whose node is the other end of a socket. */
static int between(struct p2pa *a) {
    int ends[2];
    memset(a, 0, sizeof *a);
    a->fds[0] = a->fds[1] = -1, a->pid = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(2);
    a->fd = ends[0];
    return ends[1];
}

static void send_golden(struct p2pa *a, int node, const char *name) {
    static const struct p2pa_tensor boxes[] = {{"wte", 0, 2, {256, 96}}, {"b", P2PA_BF16, 0, {0}}};
    static const struct p2pa_piece half[] = {{0, 0, {128, 0}, {128, 96}}, {1, 0, {0}, {0}}};
    static const struct p2pa_tensor flat = {"w", P2PA_F16, 1, {10}};
    static const struct p2pa_piece last = {0, 1, {7}, {3}};
    static const struct p2pa_offer offer = {500, 64000, 2000, 3.25, 0.5, 12.75};
    static const uint32_t go_on[] = {0, P2PA_GO, 9, 0};
    static unsigned char words[8];
    struct p2pa_config *c = &a->config;
    c->world = 1, c->set = "pid 71", a->train.id = 8, a->id = 6;
    if (!strcmp(name, "leave")) {
        a->last_id = 10, p2pa_leave(a, "the training loop has ended", 1);
        return;
    } else if (!strcmp(name, "at")) {
        a->maps[1] = words, a->train.steps = 500, a->train.look = 12, a->last_id = 8;
        if (write(node, go_on, sizeof go_on) < 0 || p2pa_step(a, 12) != P2PA_GO_ON) exit(2);
        a->maps[1] = NULL;
        return;
    } else if (!strcmp(name, "hello")) {
        c->rank = 1, c->world = 2, c->set = "set-1", c->run = "my-run", p2pa_pack_hello(a, "python 0.1");
    } else if (!strcmp(name, "hello-rank-0")) {
        p2pa_pack_hello(a, NULL);
    } else if (!strcmp(name, "layout-boxes")) {
        c->tensors = boxes, c->count = 2, c->pieces = half, a->piece_count = 2, a->last_id = 1, p2pa_pack_layout(a);
    } else if (!strcmp(name, "layout-flat")) {
        c->tensors = &flat, c->count = 1, c->pieces = &last, a->piece_count = 1, a->last_id = 1, p2pa_pack_layout(a);
    } else if (!strcmp(name, "offer")) {
        p2pa_pack_offer(a, &offer);
    } else if (!strcmp(name, "done")) {
        a->id = 7, p2pa_pack_done(a, 0, NULL, 0);
    } else if (!strcmp(name, "done-evaluated")) {
        a->id = 5, p2pa_pack_done(a, 0, NULL, 2.5);
    } else if (!strcmp(name, "done-unsupported")) {
        p2pa_pack_done(a, 1, NULL, 0);
    } else if (!strcmp(name, "done-failed")) {
        p2pa_pack_done(a, 2, "no space left", 0);
    } else {
        exit(2);
    }
    p2pa_send(a);
}

static void pack(const char *name) {
    unsigned char raw[1 << 12];
    struct p2pa a;
    int node = between(&a);
    send_golden(&a, node, name);
    p2pa_close(&a);
    printf("%s ", name);
    for (ssize_t i = 0, n = read(node, raw, sizeof raw); i < n; i++) printf("%02x", raw[i]);
    printf("\n");
    close(node);
}

/* Prints the type, the id, and each field as a number, or as a text if it is none; or what is wrong. */
static void read_message(const char *file) {
    unsigned char raw[1 << 12];
    char text[1024];
    struct p2pa a;
    int node = between(&a);
    size_t bytes;
    FILE *f = fopen(file, "rb");
    if (!f || write(node, raw, fread(raw, 1, sizeof raw, f)) < 0) exit(2);
    fclose(f);
    close(node);
    printf("%s ", strrchr(file, '/') + 1);
    if (p2pa_receive(&a) != P2PA_OK && a.type != P2PA_ERROR_MESSAGE) {
        printf("%s\n", a.error);
        p2pa_close(&a);
        return;
    }
    printf("%d %" PRIu64, a.type, a.id);
    for (uint16_t tag = 1; tag < 16; tag++) {
        if (!p2pa_find(&a, tag, &bytes)) continue;
        uint64_t number = p2pa_get(&a, tag);
        if (a.bad) p2pa_get_text(&a, tag, text, sizeof text);
        else snprintf(text, sizeof text, "%" PRIu64, number);
        printf(" %d%c%s", tag, a.bad ? ':' : '=', text);
        a.bad = 0;
    }
    printf("\n");
    p2pa_close(&a);
}

/* One of two ranks that says nothing that they have in common, and one that has a part of the model, and no function
 * that exports it. */
static int refused(void) {
    static const struct p2pa_tensor tensor = {"w", 0, 1, {4}};
    static const struct p2pa_piece half = {0, 1, {0}, {2}};
    struct p2pa_config c = {0};
    struct p2pa a;
    c.path = "/nowhere", c.params = params, c.timeout = 1e-9;
    for (c.world = 2; c.world; c.world--) {
        printf("%d %s\n", p2pa_attach(&a, &c), a.error);
        c.tensors = &tensor, c.count = 1, c.pieces = &half, c.piece_count = 1;
    }
    return 0;
}

static uint64_t steps; /* of all rounds: the private state */

static int save(struct p2pa *a, const char *path) {
    FILE *f = fopen(path, "w");
    (void)a;
    if (!f) return 1;
    fprintf(f, "%" PRIu64, steps);
    return fclose(f);
}

static int restore(struct p2pa *a, const char *folder, uint64_t world) {
    char path[4200];
    (void)a;
    snprintf(path, sizeof path, "%s/rank-0", folder);
    FILE *f = world == 1 ? fopen(path, "r") : NULL;
    int numbers = f ? fscanf(f, "%" SCNu64, &steps) : 0;
    if (f) fclose(f);
    return numbers != 1;
}

/* Attaches, and trains at most so many steps of a TRAIN, two by two. A step takes 1 from each parameter. It offers all
 * its steps as tokens, and as samples where the run is. */
static void train(struct p2pa_config c, uint64_t rows, uint64_t most) {
    const struct p2pa_tensor tensors[] = {{"w", 0, 2, {rows, 2}}, {"b", 0, 1, {4}}};
    const uint64_t elements = rows * 2 + 4;
    struct p2pa a;
    c.tensors = tensors, c.count = 2;
    c.params = (float *)calloc(elements, sizeof(float)); /* of the heap, where a byte beyond it is seen */
    int status = p2pa_attach(&a, &c);
    if (status == P2PA_OK) status = p2pa_border(&a, NULL);
    while (status == P2PA_OK) {
        struct p2pa_offer done = {0};
        const uint64_t all = a.train.steps < most ? a.train.steps : most;
        const size_t model = elements * sizeof(float), heap = __sanitizer_get_current_allocated_bytes();
        if (c.save && heap > model + (1 << 18)) exit(3); /* a copy of the model */
        while (done.steps < all) {
            uint64_t some = all - done.steps < 2 ? 1 : 2;
            for (uint64_t i = 0; i < elements; i++) c.params[i] -= (float)some;
            steps += some, done.steps += some;
            if (p2pa_step(&a, done.steps) != P2PA_GO_ON) break;
        }
        done.tokens = steps, done.samples = a.train.step;
        status = p2pa_border(&a, &done);
    }
    for (char *p = a.error; *p; p++)
        if (*p == '\n' || *p == '\r') *p = ' '; /* a line each */
    printf("%d %s\n", status, a.error);
    fflush(stdout);
    free(c.params);
}

static int open_files(void) {
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    struct p2pa_config c = {0};
    if (!*mode) return example();
    if (!strcmp(mode, "refused")) return refused();
    for (int i = 2; !strcmp(mode, "pack") && i < argc; i++) pack(argv[i]);
    for (int i = 2; !strcmp(mode, "read") && i < argc; i++) read_message(argv[i]);
    if (!strcmp(mode, "train") && argc > 3) {
        const int files = open_files();
        c.timeout = atof(argv[2]);
        if (argc > 4) c.save = save, c.restore = restore;
        /* a node that is no node may ask for any number of steps */
        for (int n = atoi(argv[3]); n > 0; n--) train(c, argc > 4 ? 1 << 18 : 3, argc > 4 ? UINT64_MAX : 3);
        return open_files() != files;
    }
    return 0;
}
