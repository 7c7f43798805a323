/* p2pdiloco_attach.h: a trainer in C or C++ works with the node of its machine, which is a process of its own
 * (docs/attach.md). This header is the whole client: C11 and POSIX, no library, no Go. One thread may use a
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
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the attach protocol needs a machine of little-endian byte order"
#endif
#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS has SO_NOSIGPIPE, which p2pa_attach sets */
#endif
#ifndef MSG_CMSG_CLOEXEC
#define MSG_CMSG_CLOEXEC 0
#endif
#if defined(__GNUC__)
#define P2PA_FN static __attribute__((unused))
#else
#define P2PA_FN static
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
enum { P2PA_BUSY = 4, P2PA_MEMORY = 7, P2PA_LOST = 8, P2PA_NOT_FINITE = 9, P2PA_TIMEOUT = 10, P2PA_RUN_ENDED = 11, P2PA_CLOSED = 12 };
/* Types of messages. */
enum {
    P2PA_HELLO = 1, P2PA_WELCOME, P2PA_LAYOUT, P2PA_SHARE, P2PA_INFO,
    P2PA_FILL = 16, P2PA_LOAD, P2PA_EXPORT, P2PA_EVALUATE, P2PA_SAVE, P2PA_RESTORE, P2PA_TRAIN, P2PA_DONE, P2PA_OFFER,
    P2PA_AT, P2PA_GO, P2PA_CANCEL, P2PA_NOTICE = 32, P2PA_PING, P2PA_PONG, P2PA_LEAVE, P2PA_ERROR_MESSAGE
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
    const char *run, *set;     /* set: NULL is "pid N", for world 1 */
    uint64_t rank, world;      /* world 0 is 1 */
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
    int (*evaluate)(struct p2pa *, double *loss);               /* 0 is done; NULL: there is no held-out batch */
    /* Private state, as the inner optimizer's, to a new file, synced; 0 is done. It is called in p2pa_border, when a
     * round begins, and in mode sync, if it is quick, when a round is offered, whose slot may be agreed before the next
     * one begins; state that is not finite is not to be saved. NULL: none */
    int (*save)(struct p2pa *, const char *path);
    /* Take back what world ranks have saved in a folder, as the round has begun with it; 0 is done. */
    int (*restore)(struct p2pa *, const char *folder, uint64_t world);
    /* Before the memory is unmapped: local lies behind start, so that one call page-locks both (2 size bytes). */
    void (*unmap)(struct p2pa *);
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

struct p2pa {
    struct p2pa_config config;
    struct p2pa_train train;
    uint64_t elements, epoch, inner_steps, last_slot, code; /* code: of the node's last word; 0: none */
    const float *start; /* D elements, read-only */
    float *local;
    unsigned char *writes; /* of each piece: whether this rank exports it */
    char *member_ids; /* of the TRAIN: those of the run's members, a line each */
    char run_id[80], mode[32], data_dir[1024], error[1024];
    int fd, fds[2], trains;
    int failed; /* how a step's question has failed; the next border returns it */
    pid_t pid;
    uint64_t last_id, node_pid, beat;
    double quiet; /* seconds without a sign of life */
    int met, told; /* met: there was a WELCOME; told: people know that it is quiet */
    size_t size, piece_count;
    unsigned char *map_start, *map_local, *body;
    size_t body_cap;
    char kept[4096]; /* folder of the private state of this round's beginning; empty: none, or it took long */
};

/* ---- Bytes. ---- */

struct p2pa_bytes { unsigned char *p; size_t n, cap; };

P2PA_FN void p2pa_put(struct p2pa_bytes *b, const void *p, size_t n) {
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        b->p = (unsigned char *)realloc(b->p, b->cap);
        if (!b->p) abort();
    }
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
}

P2PA_FN void p2pa_put16(struct p2pa_bytes *b, uint16_t v) { p2pa_put(b, &v, 2); }
P2PA_FN void p2pa_put32(struct p2pa_bytes *b, uint32_t v) { p2pa_put(b, &v, 4); }
P2PA_FN void p2pa_put64(struct p2pa_bytes *b, uint64_t v) { p2pa_put(b, &v, 8); }

P2PA_FN void p2pa_head(struct p2pa_bytes *b, uint16_t type, uint64_t id) {
    b->n = 0;
    p2pa_put32(b, 0); /* bytes of the body: p2pa_seal */
    p2pa_put16(b, type);
    p2pa_put16(b, 0);
    p2pa_put64(b, id);
}

