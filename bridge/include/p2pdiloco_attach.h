/* p2pdiloco_attach.h: a trainer in C or C++ works with the node of its machine, which is a process of its own
 * (docs/reference/attach.md). This header is the whole client: C11 and POSIX, no library, no Go. One thread may use a
 * struct p2pa at a time; in a child made by fork every call fails.
 *
 *     struct p2pa_config c = {.tensors = tensors, .count = 2, .params = params};   all of the model, in host memory
 *     struct p2pa a;
 *     if (p2pa_attach(&a, &c) != P2PA_OK) die(a.error);
 *     struct p2pa_offer done = {0};
 *     int more = p2pa_border(&a, NULL);                     loads the run's model; a.train says what to do
 *     while (more == P2PA_OK) {
 *         for (done.steps = 0; done.steps < a.train.steps;) {
 *             one_inner_step(params);
 *             if (p2pa_step(&a, ++done.steps) != P2PA_GO_ON) break;
 *         }
 *         done.tokens = ...;
 *         more = p2pa_border(&a, &done);                    contributes, waits, loads
 *     }
 *     if (more != P2PA_ENDED) die(a.error);                 else params are the run's last model
 *     p2pa_leave(&a, "done", 0);
 *
 * Where the model is in a device's memory, or this rank holds a part of it, give load and export (and pieces). */
#ifndef P2PDILOCO_ATTACH_H
#define P2PDILOCO_ATTACH_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the attach protocol needs a machine of little-endian byte order"
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS has SO_NOSIGPIPE, which p2pa_attach sets */
#endif

#define P2PA_VERSION (UINT64_C(1) << 16)
#define P2PA_MAX_BODY (64u << 20)
#define P2PA_DIMS 8 /* of a tensor at most */
#ifndef P2PA_QUIET
#define P2PA_QUIET 30 /* seconds without a sign of life of the node, until that is said */
#endif

enum { P2PA_OK = 0, P2PA_ENDED = 1, P2PA_ERROR = 2, P2PA_GONE = 3 }; /* GONE: attach again, when the node is back */
enum { P2PA_GO_ON = 0, P2PA_GIVE_UP = 1 };
enum { P2PA_F32 = 1, P2PA_BF16 = 2, P2PA_F16 = 3 };
/* Codes of what a node says last: p2pa.code. */
enum { P2PA_BUSY = 4, P2PA_MEMORY = 7, P2PA_LOST, P2PA_NOT_FINITE, P2PA_TIMEOUT, P2PA_RUN_ENDED, P2PA_CLOSED };
/* Types of messages. */
enum {
    P2PA_HELLO = 1, P2PA_WELCOME, P2PA_LAYOUT, P2PA_SHARE, P2PA_INFO,
    P2PA_FILL = 16, P2PA_LOAD, P2PA_EXPORT, P2PA_EVALUATE, P2PA_RESTORE = 21, P2PA_TRAIN, P2PA_DONE, P2PA_OFFER,
    P2PA_AT, P2PA_GO, P2PA_NOTICE = 32, P2PA_LEAVE = 35, P2PA_ERROR_MESSAGE
};

struct p2pa_tensor { /* of the run's layout: its global shape, whatever part of it a rank holds */
    const char *name;
    uint32_t dtype, dims; /* dtype 0 is P2PA_F32 */
    uint64_t shape[P2PA_DIMS];
};

struct p2pa_piece { /* a part of a tensor */
    uint64_t tensor, flat; /* flat: elements offset[0] to offset[0] + extent[0], in row-major order; else a box */
    uint64_t offset[P2PA_DIMS], extent[P2PA_DIMS];
};