P2PA_FN void p2pa_seal(struct p2pa_bytes *b) {
    uint32_t n = (uint32_t)(b->n - 16);
    memcpy(b->p, &n, 4);
}

P2PA_FN void p2pa_field(struct p2pa_bytes *b, uint16_t tag, const void *p, size_t n) {
    p2pa_put16(b, tag);
    p2pa_put16(b, 0);
    p2pa_put32(b, (uint32_t)n);
    p2pa_put(b, p, n);
}

P2PA_FN void p2pa_u64(struct p2pa_bytes *b, uint16_t tag, uint64_t v) {
    if (v) p2pa_field(b, tag, &v, 8);
}

P2PA_FN void p2pa_f64(struct p2pa_bytes *b, uint16_t tag, double v) {
    if (v != 0) p2pa_field(b, tag, &v, 8);
}

P2PA_FN void p2pa_text(struct p2pa_bytes *b, uint16_t tag, const char *s) {
    if (s && *s) p2pa_field(b, tag, s, strlen(s));
}

P2PA_FN void p2pa_put_tensor(struct p2pa_bytes *b, const struct p2pa_tensor *t) {
    size_t name = strlen(t->name);
    p2pa_put16(b, 1);
    p2pa_put16(b, 0);
    p2pa_put32(b, (uint32_t)(8 + 8 * t->dims + name));
    p2pa_put32(b, t->dtype ? t->dtype : (uint32_t)P2PA_F32);
    p2pa_put32(b, t->dims);
    for (uint32_t i = 0; i < t->dims; i++) p2pa_put64(b, t->shape[i]);
    p2pa_put(b, t->name, name);
}

P2PA_FN void p2pa_put_piece(struct p2pa_bytes *b, const struct p2pa_piece *p, uint32_t dims) {
    uint32_t n = p->flat ? 1 : dims;
    p2pa_put16(b, 2);
    p2pa_put16(b, 0);
    p2pa_put32(b, 16 + 16 * n);
    p2pa_put64(b, p->tensor);
    p2pa_put64(b, p->flat ? 1 : 0);
    for (uint32_t i = 0; i < n; i++) p2pa_put64(b, p->offset[i]);
    for (uint32_t i = 0; i < n; i++) p2pa_put64(b, p->extent[i]);
}

/* A message that was received: its fields by tag. Tags from 16 on are unknown in version 1, and passed over. */
struct p2pa_message {
    uint16_t type;
    uint64_t id;
    const unsigned char *value[16];
    size_t bytes[16];
    int bad; /* a field of another size than it has, or one that is there twice */
    int twice[16];
};

/* Takes a body apart; 0 if it is none. */
P2PA_FN int p2pa_parse(struct p2pa_message *m, const unsigned char *p, size_t n) {
    memset(m->value, 0, sizeof m->value);
    memset(m->twice, 0, sizeof m->twice);
    m->bad = 0;
    while (n) {
        uint16_t tag;
        uint32_t size;
        if (n < 8) return 0;
        memcpy(&tag, p, 2);
        memcpy(&size, p + 4, 4);
        p += 8, n -= 8;
        if (size > n) return 0;
        if (tag < 16) {
            m->twice[tag] = m->value[tag] != NULL;
            m->value[tag] = p;
            m->bytes[tag] = size;
        }
        p += size, n -= size;
    }
    return 1;
}

P2PA_FN uint64_t p2pa_get(struct p2pa_message *m, int tag) {
    uint64_t v = 0;
    if (!m->value[tag]) return 0;
    if (m->bytes[tag] != 8 || m->twice[tag]) m->bad = 1;
    else memcpy(&v, m->value[tag], 8);
    return v;
}

P2PA_FN void p2pa_get_text(struct p2pa_message *m, int tag, char *out, size_t room) {
    size_t n = m->value[tag] ? m->bytes[tag] : 0;
    if (m->twice[tag]) m->bad = 1;
    if (n >= room) n = room - 1;
    if (n) memcpy(out, m->value[tag], n);
    out[n] = 0;
}

/* ---- The socket. ---- */

P2PA_FN int p2pa_fail(struct p2pa *a, int status, const char *text) {
    if (text != a->error) snprintf(a->error, sizeof a->error, "%s", text);
    return status;
}

P2PA_FN int p2pa_gone(struct p2pa *a) {
    return p2pa_fail(a, P2PA_GONE, "the node of this machine is gone: attach again when it is back");
}

P2PA_FN int p2pa_here(struct p2pa *a) {
    if (a->pid != getpid())
        return p2pa_fail(a, P2PA_ERROR, "this process is a child of the one that attached: attach in it anew");
    return a->fd < 0 ? p2pa_fail(a, P2PA_ERROR, "this rank is not attached to a node") : P2PA_OK;
}

P2PA_FN void p2pa_heard(struct p2pa *a) { a->quiet = 0, a->told = 0; }

/* Takes in that nothing came for half a second. What the node does for a slot may take hours: after SHARE its beat
 * counts. Before, it waits for the other ranks, and nothing shows whether it lives. */
P2PA_FN int p2pa_silent(struct p2pa *a) {
    double limit = a->config.timeout > 0 ? a->config.timeout : a->met ? 0 : 60;
    char text[1024];
    a->quiet += 0.5;
    if (a->start) {
        uint64_t beat;
        memcpy(&beat, a->map_start, 8);
        if (beat != a->beat) p2pa_heard(a);
        a->beat = beat;
    }
    if (a->quiet < P2PA_QUIET) return P2PA_OK;
    if (a->met && !a->start)
        snprintf(text, sizeof text, "rank %llu of %llu has waited %.0f s: other ranks have not attached, the node makes "
                 "the memory, or the node (pid %llu) is stopped or hangs: p2pdiloco status --data-dir %.600s says which",
                 (unsigned long long)a->config.rank, (unsigned long long)(a->config.world ? a->config.world : 1),
                 a->quiet, (unsigned long long)a->node_pid, a->data_dir);
    else if (a->met)
        snprintf(text, sizeof text, "the node of this machine (pid %llu) has shown no sign of life for %.0f s: it is "
                 "stopped or hangs: see p2pdiloco status --data-dir %.600s, and end it with kill -9 if it does not go on",
                 (unsigned long long)a->node_pid, a->quiet, a->data_dir);
    else
        snprintf(text, sizeof text, "the node of this machine has not answered for %.0f s: it is stopped or hangs: see "
                 "p2pdiloco status", a->quiet);
    if (limit > 0 && a->quiet >= limit && (a->start || !a->met)) return p2pa_fail(a, P2PA_GONE, text);
    if (!a->told && a->config.notice) a->config.notice(a, 1, text);
    else if (!a->told) fprintf(stderr, "p2pdiloco: %s\n", text);
    a->told = 1;
    return P2PA_OK;
}

P2PA_FN int p2pa_read(struct p2pa *a, void *to, size_t n) {
    unsigned char *p = (unsigned char *)to;
    while (n) {
        struct pollfd ready = {a->fd, POLLIN, 0};
        int some = poll(&ready, 1, 500), s = P2PA_OK;
        if (some == 0) s = p2pa_silent(a);
        if (s) return s;
        if (some == 0 || (some < 0 && errno == EINTR)) continue;
        p2pa_heard(a);
        union { struct cmsghdr align; char room[CMSG_SPACE(2 * sizeof(int))]; } control;
        struct iovec v = {p, n};
        struct msghdr h;
        memset(&h, 0, sizeof h);
        h.msg_iov = &v, h.msg_iovlen = 1;
        h.msg_control = control.room, h.msg_controllen = sizeof control.room;
        ssize_t got = recvmsg(a->fd, &h, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return p2pa_gone(a);
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
            if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
            int fds[2] = {-1, -1};
            size_t bytes = c->cmsg_len - CMSG_LEN(0);
            memcpy(fds, CMSG_DATA(c), bytes < sizeof fds ? bytes : sizeof fds);
            for (int i = 0; i < 2; i++) {
                if (a->fds[i] >= 0) close(a->fds[i]);
                a->fds[i] = fds[i];
                if (fds[i] >= 0) fcntl(fds[i], F_SETFD, FD_CLOEXEC);
            }
        }
        p += got, n -= (size_t)got;
    }
    return P2PA_OK;
}