struct p2pa;
struct p2pa_config {
    const char *path; /* of the socket; NULL: P2PDILOCO_ATTACH in the environment */
    const char *run, *set; /* set: NULL is "pid N", for world 1 */
    uint64_t rank, world;  /* world 0 is 1 */
    /* Seconds to wait for a node, and for one that is busy; 0 is 60. If it is given, it counts also for one that is
     * stopped or hangs, and then is P2PA_QUIET at least; else that is said, and waited for. */
    double timeout;
    const struct p2pa_tensor *tensors;
    size_t count;
    const struct p2pa_piece *pieces; /* NULL: every tensor whole */
    size_t piece_count;
    float *params; /* the model, D elements; NULL: load and export are given */
    void *user;
    void (*fill)(struct p2pa *); /* write the initial parameters to local; NULL: they are exported */
    /* Replace the live parameters of [begin, end) of the flat vector by start's. */
    void (*load)(struct p2pa *, uint64_t begin, uint64_t end);
    /* Write [begin, end) to local, of pieces with a 1 in writes: start - live (gradient), or the live parameters. */
    void (*export_range)(struct p2pa *, uint64_t begin, uint64_t end, int gradient);
    int (*evaluate)(struct p2pa *, double *loss); /* 0 is done; NULL: there is no held-out batch */
    /* Private state, as the inner optimizer's, to a new file, synced; 0 is done. It is called in p2pa_border, when a
     * round begins, and in mode sync, if it is quick, when a round is offered, whose slot may be agreed before the next
     * one begins; state that is not finite is not to be saved. NULL: none */
    int (*save)(struct p2pa *, const char *path);
    /* Take back what world ranks have saved in a folder, as the round has begun with it; 0 is done. */
    int (*restore)(struct p2pa *, const char *folder, uint64_t world);
    void (*notice)(struct p2pa *, int warning, const char *text); /* NULL: rank 0 prints to stderr */
};

struct p2pa_offer {
    uint64_t steps, tokens, samples;
    double loss, grad_norm, seconds;
};

struct p2pa_train {
    uint64_t id, slot, steps, look, export_kind, seed, member, members, part, part_steps, part_done, delay;
    /* Where the run is when the steps begin, in inner steps of its time, and where it ends: a learning rate that goes
     * by them is the same for late joiners, and after a crash. A node of an older release says 0 for both. */
    uint64_t step, total_steps;
};

struct p2pa_bytes { unsigned char *p; size_t n, cap; };

struct p2pa {
    struct p2pa_config config;
    struct p2pa_train train;
    uint64_t elements, epoch, inner_steps, last_slot, code; /* code: of the node's last word; 0: none */
    const float *start; /* D elements, read-only */
    float *local;
    unsigned char *writes; /* of each piece: whether this rank exports it */
    char *member_ids; /* of the TRAIN: those of the run's members, a line each */
    char run_id[80], mode[32], data_dir[1024], error[1024];
    /* From here on the client's own. failed: how a step's question has failed, which the next border returns. */
    int fd, fds[2], trains, failed;
    pid_t pid;
    uint64_t last_id, node_pid, beat;
    double quiet; /* seconds without a sign of life */
    int met, told; /* met: there was a WELCOME; told: people know that it is quiet */
    size_t size, piece_count;
    unsigned char *maps[2]; /* start and local, with the words before them */
    struct p2pa_bytes in, out; /* the body of the message that was received last, and the message to be sent */
    uint64_t id;   /* of the message that was received */
    int type, bad; /* bad: a field is torn, of another size than it has, or there twice */
    char kept[4096]; /* folder of the private state of this round's beginning; empty: none, or it took long */
};

/* ---- Messages (docs/reference/attach.md, sections 2 and 3), and the socket. ---- */

static inline int p2pa_fail(struct p2pa *a, int status, const char *text) {
    snprintf(a->error, sizeof a->error, "%s", text);
    return status;
}

/* Appends bytes. NULL makes room alone, and 1 says that there is none. */
static inline int p2pa_put(struct p2pa_bytes *b, const void *p, size_t n) {
    if (b->n + n > b->cap) {
        unsigned char *more = (unsigned char *)realloc(b->p, 2 * (b->n + n));
        if (!more && !p) return 1;
        if (!more) abort();
        b->p = more, b->cap = 2 * (b->n + n);
    }
    if (p && n) memcpy(b->p + b->n, p, n), b->n += n;
    return 0;
}

struct p2pa_field { uint32_t tag; int text; const void *value; }; /* to be sent: a u64 or double, or a text */