/* The next message whose type this client knows. */
P2PA_FN int p2pa_receive(struct p2pa *a, struct p2pa_message *m) {
    unsigned char head[16];
    uint32_t size;
    int s = p2pa_read(a, head, sizeof head);
    if (s) return s;
    memcpy(&size, head, 4);
    memcpy(&m->type, head + 4, 2);
    memcpy(&m->id, head + 8, 8);
    if (size > P2PA_MAX_BODY) return p2pa_fail(a, P2PA_ERROR, "the node sent a message of more than 64 MiB");
    if (size > a->body_cap) {
        unsigned char *more = (unsigned char *)realloc(a->body, size);
        if (!more) return p2pa_fail(a, P2PA_ERROR, "out of memory");
        a->body = more, a->body_cap = size;
    }
    if ((s = p2pa_read(a, a->body, size))) return s;
    if (!p2pa_parse(m, a->body, size)) return p2pa_fail(a, P2PA_ERROR, "the node sent bytes that are no message");
    if (m->type == P2PA_ERROR_MESSAGE) {
        a->code = p2pa_get(m, 1);
        p2pa_get_text(m, 2, a->error, sizeof a->error);
        if (!a->error[0]) p2pa_fail(a, 0, "the node gave no reason");
        return a->code == P2PA_RUN_ENDED ? P2PA_ENDED : P2PA_ERROR;
    }
    if (m->type == P2PA_NOTICE) {
        char text[1024];
        int warning = p2pa_get(m, 1) > 0;
        p2pa_get_text(m, 2, text, sizeof text);
        if (a->config.notice) a->config.notice(a, warning, text);
        else if (a->config.rank == 0 || !a->start) fprintf(stderr, "p2pdiloco: %s\n", text);
        if (!a->start) a->told = 1; /* it has said for whom it waits: silence until SHARE is no news */
    } else if (m->type == P2PA_INFO) {
        p2pa_get_text(m, 1, a->run_id, sizeof a->run_id);
        p2pa_get_text(m, 3, a->mode, sizeof a->mode);
        a->inner_steps = p2pa_get(m, 4);
        a->last_slot = p2pa_get(m, 5);
    }
    return m->bad ? p2pa_fail(a, P2PA_ERROR, "the node sent a field of another size than it has") : P2PA_OK;
}

P2PA_FN int p2pa_send(struct p2pa *a, struct p2pa_bytes *b) {
    p2pa_seal(b);
    for (size_t at = 0; at < b->n;) {
        ssize_t n = send(a->fd, b->p + at, b->n - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) { /* the node's last word may lie in the socket */
            struct p2pa_message m;
            int s;
            while ((s = p2pa_receive(a, &m)) == P2PA_OK) {}
            return s;
        }
        at += (size_t)n;
    }
    return P2PA_OK;
}

P2PA_FN int p2pa_send_and_free(struct p2pa *a, struct p2pa_bytes *b) {
    int s = p2pa_send(a, b);
    free(b->p);
    return s;
}

P2PA_FN int p2pa_wait(struct p2pa *a, struct p2pa_message *m, int type, uint64_t id) {
    int s;
    do s = p2pa_receive(a, m);
    while (s == P2PA_OK && (m->type != type || m->id != id));
    return s;
}

/* ---- Attaching. ---- */

P2PA_FN void p2pa_drop(struct p2pa *a) {
    for (int i = 0; i < 2; i++) {
        if (a->fds[i] >= 0) close(a->fds[i]);
        a->fds[i] = -1;
    }
    if (a->fd >= 0) close(a->fd);
    if (a->start && a->config.unmap) a->config.unmap(a);
    if (a->map_start) munmap(a->map_start, 2 * a->size);
    free(a->writes);
    free(a->member_ids);
    a->fd = -1, a->trains = 0;
    a->map_start = a->map_local = a->writes = NULL;
    a->member_ids = NULL;
    a->start = NULL, a->local = NULL;
}

/* Closes the socket and unmaps the memory. */
P2PA_FN void p2pa_close(struct p2pa *a) {
    p2pa_drop(a);
    free(a->body);
    a->body = NULL, a->body_cap = 0;
}

P2PA_FN void p2pa_pack_hello(struct p2pa_bytes *b, uint64_t id, const struct p2pa_config *c, const char *client) {
    char pid[32];
    snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
    p2pa_head(b, P2PA_HELLO, id);
    p2pa_u64(b, 1, P2PA_VERSION);
    p2pa_u64(b, 2, c->rank);
    p2pa_u64(b, 3, c->world ? c->world : 1);
    p2pa_text(b, 4, c->set ? c->set : pid);
    p2pa_text(b, 5, c->run);
    p2pa_text(b, 6, client);
    p2pa_u64(b, 10, c->save ? 1 : 0);
    p2pa_seal(b);
}