/* Begins the message to be sent with count fields, but for those that are 0 or empty. */
static inline void p2pa_pack(struct p2pa *a, uint32_t type, uint64_t id, const struct p2pa_field *f, size_t count) {
    const uint32_t head[] = {0, type, (uint32_t)id, (uint32_t)(id >> 32)}; /* p2pa_send knows its size */
    a->out.n = 0;
    p2pa_put(&a->out, head, sizeof head);
    for (; count; f++, count--) {
        uint64_t some = f->text && f->value ? strlen((const char *)f->value) : 0;
        const uint32_t field[] = {f->tag, f->text ? (uint32_t)some : 8};
        if (!f->text) memcpy(&some, f->value, 8);
        if (!some) continue;
        p2pa_put(&a->out, field, sizeof field);
        p2pa_put(&a->out, f->value, field[1]);
    }
}

/* The value of a field of the message that was received; NULL: there is none. */
static inline const unsigned char *p2pa_find(struct p2pa *a, uint16_t tag, size_t *bytes) {
    const unsigned char *found = NULL, *p = a->in.p;
    uint32_t head[2];
    *bytes = 0;
    for (size_t left = a->in.n; left; left -= 8 + head[1], p += 8 + head[1]) {
        if (left >= 8) memcpy(head, p, 8);
        if (left < 8 || head[1] > left - 8) {
            a->bad = 1;
            return NULL;
        }
        if ((uint16_t)head[0] != tag) continue;
        if (found) a->bad = 1;
        found = p + 8, *bytes = head[1];
    }
    return found;
}

static inline uint64_t p2pa_get(struct p2pa *a, uint16_t tag) {
    uint64_t v = 0;
    size_t n;
    const unsigned char *p = p2pa_find(a, tag, &n);
    if (p && n == 8) memcpy(&v, p, 8);
    else if (p) a->bad = 1;
    return v;
}

static inline void p2pa_get_text(struct p2pa *a, uint16_t tag, char *out, size_t room) {
    size_t n;
    const unsigned char *p = p2pa_find(a, tag, &n);
    snprintf(out, room, "%.*s", n < room ? (int)n : (int)room - 1, p ? (const char *)p : "");
}

static inline int p2pa_here(struct p2pa *a) {
    if (a->pid != getpid())
        return p2pa_fail(a, P2PA_ERROR, "this process is a child of the one that attached: attach in it anew");
    return a->fd < 0 ? p2pa_fail(a, P2PA_ERROR, "this rank is not attached to a node") : P2PA_OK;
}

/* Takes in that nothing came for half a second. What the node does for a slot may take hours: after SHARE its beat
 * counts. Before, it waits for the other ranks, and nothing shows whether it lives. */
static inline int p2pa_silent(struct p2pa *a) {
    const double limit = a->config.timeout > 0 ? a->config.timeout : a->met ? 0 : 60;
    const unsigned long long pid = a->node_pid, rank = a->config.rank, world = a->config.world;
    char text[1024];
    if (a->start && memcmp(&a->beat, a->maps[0], 8)) a->quiet = 0, a->told = 0;
    if (a->start) memcpy(&a->beat, a->maps[0], 8);
    if ((a->quiet += 0.5) < P2PA_QUIET) return P2PA_OK;
    if (!a->met)
        snprintf(text, sizeof text, "the node of this machine has not answered for %.0f s: it is stopped or hangs: see "
                 "p2pdiloco status", a->quiet);
    else if (!a->start)
        snprintf(text, sizeof text, "rank %llu of %llu has waited %.0f s: other ranks have not attached, the node "
                 "makes the memory, or the node (pid %llu) is stopped or hangs: p2pdiloco status --data-dir %.600s "
                 "says which", rank, world, a->quiet, pid, a->data_dir);
    else
        snprintf(text, sizeof text, "the node of this machine (pid %llu) has shown no sign of life for %.0f s: it is "
                 "stopped or hangs: see p2pdiloco status --data-dir %.600s, and end it with kill -9 if it does not go "
                 "on", pid, a->quiet, a->data_dir);
    if (limit > 0 && a->quiet >= limit && (a->start || !a->met)) return p2pa_fail(a, P2PA_GONE, text);
    if (!a->told && a->config.notice) a->config.notice(a, 1, text);
    else if (!a->told) fprintf(stderr, "p2pdiloco: %s\n", text);
    a->told = 1;
    return P2PA_OK;
}