P2PA_FN void p2pa_pack_layout(struct p2pa_bytes *b, uint64_t id, const struct p2pa_config *c) {
    p2pa_head(b, P2PA_LAYOUT, id);
    for (size_t i = 0; i < c->count; i++) p2pa_put_tensor(b, &c->tensors[i]);
    for (size_t i = 0; c->pieces && i < c->piece_count; i++)
        p2pa_put_piece(b, &c->pieces[i], c->tensors[c->pieces[i].tensor].dims);
    for (size_t i = 0; !c->pieces && i < c->count; i++) {
        struct p2pa_piece whole;
        memset(&whole, 0, sizeof whole);
        whole.tensor = i;
        memcpy(whole.extent, c->tensors[i].shape, sizeof whole.extent);
        p2pa_put_piece(b, &whole, c->tensors[i].dims);
    }
    p2pa_seal(b);
}

/* The elements of all tensors. */
P2PA_FN uint64_t p2pa_layout_elements(const struct p2pa_config *c) {
    uint64_t sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        uint64_t n = 1;
        for (uint32_t d = 0; d < c->tensors[i].dims; d++) n *= c->tensors[i].shape[d];
        sum += n;
    }
    return sum;
}

/* Whether a descriptor is of memory of that many bytes: to touch what lies beyond a file's end is a SIGBUS. */
P2PA_FN int p2pa_holds(int fd, uint64_t size) {
    struct stat s;
    return !fstat(fd, &s) && s.st_size >= 0 && (uint64_t)s.st_size >= size;
}

P2PA_FN int p2pa_map(struct p2pa *a, struct p2pa_message *m) {
    uint64_t offset = p2pa_get(m, 2), size = p2pa_get(m, 3);
    a->elements = p2pa_get(m, 1);
    a->epoch = p2pa_get(m, 4);
    if (m->bad || a->fds[1] < 0 || !m->value[5] || m->bytes[5] != a->piece_count || size > SIZE_MAX / 2 ||
        offset > size || offset % 8 || a->elements > (size - offset) / 4 || offset / 64 <= a->config.rank ||
        a->elements != p2pa_layout_elements(&a->config) || !p2pa_holds(a->fds[0], size) ||
        !p2pa_holds(a->fds[1], size))
        return p2pa_fail(a, P2PA_ERROR, "the node shares memory that does not fit this layout");
    a->size = (size_t)size;
    a->writes = (unsigned char *)malloc(a->piece_count + 1);
    void *room = mmap(NULL, 2 * a->size, PROT_NONE, MAP_SHARED, a->fds[1], 0); /* addresses for both */
    a->map_start = room == MAP_FAILED ? NULL : (unsigned char *)room;
    a->map_local = a->map_start ? a->map_start + a->size : NULL;
    if (!a->writes || !a->map_start ||
        mmap(a->map_start, a->size, PROT_READ, MAP_SHARED | MAP_FIXED, a->fds[0], 0) == MAP_FAILED ||
        mmap(a->map_local, a->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, a->fds[1], 0) == MAP_FAILED)
        return p2pa_fail(a, P2PA_ERROR, "the node's memory cannot be mapped");
    memcpy(a->writes, m->value[5], a->piece_count);
    a->start = (const float *)(a->map_start + offset);
    a->local = (float *)(a->map_local + offset);
    for (int i = 0; i < 2; i++) close(a->fds[i]), a->fds[i] = -1;
    return P2PA_OK;
}

P2PA_FN int p2pa_attach_once(struct p2pa *a, const char *path) {
    struct sockaddr_un to;
    struct p2pa_bytes b = {NULL, 0, 0};
    struct p2pa_message m;
    int s;
    memset(&to, 0, sizeof to);
    to.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof to.sun_path)
        return p2pa_fail(a, P2PA_ERROR, "the path of the node's socket is too long");
    memcpy(to.sun_path, path, strlen(path));
    if ((a->fd = socket(AF_UNIX, SOCK_STREAM, 0)) < 0) return p2pa_fail(a, P2PA_ERROR, strerror(errno));
    fcntl(a->fd, F_SETFD, FD_CLOEXEC);
    a->met = 0;
    p2pa_heard(a);