static inline int p2pa_read(struct p2pa *a, void *to, size_t n) {
    for (unsigned char *p = (unsigned char *)to; n;) {
        struct pollfd ready = {a->fd, POLLIN, 0};
        int some = poll(&ready, 1, 500), s = some == 0 ? p2pa_silent(a) : P2PA_OK;
        if (s) return s;
        if (some == 0 || (some < 0 && errno == EINTR)) continue;
        a->quiet = 0, a->told = 0;
        union { struct cmsghdr align; char room[CMSG_SPACE(2 * sizeof(int))]; } control;
        struct iovec v = {p, n};
        struct msghdr h;
        memset(&h, 0, sizeof h);
        h.msg_iov = &v, h.msg_iovlen = 1;
        h.msg_control = control.room, h.msg_controllen = sizeof control.room;
        ssize_t got = recvmsg(a->fd, &h, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return p2pa_fail(a, P2PA_GONE, "the node of this machine is gone: attach again when it is back");
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) { /* at most two descriptors fit */
            if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
            for (int i = 0; i < 2; i++)
                if (a->fds[i] >= 0) close(a->fds[i]);
            a->fds[0] = a->fds[1] = -1;
            memcpy(a->fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
            for (int i = 0; i < 2 && a->fds[i] >= 0; i++) fcntl(a->fds[i], F_SETFD, FD_CLOEXEC);
        }
        p += got, n -= (size_t)got;
    }
    return P2PA_OK;
}

/* The next message. What ERROR, NOTICE and INFO say is taken in. */
static inline int p2pa_receive(struct p2pa *a) {
    uint32_t head[4]; /* size, type, id */
    char text[1024];
    size_t none;
    int s = p2pa_read(a, head, sizeof head);
    if (s) return s;
    if (head[0] > P2PA_MAX_BODY) return p2pa_fail(a, P2PA_ERROR, "the node sent a message of more than 64 MiB");
    a->in.n = 0;
    if (p2pa_put(&a->in, NULL, head[0])) return p2pa_fail(a, P2PA_ERROR, "out of memory");
    if ((s = p2pa_read(a, a->in.p, head[0]))) return s;
    a->type = head[1] & 0xffff, a->id = head[2] | (uint64_t)head[3] << 32;
    a->in.n = head[0], a->bad = 0;
    p2pa_find(a, 0, &none);
    if (a->type == P2PA_ERROR_MESSAGE && !a->bad) {
        a->code = p2pa_get(a, 1);
        p2pa_get_text(a, 2, a->error, sizeof a->error);
        if (!a->error[0]) p2pa_fail(a, 0, "the node gave no reason");
        return a->code == P2PA_RUN_ENDED ? P2PA_ENDED : P2PA_ERROR;
    } else if (a->type == P2PA_NOTICE) {
        p2pa_get_text(a, 2, text, sizeof text);
        if (a->config.notice) a->config.notice(a, p2pa_get(a, 1) > 0, text);
        else if (a->config.rank == 0 || !a->start) fprintf(stderr, "p2pdiloco: %s\n", text);
        if (!a->start) a->told = 1; /* it has said for whom it waits: silence until SHARE is no news */
    } else if (a->type == P2PA_INFO) {
        p2pa_get_text(a, 1, a->run_id, sizeof a->run_id);
        p2pa_get_text(a, 3, a->mode, sizeof a->mode);
        a->inner_steps = p2pa_get(a, 4), a->last_slot = p2pa_get(a, 5);
    }
    return a->bad ? p2pa_fail(a, P2PA_ERROR, "the node sent bytes that are no message") : P2PA_OK;
}

/* Sends the message that was packed. */
static inline int p2pa_send(struct p2pa *a) {
    const uint32_t size = (uint32_t)(a->out.n - 16);
    memcpy(a->out.p, &size, 4);
    for (size_t at = 0; at < a->out.n;) {
        ssize_t n = send(a->fd, a->out.p + at, a->out.n - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) { /* the node's last word may lie in the socket */
            int s;
            while ((s = p2pa_receive(a)) == P2PA_OK) {}
            return s;
        }
        at += (size_t)n;
    }
    return P2PA_OK;
}

/* Sends the message that was packed, and waits for its answer. */
static inline int p2pa_ask(struct p2pa *a, int type) {
    int s = p2pa_send(a);
    while (s == P2PA_OK && (s = p2pa_receive(a)) == P2PA_OK && (a->type != type || a->id != a->last_id)) {}
    return s;
}

/* Closes the socket and unmaps the memory. */
static inline void p2pa_close(struct p2pa *a) {
    for (int i = 0; i < 2; i++) {
        if (a->fds[i] >= 0) close(a->fds[i]);
        if (a->maps[i]) munmap(a->maps[i], a->size);
        a->fds[i] = -1, a->maps[i] = NULL;
    }
    if (a->fd >= 0) close(a->fd);
    free(a->writes), free(a->member_ids), free(a->in.p), free(a->out.p);
    a->fd = -1, a->trains = 0, a->in.cap = a->out.cap = 0;
    a->writes = a->in.p = a->out.p = NULL, a->member_ids = NULL, a->start = NULL, a->local = NULL;
}

static inline void p2pa_pack_hello(struct p2pa *a, const char *client) {
    const struct p2pa_config *c = &a->config;
    const uint64_t version = P2PA_VERSION, saves = c->save ? 1 : 0;
    char pid[32];
    snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
    const struct p2pa_field f[] = {{1, 0, &version}, {2, 0, &c->rank}, {3, 0, &c->world},
                                   {4, 1, c->set ? c->set : pid}, {5, 1, c->run}, {6, 1, client}, {10, 0, &saves}};
    p2pa_pack(a, P2PA_HELLO, ++a->last_id, f, sizeof f / sizeof *f);
}

static inline void p2pa_pack_layout(struct p2pa *a) {
    const struct p2pa_config *c = &a->config;
    p2pa_pack(a, P2PA_LAYOUT, ++a->last_id, NULL, 0);
    for (size_t i = 0; i < c->count; i++) {
        const struct p2pa_tensor *t = &c->tensors[i];
        const size_t name = strlen(t->name), shape = 8 * t->dims;
        const uint32_t head[] = {1, (uint32_t)(8 + shape + name), t->dtype ? t->dtype : (uint32_t)P2PA_F32, t->dims};
        p2pa_put(&a->out, head, sizeof head);
        p2pa_put(&a->out, t->shape, shape);
        p2pa_put(&a->out, t->name, name);
    }
    for (size_t i = 0; i < a->piece_count; i++) {
        const struct p2pa_piece *p = c->pieces ? &c->pieces[i] : NULL; /* NULL: all of tensor i */
        const struct p2pa_tensor *t = &c->tensors[p ? p->tensor : i];
        const size_t n = 8 * (p && p->flat ? 1 : t->dims);
        const uint64_t none[P2PA_DIMS] = {0}, tensor = p ? p->tensor : i, flat = p && p->flat;
        const uint64_t head[] = {2 | (uint64_t)(16 + 2 * n) << 32, tensor, flat};
        p2pa_put(&a->out, head, sizeof head);
        p2pa_put(&a->out, p ? p->offset : none, n);
        p2pa_put(&a->out, p ? p->extent : t->shape, n);
    }
}

static inline uint64_t p2pa_volume(const struct p2pa_tensor *t) {
    uint64_t n = 1;
    for (uint32_t d = 0; d < t->dims; d++) n *= t->shape[d];
    return n;
}

static inline int p2pa_map(struct p2pa *a) {
    uint64_t offset = p2pa_get(a, 2), size = p2pa_get(a, 3), want = 0;
    size_t pieces;
    const unsigned char *writes = p2pa_find(a, 5, &pieces);
    a->elements = p2pa_get(a, 1), a->epoch = p2pa_get(a, 4);
    for (size_t i = 0; i < a->config.count; i++) want += p2pa_volume(&a->config.tensors[i]);
    int fits = !a->bad && writes && pieces == a->piece_count && size <= SIZE_MAX / 2 && offset <= size &&
        offset % 8 == 0 && offset / 64 > a->config.rank && a->elements == want && want <= (size - offset) / 4;
    for (int i = 0; i < 2; i++) { /* to touch what lies beyond a file's end is a SIGBUS */
        struct stat file;
        fits = fits && !fstat(a->fds[i], &file) && (uint64_t)file.st_size >= size;
    }
    if (!fits) return p2pa_fail(a, P2PA_ERROR, "the node shares memory that does not fit this layout");
    a->size = (size_t)size;
    if (!(a->writes = (unsigned char *)malloc(pieces + 1))) return p2pa_fail(a, P2PA_ERROR, "out of memory");
    memcpy(a->writes, writes, pieces);
    for (int i = 0; i < 2; i++) { /* start, and local */
        void *at = mmap(NULL, a->size, i ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, a->fds[i], 0);
        if (at == MAP_FAILED) return p2pa_fail(a, P2PA_ERROR, "the node's memory cannot be mapped");
        a->maps[i] = (unsigned char *)at;
    }
    a->start = (const float *)(a->maps[0] + offset);
    a->local = (float *)(a->maps[1] + offset);
    return P2PA_OK;
}

static inline int p2pa_connect(struct p2pa *a, const char *path) {
    struct sockaddr_un to;
    memset(&to, 0, sizeof to);
    to.sun_family = AF_UNIX;
    if ((size_t)snprintf(to.sun_path, sizeof to.sun_path, "%s", path) >= sizeof to.sun_path)
        return p2pa_fail(a, P2PA_ERROR, "the path of the node's socket is too long");
    if ((a->fd = socket(AF_UNIX, SOCK_STREAM, 0)) < 0) return p2pa_fail(a, P2PA_ERROR, strerror(errno));
    fcntl(a->fd, F_SETFD, FD_CLOEXEC);
#ifdef SO_NOSIGPIPE
    int on = 1;
    setsockopt(a->fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    if (!connect(a->fd, (struct sockaddr *)&to, sizeof to)) return P2PA_OK;
    snprintf(a->error, sizeof a->error, "no node listens at %s (%s): start one with p2pdiloco join --run RUN -- "
             "COMMAND", path, strerror(errno));
    return P2PA_GONE;
}

static inline int p2pa_greet(struct p2pa *a) {
    p2pa_pack_hello(a, "C 1.0");
    int s = p2pa_ask(a, P2PA_WELCOME);
    if (s) return s;
    p2pa_get_text(a, 3, a->data_dir, sizeof a->data_dir);
    a->node_pid = p2pa_get(a, 4), a->met = 1;
    if (p2pa_get(a, 1) >> 16 != P2PA_VERSION >> 16)
        return p2pa_fail(a, P2PA_ERROR, "this client and the node speak different versions of the attach protocol: "
                                        "install the same release of both");
    p2pa_pack_layout(a);
    return (s = p2pa_ask(a, P2PA_SHARE)) ? s : p2pa_map(a);
}

/* Attaches to a node. Where none listens, or another trainer has it, it tries again for config.timeout. After
 * P2PA_GONE, and after a code of P2PA_NOT_FINITE, call it again with another set: the next border loads the anchor. */
static inline int p2pa_attach(struct p2pa *a, const struct p2pa_config *c) {
    const char *path = c->path ? c->path : getenv("P2PDILOCO_ATTACH");
    const struct timespec nap = {0, 200000000};
    memset(a, 0, sizeof *a);
    a->config = *c;
    if (!c->world) a->config.world = 1;
    a->fd = a->fds[0] = a->fds[1] = -1, a->pid = getpid();
    a->piece_count = c->pieces ? c->piece_count : c->count;
    const char *wrong =
        !path || !*path ?
            "no socket is named: run this with p2pdiloco join --run RUN -- COMMAND, or set P2PDILOCO_ATTACH" :
        c->world > 1 && !c->set ?
            "several ranks, and no set: give all of them the same text, and another one at every start" :
        !c->params && (!c->load || !c->export_range) ? "give params, or load and export_range" :
        c->pieces && !c->export_range ? "pieces are given, and no export_range: give it, because only it knows where "
                                        "they lie; without it all of params is written" : NULL;
    if (wrong) return p2pa_fail(a, P2PA_ERROR, wrong);
    for (double waited = 0, limit = c->timeout > 0 ? c->timeout : 60;; nanosleep(&nap, NULL)) {
        a->met = a->told = 0, a->quiet = 0, a->code = 0;
        int s = p2pa_connect(a, path);
        if (s == P2PA_OK && (s = p2pa_greet(a)) == P2PA_OK) return s;
        p2pa_close(a);
        waited += 0.2 + a->quiet;
        if ((s != P2PA_GONE && a->code != P2PA_BUSY) || waited > limit) return s;
    }
}

/* ---- Training. ---- */

static inline void p2pa_export(struct p2pa *a, uint64_t begin, uint64_t end, int gradient) {
    const struct p2pa_config *c = &a->config;
    uint64_t first = 0, last;
    if (c->export_range) c->export_range(a, begin, end, gradient);
    for (size_t k = 0; !c->export_range && k < c->count; k++, first = last) { /* piece k is tensor k, whole */
        last = first + p2pa_volume(&c->tensors[k]);
        for (uint64_t i = first > begin ? first : begin; a->writes[k] && i < last && i < end; i++) {
            float live = c->params[i];
            a->local[i] = gradient ? a->start[i] - live : live;
        }
    }
}

static inline void p2pa_pack_done(struct p2pa *a, uint64_t status, const char *text, double loss) {
    const struct p2pa_field f[] = {{1, 0, &status}, {2, 1, text}, {3, 0, &loss}};
    p2pa_pack(a, P2PA_DONE, a->id, f, 3);
}

/* Does what the node asks for, and says how that went: 0 done, 1 unsupported, 2 failed. */
static inline int p2pa_answer(struct p2pa *a) {
    const struct p2pa_config *c = &a->config;
    uint64_t begin = 0, end = p2pa_get(a, 2), status = 0;
    double loss = 0;
    char folder[4096];
    if (a->type == P2PA_FILL) {
        if (c->fill) c->fill(a);
        else p2pa_export(a, 0, a->elements, 0);
    } else if (a->type == P2PA_LOAD || a->type == P2PA_EXPORT) {
        begin = p2pa_get(a, 1);
        if (a->bad || begin > end || end > a->elements)
            return p2pa_fail(a, P2PA_ERROR, "the node asks for a range that is not there");
        if (a->type == P2PA_EXPORT) p2pa_export(a, begin, end, p2pa_get(a, 3) == 1);
        else if (c->load) c->load(a, begin, end);
        else memcpy(c->params + begin, a->start + begin, sizeof(float) * (size_t)(end - begin));
    } else if (a->type == P2PA_EVALUATE) {
        status = !c->evaluate ? 1 : c->evaluate(a, &loss) ? 2 : 0;
    } else if (a->type == P2PA_RESTORE) { /* without a folder what was taken back is left out */
        p2pa_get_text(a, 1, folder, sizeof folder);
        status = !c->restore ? 1 : folder[0] && c->restore(a, folder, end) ? 2 : 0;
    } else {
        return P2PA_OK; /* NOTICE, INFO, or a type of another version */
    }
    p2pa_pack_done(a, status, status == 2 ? "the trainer's function has failed" : NULL, loss);
    return p2pa_send(a);
}

/* Saves the private state in a folder, 0 is done. The file is there when it is whole, and empty if there is none. */
static inline int p2pa_keep(struct p2pa *a, const char *folder) {
    char path[4200], made[4210];
    snprintf(path, sizeof path, "%s/rank-%llu", folder, (unsigned long long)a->config.rank);
    snprintf(made, sizeof made, "%s.new", path);
    if (a->config.save && !a->config.save(a, made) && !rename(made, path)) return 0;
    unlink(made);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0) close(fd);
    return 1;
}

/* Takes in what is to be trained, and saves the private state of the round's beginning. */
static inline int p2pa_take_train(struct p2pa *a) {
    const struct p2pa_train t = {
        a->id, p2pa_get(a, 1), p2pa_get(a, 2), p2pa_get(a, 3), p2pa_get(a, 4), p2pa_get(a, 5), p2pa_get(a, 6),
        p2pa_get(a, 7), p2pa_get(a, 8), p2pa_get(a, 9), p2pa_get(a, 10), p2pa_get(a, 11),
        p2pa_get(a, 14), p2pa_get(a, 15),
    };
    const time_t began = time(NULL);
    size_t ids;
    p2pa_find(a, 12, &ids);
    p2pa_get_text(a, 13, a->kept, sizeof a->kept);
    if (a->bad) return p2pa_fail(a, P2PA_ERROR, "the node sent a TRAIN that cannot be read");
    free(a->member_ids);
    if (!(a->member_ids = (char *)malloc(ids + 1))) return p2pa_fail(a, P2PA_ERROR, "out of memory");
    p2pa_get_text(a, 12, a->member_ids, ids + 1);
    a->train = t, a->trains = 1;
    if (a->kept[0] && (p2pa_keep(a, a->kept) || time(NULL) - began > 1 || strcmp(a->mode, "sync"))) a->kept[0] = 0;
    return P2PA_OK;
}

static inline void p2pa_pack_offer(struct p2pa *a, const struct p2pa_offer *o) {
    const struct p2pa_field f[] = {{1, 0, &o->steps}, {2, 0, &o->tokens},    {3, 0, &o->samples},
                                   {4, 0, &o->loss},  {5, 0, &o->grad_norm}, {6, 0, &o->seconds}};
    p2pa_pack(a, P2PA_OFFER, a->train.id, f, 6);
}

/* Offers what was trained since the last border (NULL at first), and does what the node asks for until it asks for
 * inner steps: a->train. P2PA_ENDED is the run's end: the model is its last one. */
static inline int p2pa_border(struct p2pa *a, const struct p2pa_offer *offer) {
    char next[4110];
    int s = p2pa_here(a) ? P2PA_ERROR : a->failed;
    if (s == P2PA_OK && offer && a->trains) {
        if (a->train.export_kind == 1) p2pa_export(a, 0, a->elements, 1);
        snprintf(next, sizeof next, "%s/next", a->kept);
        if (a->kept[0] && (!mkdir(next, 0700) || errno == EEXIST)) p2pa_keep(a, next);
        a->trains = 0;
        p2pa_pack_offer(a, offer);
        s = p2pa_send(a);
    }
    while (s == P2PA_OK && (s = p2pa_receive(a)) == P2PA_OK) {
        if (a->type != P2PA_TRAIN) s = p2pa_answer(a);
        else if ((s = p2pa_take_train(a)) == P2PA_OK) return s;
    }
    if (a->pid == getpid()) p2pa_close(a);
    return s;
}

/* Says that so many steps of the TRAIN are done, and asks the node whether to go on where it wants to be asked. If
 * not P2PA_GO_ON, call p2pa_border with these steps; a failure is returned there. */
static inline int p2pa_step(struct p2pa *a, uint64_t steps) {
    if (p2pa_here(a) || a->failed) return P2PA_GIVE_UP;
    memcpy(a->maps[1] + 64 * a->config.rank, &steps, 8);
    if (steps >= a->train.steps) return P2PA_GO_ON;
    while (a->train.look && a->train.look <= steps) { /* at each look, also where steps are counted in leaps */
        const struct p2pa_field f[] = {{1, 0, &a->train.id}, {2, 0, &a->train.look}};
        p2pa_pack(a, P2PA_AT, ++a->last_id, f, 2);
        if ((a->failed = p2pa_ask(a, P2PA_GO))) return P2PA_GIVE_UP;
        a->train.look = p2pa_get(a, 2);
        if (p2pa_get(a, 1) == 0) continue;
        a->train.export_kind = 0; /* after "give up" nothing is exported */
        return P2PA_GIVE_UP;
    }
    return P2PA_GO_ON;
}

/* Says goodbye and closes. run: the peer leaves the run, too. */
static inline void p2pa_leave(struct p2pa *a, const char *reason, int run) {
    const uint64_t peer = run ? 1 : 0;
    const struct p2pa_field f[] = {{1, 1, reason}, {2, 0, &peer}};
    if (p2pa_here(a) == P2PA_OK) p2pa_pack(a, P2PA_LEAVE, ++a->last_id, f, 2), p2pa_send(a);
    if (a->pid == getpid()) p2pa_close(a);
}

#endif