#ifdef SO_NOSIGPIPE
    int on = 1;
    setsockopt(a->fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    if (connect(a->fd, (struct sockaddr *)&to, sizeof to) < 0) {
        snprintf(a->error, sizeof a->error,
                 "no node listens at %s (%s): start one with p2pdiloco join --run RUN -- COMMAND",
                 path, strerror(errno));
        return P2PA_GONE;
    }
    p2pa_pack_hello(&b, ++a->last_id, &a->config, "C 1.0");
    if ((s = p2pa_send(a, &b)) == P2PA_OK && (s = p2pa_wait(a, &m, P2PA_WELCOME, a->last_id)) == P2PA_OK) {
        uint64_t major = p2pa_get(&m, 1) >> 16;
        p2pa_get_text(&m, 3, a->data_dir, sizeof a->data_dir);
        a->node_pid = p2pa_get(&m, 4), a->met = 1;
        if (major != P2PA_VERSION >> 16) {
            snprintf(a->error, sizeof a->error, "this client speaks attach protocol %d, the node %d: install the same "
                     "release of both", (int)(P2PA_VERSION >> 16), (int)major);
            s = P2PA_ERROR;
        }
    }
    if (s == P2PA_OK) {
        p2pa_pack_layout(&b, ++a->last_id, &a->config);
        if ((s = p2pa_send(a, &b)) == P2PA_OK && (s = p2pa_wait(a, &m, P2PA_SHARE, a->last_id)) == P2PA_OK)
            s = p2pa_map(a, &m);
    }
    free(b.p);
    return s;
}

/* Attaches to a node. Where none listens, or another trainer has it, it tries again for config.timeout. After
 * P2PA_GONE, and after a code of P2PA_NOT_FINITE, call it again with another set: the next border loads the anchor. */
P2PA_FN int p2pa_attach(struct p2pa *a, const struct p2pa_config *c) {
    const char *path = c->path ? c->path : getenv("P2PDILOCO_ATTACH");
    struct timespec began, now, nap = {0, 200000000};
    memset(a, 0, sizeof *a);
    a->config = *c;
    a->fd = a->fds[0] = a->fds[1] = -1;
    a->pid = getpid();
    a->piece_count = c->pieces ? c->piece_count : c->count;
    if (!path || !*path)
        return p2pa_fail(a, P2PA_ERROR, "no socket is named: run this with p2pdiloco join --run RUN -- COMMAND, or set "
                                        "P2PDILOCO_ATTACH");
    if (c->world > 1 && !c->set)
        return p2pa_fail(a, P2PA_ERROR, "several ranks, and no set: give all of them the same text, and another one at "
                                        "every start");
    if (!c->params && (!c->load || !c->export_range))
        return p2pa_fail(a, P2PA_ERROR, "give params, or load and export_range");
    if (c->pieces && !c->export_range)
        return p2pa_fail(a, P2PA_ERROR, "pieces are given, and no export_range: give it, because only it knows where "
                                        "they lie; without it all of params is written");
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (;;) {
        int s = p2pa_attach_once(a, path);
        if (s == P2PA_OK) return s;
        p2pa_drop(a);
        clock_gettime(CLOCK_MONOTONIC, &now);
        double waited = (double)(now.tv_sec - began.tv_sec) + 1e-9 * (double)(now.tv_nsec - began.tv_nsec);
        if ((s != P2PA_GONE && a->code != P2PA_BUSY) || waited > (c->timeout > 0 ? c->timeout : 60)) {
            p2pa_close(a);
            return s;
        }
        a->code = 0;
        nanosleep(&nap, NULL);
    }
}

/* ---- Training. ---- */

P2PA_FN void p2pa_load(struct p2pa *a, uint64_t begin, uint64_t end) {
    if (a->config.load) a->config.load(a, begin, end);
    else memcpy(a->config.params + begin, a->start + begin, sizeof(float) * (size_t)(end - begin));
}

P2PA_FN void p2pa_export(struct p2pa *a, uint64_t begin, uint64_t end, int gradient) {
    if (a->config.export_range) {
        a->config.export_range(a, begin, end, gradient);
        return;
    }
    uint64_t first = 0;
    for (size_t k = 0; k < a->config.count; k++) { /* params is all of the model: piece k is tensor k */
        uint64_t n = 1;
        for (uint32_t d = 0; d < a->config.tensors[k].dims; d++) n *= a->config.tensors[k].shape[d];
        uint64_t low = first > begin ? first : begin, high = first + n < end ? first + n : end;
        first += n;
        if (!a->writes[k]) continue;
        for (uint64_t i = low; i < high; i++) {
            float live = a->config.params[i];
            a->local[i] = gradient ? a->start[i] - live : live;
        }
    }
}

P2PA_FN void p2pa_pack_done(struct p2pa_bytes *b, uint64_t id, uint64_t status, const char *text, double loss) {
    p2pa_head(b, P2PA_DONE, id);
    p2pa_u64(b, 1, status);
    p2pa_text(b, 2, text);
    p2pa_f64(b, 3, loss);
    p2pa_seal(b);
}

/* Does what the node asks for, and says how that went. */
P2PA_FN int p2pa_answer(struct p2pa *a, struct p2pa_message *m) {
    uint64_t id = m->id, begin = p2pa_get(m, 1), end = p2pa_get(m, 2), status = 0;
    double loss = 0;
    char folder[4096], path[4200];
    struct p2pa_bytes b = {NULL, 0, 0};
    int wrong = 0;
    switch (m->type) {
    case P2PA_FILL:
        if (a->config.fill) a->config.fill(a);
        else p2pa_export(a, 0, a->elements, 0);
        break;
    case P2PA_LOAD:
    case P2PA_EXPORT:
        if (m->bad || begin > end || end > a->elements)
            return p2pa_fail(a, P2PA_ERROR, "the node asks for a range that is not there");
        if (m->type == P2PA_LOAD) p2pa_load(a, begin, end);
        else p2pa_export(a, begin, end, p2pa_get(m, 3) == 1);
        break;
    case P2PA_EVALUATE:
        if (!a->config.evaluate) status = 1;
        else wrong = a->config.evaluate(a, &loss);
        break;
    case P2PA_SAVE:
    case P2PA_RESTORE:
        m->bad = 0; /* tag 1 is a text here */
        p2pa_get_text(m, 1, folder, sizeof folder);
        snprintf(path, sizeof path, "%s/rank-%llu", folder, (unsigned long long)a->config.rank);
        if (m->type == P2PA_SAVE && !a->config.save) status = 1;
        else if (m->type == P2PA_SAVE) wrong = a->config.save(a, path);
        else if (!a->config.restore) status = 1;
        else if (folder[0]) wrong = a->config.restore(a, folder, end);
        break;
    default: return P2PA_OK; /* NOTICE, INFO, CANCEL, or a type of a later version */
    }
    p2pa_pack_done(&b, id, wrong ? 2 : status, wrong ? "the trainer's function has failed" : NULL, loss);
    return p2pa_send_and_free(a, &b);
}

P2PA_FN void p2pa_pack_offer(struct p2pa_bytes *b, uint64_t id, const struct p2pa_offer *o) {
    p2pa_head(b, P2PA_OFFER, id);
    p2pa_u64(b, 1, o->steps);
    p2pa_u64(b, 2, o->tokens);
    p2pa_u64(b, 3, o->samples);
    p2pa_f64(b, 4, o->loss);
    p2pa_f64(b, 5, o->grad_norm);
    p2pa_f64(b, 6, o->seconds);
    p2pa_seal(b);
}

/* Saves the private state in a folder, 0 is done. The file is there when it is whole, and empty if there is none. */
P2PA_FN int p2pa_keep(struct p2pa *a, const char *folder) {
    char path[4200], made[4210];
    int fd;
    snprintf(path, sizeof path, "%s/rank-%llu", folder, (unsigned long long)a->config.rank);
    snprintf(made, sizeof made, "%s.new", path);
    if (a->config.save && !a->config.save(a, made) && !rename(made, path)) return 0;
    unlink(made);
    if ((fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600)) >= 0) close(fd);
    return 1;
}

/* Saves that of a round's beginning. */
P2PA_FN void p2pa_keep_first(struct p2pa *a, struct p2pa_message *m) {
    struct timespec began, now;
    char folder[4096];
    p2pa_get_text(m, 13, folder, sizeof folder);
    a->kept[0] = 0;
    if (!folder[0]) return;
    clock_gettime(CLOCK_MONOTONIC, &began);
    int failed = p2pa_keep(a, folder);
    clock_gettime(CLOCK_MONOTONIC, &now);
    double took = (double)(now.tv_sec - began.tv_sec) + 1e-9 * (double)(now.tv_nsec - began.tv_nsec);
    if (!failed && took < 1 && !strcmp(a->mode, "sync")) memcpy(a->kept, folder, sizeof folder);
}

/* Saves that of a round's end. */
P2PA_FN void p2pa_keep_last(struct p2pa *a) {
    char folder[4110];
    if (!a->kept[0]) return;
    snprintf(folder, sizeof folder, "%s/next", a->kept);
    if (!mkdir(folder, 0700) || errno == EEXIST) p2pa_keep(a, folder);
}

P2PA_FN int p2pa_take_train(struct p2pa *a, struct p2pa_message *m) {
    struct p2pa_train t = {
        m->id, p2pa_get(m, 1), p2pa_get(m, 2), p2pa_get(m, 3), p2pa_get(m, 4), p2pa_get(m, 5), p2pa_get(m, 6),
        p2pa_get(m, 7), p2pa_get(m, 8), p2pa_get(m, 9), p2pa_get(m, 10), p2pa_get(m, 11),
        p2pa_get(m, 14), p2pa_get(m, 15),
    };
    size_t ids = m->value[12] ? m->bytes[12] : 0;
    if (m->bad) return p2pa_fail(a, P2PA_ERROR, "the node sent a TRAIN that cannot be read");
    free(a->member_ids);
    if (!(a->member_ids = (char *)malloc(ids + 1))) return p2pa_fail(a, P2PA_ERROR, "out of memory");
    p2pa_get_text(m, 12, a->member_ids, ids + 1);
    a->train = t;
    a->trains = 1;
    p2pa_keep_first(a, m);
    return P2PA_OK;
}

/* Offers what was trained since the last border (NULL at first), and does what the node asks for until it asks for
 * inner steps: a->train. P2PA_ENDED is the run's end: the model is its last one. */
P2PA_FN int p2pa_border(struct p2pa *a, const struct p2pa_offer *offer) {
    struct p2pa_message m;
    int s = p2pa_here(a);
    if (s == P2PA_OK) s = a->failed;
    if (s == P2PA_OK && offer && a->trains) {
        struct p2pa_bytes b = {NULL, 0, 0};
        if (a->train.export_kind == 1) p2pa_export(a, 0, a->elements, 1);
        p2pa_keep_last(a);
        a->trains = 0;
        p2pa_pack_offer(&b, a->train.id, offer);
        s = p2pa_send_and_free(a, &b);
    }
    while (s == P2PA_OK && (s = p2pa_receive(a, &m)) == P2PA_OK) {
        if (m.type != P2PA_TRAIN) s = p2pa_answer(a, &m);
        else if ((s = p2pa_take_train(a, &m)) == P2PA_OK) return s;
    }
    if (a->pid == getpid()) p2pa_close(a);
    return s;
}

P2PA_FN void p2pa_pack_at(struct p2pa_bytes *b, uint64_t id, uint64_t train, uint64_t steps) {
    p2pa_head(b, P2PA_AT, id);
    p2pa_u64(b, 1, train);
    p2pa_u64(b, 2, steps);
    p2pa_seal(b);
}

/* Says that so many steps of the TRAIN are done, and asks the node whether to go on where it wants to be asked. If
 * not P2PA_GO_ON, call p2pa_border with these steps; a failure is returned there. */
P2PA_FN int p2pa_step(struct p2pa *a, uint64_t steps) {
    struct p2pa_message m;
    if (p2pa_here(a) || a->failed) return P2PA_GIVE_UP;
    memcpy(a->map_local + 64 * a->config.rank, &steps, 8);
    if (steps >= a->train.steps) return P2PA_GO_ON;
    while (a->train.look && a->train.look <= steps) { /* at each look, also where steps are counted in leaps */
        struct p2pa_bytes b = {NULL, 0, 0};
        p2pa_pack_at(&b, ++a->last_id, a->train.id, a->train.look);
        if (!(a->failed = p2pa_send_and_free(a, &b)))
            a->failed = p2pa_wait(a, &m, P2PA_GO, a->last_id);
        if (a->failed) return P2PA_GIVE_UP;
        a->train.look = p2pa_get(&m, 2);
        if (p2pa_get(&m, 1) == 0) continue;
        a->train.export_kind = 0; /* after "give up" nothing is exported */
        return P2PA_GIVE_UP;
    }
    return P2PA_GO_ON;
}

P2PA_FN void p2pa_pack_leave(struct p2pa_bytes *b, uint64_t id, const char *reason, int run) {
    p2pa_head(b, P2PA_LEAVE, id);
    p2pa_text(b, 1, reason);
    p2pa_u64(b, 2, run ? 1 : 0);
    p2pa_seal(b);
}

/* Says goodbye and closes. run: the peer leaves the run, too. */
P2PA_FN void p2pa_leave(struct p2pa *a, const char *reason, int run) {
    if (p2pa_here(a) == P2PA_OK) {
        struct p2pa_bytes b = {NULL, 0, 0};
        p2pa_pack_leave(&b, ++a->last_id, reason, run);
        p2pa_send_and_free(a, &b);
    }
    if (a->pid == getpid()) p2pa_close(a);
}

#endif
